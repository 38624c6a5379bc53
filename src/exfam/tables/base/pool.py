"""Predictions of several members pooled in log space, by the share of cells that are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_softmax, softmax

from exfam.tables.base.gaps import unevenness

# Shares of missing cells at which weights are learned; between them they are interpolated.
SHARES = (0.0, 0.15, 0.35, 0.65, 1.0)
# Weights are shrunk to equal ones as if by so many rows, those of the first member, which knows
# nothing of a row, and of numbers' ridge regression to this multiple (a logarithm) of the others'.
_ROWS_OF_SHRINKAGE = 1.0
# A temperature above 1 is soon sure of all of a few rows.
_ROWS_OF_TEMPERATURE = 5.0
_LOG_OF_APART = -2.0
# Of labels of fewer rows than about so many, the first member counts as much as each other or more.
_ROWS_ALONE = 10.0
_STEPS = 100
# Lighter tails than the last gain nothing on real tables, and lose several nats where new rows are
# not like those of training: rows outside, and those later than training, have at most HEAVY.
DEGREES, HEAVY = (3.0, 4.0, 8.0), 4.0
# Of roots of counts, so that counts have a variance.
DEGREES_OF_ROOTS = (4.05, 8.0, 16.0)
# How much doubt adds to the scale of rows far outside of those of training, of which held rows say
# nothing.
_OUTSIDE = 3.0
# Of locations, in standard units: where members agree on all there is nothing to be sure of.
_LEAST_VARIANCE = 1e-12
_TINY = float(np.finfo(np.float64).tiny)

Free = Float64[np.ndarray, " free"]
Rows = Float64[np.ndarray, "rows"]
Bins = tuple[Rows, Rows]


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of members at each of SHARES; they sum to 1 times the temperature.

    `scale`: of numbers, an added log scale, the factor of the network's own, and how much members'
        disagreement widens it; `df`: of theirs
    `by_gap`: of numbers, what a missing cell of each column adds to the log scale, compared with
        others', at each of SHARES but the first and last; None of labels and of older pools
    """

    weights: Float64[np.ndarray, "shares members"]
    scale: Float64[np.ndarray, "shares 3"]
    df: float = 4.0
    by_gap: Float64[np.ndarray, "shares_between columns"] | None = None

    def at(
        self, share: Float64[np.ndarray, "rows"]
    ) -> tuple[Float64[np.ndarray, "rows members"], Float64[np.ndarray, "rows 3"]]:
        """Weights and scales of rows with these shares of missing cells."""
        both = np.hstack([self.weights, self.scale])
        at = np.stack([np.interp(share, SHARES, column) for column in both.T], axis=1)
        return at[:, : self.weights.shape[1]], at[:, self.weights.shape[1] :]

    def by_gaps(
        self, missing: Bool[np.ndarray, "rows columns"], share: Float64[np.ndarray, "rows"]
    ) -> Float64[np.ndarray, "rows"]:
        """What is added to the log scale by which cells are missing."""
        if self.by_gap is None:
            return np.zeros(len(missing))
        effects = [np.interp(share, SHARES[1:-1], column) for column in self.by_gap.T]
        uneven = unevenness(missing)
        return np.einsum("rc,cr->r", uneven, np.reshape(effects, uneven.T.shape))


def widened(
    scales: Float64[np.ndarray, "#rows 3"],
    log_scale: Float64[np.ndarray, "rows"],
    inner: Float64[np.ndarray, "rows"],
    outer: float | Float64[np.ndarray, "rows"] = 0.0,
) -> Float64[np.ndarray, "rows"]:
    """The log scale of a pool of numbers, with variances of members' locations added.

    `inner`: by `disagreement`, of which held rows say how much counts; `outer`: by `doubt_outside`
    """
    added, factor, share = scales.T
    log_variance = np.log(np.maximum(share**2 * inner + outer, _LEAST_VARIANCE))
    wider: np.ndarray = 0.5 * np.logaddexp(2 * (added + factor * log_scale), log_variance)
    return wider


def disagreement(
    locations: Sequence[Float64[np.ndarray, "members rows"]], *, n_apart: int
) -> Float64[np.ndarray, "rows"]:
    """The variance of the locations of all members, of each fold, but the first."""
    return np.concatenate([own[n_apart:] for own in locations]).var(0)


def doubt_outside(
    locations: Sequence[Float64[np.ndarray, "members rows"]],
    weights: Float64[np.ndarray, "rows members"],
    outside: Float64[np.ndarray, "rows"],
    *,
    n_apart: int,
) -> Float64[np.ndarray, "rows"]:
    """The variance that is added where rows lie `outside` of those of training, by `View.outside`.

    It is that of `disagreement`, and ridge regression's distance from the pool by its weight.
    """
    every, ridge = np.stack(locations), weights[:, 1:n_apart].T
    pooled = np.einsum("rm,fmr->r", weights, every) / len(every)
    distance = ((every[:, 1:n_apart] - pooled) ** 2).mean(0)
    variance = (1 - ridge.sum(0)) * disagreement(locations, n_apart=n_apart)
    doubt: np.ndarray = variance + (ridge * distance).sum(0)
    return (_OUTSIDE * outside / (1 + outside)) ** 2 * doubt


def tails(df: float, outside: Float64[np.ndarray, "rows"]) -> Float64[np.ndarray, "rows"]:
    """Degrees of freedom of rows, heavier the further they lie `outside` of those of training."""
    degrees: np.ndarray = np.maximum(df / (1 + outside), min(df, HEAVY))
    return degrees


def pool_labels(
    log_probs: Sequence[Float64[np.ndarray, "members rows labels"]],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    sharpens: bool = True,
) -> Pool:
    """The pool of labels of least nats; `log_probs`: of rows held out, at each of SHARES.

    `sharpens`: whether it may be surer than its members; not of rows that these were not like
    """
    weights, share = [], weight / weight.sum()
    for outputs in log_probs:
        free = _minimum(_LabelNats(outputs, y.astype(np.int64), share), len(outputs) + 1)
        temperature = np.exp(free[-1] if sharpens else min(free[-1], 0.0))
        weights.append(_shares_of_labels(free[:-1], len(y)) * temperature)
    return Pool(np.stack(weights), np.zeros((len(weights), 3)))


@dataclass(frozen=True, eq=False)
class _LabelNats:
    """Nats of a pool and their derivatives, by free numbers for members and the temperature."""

    outputs: Float64[np.ndarray, "members rows labels"]
    y: Int64[np.ndarray, "rows"]
    share: Float64[np.ndarray, "rows"]

    def __call__(self, free: Free) -> tuple[float, Free]:
        shares, temperature = _shares_of_labels(free[:-1], len(self.y)), np.exp(free[-1])
        flat, rows = self.outputs.reshape(len(shares), -1), np.arange(len(self.y))
        mixed = (temperature * shares @ flat).reshape(self.outputs.shape[1:])
        log_prob = log_softmax(mixed, axis=1)
        slope = np.exp(log_prob)
        slope[rows, self.y] -= 1.0
        by_member = temperature * (flat @ (slope * self.share[:, None]).ravel())
        total = shares @ by_member
        by_free = np.append(shares * (by_member - total), total)
        shrinkage = np.full(len(free), _ROWS_OF_SHRINKAGE / len(self.y))
        shrinkage[-1] = _ROWS_OF_TEMPERATURE / len(self.y)
        value = shrinkage @ free**2 - self.share @ log_prob[rows, self.y]
        return float(value), by_free + 2 * shrinkage * free


def pool_numbers(
    locations: Sequence[Float64[np.ndarray, "members rows"]],
    log_scales: Sequence[Float64[np.ndarray, "rows"]],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    widens: bool = True,
    least: float = 0.0,
    n_apart: int = 1,
    bins: Bins | None = None,
) -> Pool:
    """The pool of numbers of least nats, its degrees of freedom by those of complete rows.

    `bins`: of counts, where each one's begins and how wide it is, in place of `y`
    `least`: the least scale of a distribution
    `n_apart`: the first members, whose disagreement with others says nothing: constant and ridge
    `widens`: whether members' disagreement adds to the scale; not where later members, fitted to
        the rows given here as well, will disagree less than these
    """
    share, log_least = weight / weight.sum(), float(np.log(max(least, _TINY)))
    variances = [disagreement([own], n_apart=n_apart) * widens for own in locations]
    parts = [
        _NumberNats(own, log_scale, np.log(np.maximum(variance, _LEAST_VARIANCE)), y, share)
        for own, log_scale, variance in zip(locations, log_scales, variances, strict=True)
    ]
    rules: dict[str, Any] = {"log_least": log_least, "n_apart": n_apart, "bins": bins}
    n_free = len(locations[0]) + 3
    first = []
    degrees = DEGREES if bins is None else DEGREES_OF_ROOTS
    for df in [df for df in degrees if widens or df <= max(HEAVY, degrees[0])]:
        nats = replace(parts[0], df=df, **rules)
        free = _minimum(nats, n_free)
        first.append((nats(free)[0], df, free))
    _, df, free = min(first, key=lambda fit: fit[0])
    more = (_minimum(replace(part, df=df, **rules), n_free) for part in parts[1:])
    every = np.stack([free, *more])
    scales = np.column_stack([every[:, -3], 1 + every[:, -2], widens * np.exp(every[:, -1])])
    return Pool(np.stack([_shares(own, n_apart) for own in every[:, :-3]]), scales, df)


@dataclass(frozen=True, eq=False)
class _NumberNats:
    """The same of numbers, by free numbers for members, the scale and what widens it."""

    location: Float64[np.ndarray, "members rows"]
    log_scale: Float64[np.ndarray, "rows"]
    log_variance: Float64[np.ndarray, "rows"]
    y: Float64[np.ndarray, "rows"]
    share: Float64[np.ndarray, "rows"]
    df: float = DEGREES[0]
    log_least: float = -np.inf
    n_apart: int = 1
    bins: Bins | None = None

    def __call__(self, free: Free) -> tuple[float, Free]:
        shares, df = _shares(free[:-3], self.n_apart), self.df
        shrinkage = _ROWS_OF_SHRINKAGE / len(self.y)
        mixed, (added, factor, spread) = shares @ self.location, free[-3:]
        both = 2 * (added + (1 + factor) * self.log_scale), 2 * spread + self.log_variance
        scale = np.logaddexp(*both) / 2
        narrow = scale < self.log_least
        scale = np.where(narrow, self.log_least, scale)
        own, by_location, by_scale = (
            _student_nats(self.y, mixed, scale, df)
            if self.bins is None
            else _bin_nats(self.bins, mixed, scale, df)
        )
        by_scale = np.where(narrow, 0.0, self.share * by_scale)
        by_own = by_scale * expit(both[0] - both[1])
        by_member = self.location @ (self.share * by_location)
        by_scales = [by_own.sum(), by_own @ self.log_scale, (by_scale - by_own).sum()]
        by_free = np.append(shares * (by_member - shares @ by_member), by_scales)
        shrunk = free.copy()
        shrunk[-3] = 0.0
        value = self.share @ own + shrinkage * (shrunk @ shrunk)
        return float(value), by_free + 2 * shrinkage * shrunk


def _student_nats(y: Rows, location: Rows, log_scale: Rows, df: float) -> tuple[Rows, Rows, Rows]:
    """Of Student's t, with derivatives by location and by log scale."""
    z = (y - location) * np.exp(-log_scale)
    nats = (df + 1) / 2 * np.log1p(z**2 / df) + log_scale - _log_normalizer(df)
    slope = (df + 1) * z / (df + z**2)
    return nats, -slope * np.exp(-log_scale), 1 - slope * z


def _bin_nats(bins: Bins, location: Rows, log_scale: Rows, df: float) -> tuple[Rows, Rows, Rows]:
    """The same of Student's t in bins."""
    from exfam.families.bin_mass import bin_masses

    log_mass, by_location, by_scale = bin_masses(*bins, location, log_scale, df)
    return -log_mass, -by_location, -by_scale


def _log_normalizer(df: float) -> float:
    """Of Student's t: the log-density at its center."""
    return float(gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi))


def _minimum(nats: Callable[[Free], tuple[float, Free]], n_numbers: int) -> Free:
    options = {"maxiter": _STEPS, "ftol": 1e-12, "gtol": 1e-7}
    start = np.zeros(n_numbers)
    minimum: Free = minimize(nats, start, jac=True, method="L-BFGS-B", options=options).x
    return minimum


def _shares(
    free: Float64[np.ndarray, " members"], n_apart: int = 1, *, usual: float = _LOG_OF_APART
) -> Float64[np.ndarray, " members"]:
    """Weights that sum to 1; `usual`: a logarithm, of the first members'."""
    shares: np.ndarray = softmax(np.append(free[:n_apart] + usual, free[n_apart:]))
    return shares


def _shares_of_labels(
    free: Float64[np.ndarray, " members"], n_rows: int
) -> Float64[np.ndarray, " members"]:
    return _shares(free, usual=max(_LOG_OF_APART, np.log(_ROWS_ALONE / n_rows)))
