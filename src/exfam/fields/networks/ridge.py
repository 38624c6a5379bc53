"""Closed-form normal baselines of fields: a ridge covariance, and ridge regressions site by site.

Both see a map as one row of anomalies from the climate, a slot for each site of the map and of the
maps before it, and the second moments of the training rows, S. They differ in what the ridge is
chosen for: one for the whole law, or one for each site.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.checks import DataError
from exfam.fields.networks.joint_normal import JointNormal, Rows, fit_normal, leave_one_out
from exfam.fields.networks.slots import Placed, n_lags_of, slot_rows, slot_table, time_folds
from exfam.groups import Batch, Groups

__all__ = [
    "RIDGES",
    "RidgeCovariancePart",
    "RidgeSitePart",
    "fit_ridge_covariance",
    "fit_ridge_site",
]

# In units of the anomalies' mean variance. The largest leaves a site little but its own mean.
RIDGES = tuple(10.0 ** (k / 4) for k in range(-14, 5))
N_FOLDS = 6

# Of values in units of their spread: below it there is nothing but rounding.
_LEAST_VARIANCE = 1e-24

# Held-out sites count as much as this many of the average one when their errors are judged.
COMMON_ROWS = 5.0

Prediction = tuple[Float[Tensor, "rows predicted"], Float[Tensor, "rows predicted"]]


class RidgeCovariancePart(nn.Module):
    """Each site given all others that are observed, under one joint normal law S + ridge I.

    Exact for any subset observed, of the map and of the maps before it. The variance is that of
    the law times `inflation`, its mean squared error on held-out maps in units of its variance.
    A site that training never observed has the climate's location and scale, widened by the
    climate's doubt, and informs no other. `climate` gives (location, scale, doubt) of a batch.
    """

    direction = "bidirectional"
    mean: Tensor
    covariance: Tensor
    seen: Tensor
    inflation: Tensor
    ridge: Tensor

    def __init__(self, climate: nn.Module, *, n_sites: int, n_lags: int = 0) -> None:
        super().__init__()
        self.climate, self.n_sites, self.n_lags = climate, n_sites, n_lags
        n_slots = n_sites * (n_lags + 1)
        self.register_buffer("mean", torch.zeros(n_slots, dtype=torch.float64))
        self.register_buffer("covariance", torch.eye(n_slots, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(n_slots, dtype=torch.bool))
        self.register_buffer("inflation", torch.ones((), dtype=torch.float64))
        self.register_buffer("ridge", torch.zeros((), dtype=torch.float64))

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log scale of every own element, given the observed others."""
        placed = slot_rows(batch, self.climate, n_sites=self.n_sites, n_lags=self.n_lags)
        rows = Rows(placed.rows.value, placed.rows.known & self.seen)
        mean, variance = leave_one_out(JointNormal(self.mean, self.covariance), rows)
        return _eta(placed, self.seen, mean, self.inflation * variance)


class RidgeSitePart(nn.Module):
    """One ridge regression a site on all other slots of the row, each with a penalty of its own.

    A predictor that is not observed enters at its expectation given nothing, its mean, and the
    variance grows by that of what it would have added, b^T S b over the missing coefficients b:
    the first rows of a season, without maps before them, are predicted like that too. Variances
    are multiplied by the site's `inflation`, its mean squared error on held-out maps in units of
    them. A site that training never observed has the climate's location and scale, widened by the
    climate's doubt, and informs no other. `climate` gives (location, scale, doubt) of a batch.
    """

    direction = "bidirectional"
    mean: Tensor
    coefficients: Tensor
    residual: Tensor
    moments: Tensor
    seen: Tensor
    inflation: Tensor
    ridge: Tensor

    def __init__(self, climate: nn.Module, *, n_sites: int, n_lags: int = 0) -> None:
        super().__init__()
        self.climate, self.n_sites, self.n_lags = climate, n_sites, n_lags
        n_slots = n_sites * (n_lags + 1)
        self.register_buffer("mean", torch.zeros(n_slots, dtype=torch.float64))
        self.register_buffer("coefficients", torch.zeros(n_sites, n_slots, dtype=torch.float64))
        self.register_buffer("residual", torch.ones(n_sites, dtype=torch.float64))
        self.register_buffer("moments", torch.eye(n_slots, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(n_slots, dtype=torch.bool))
        self.register_buffer("inflation", torch.ones(n_sites, dtype=torch.float64))
        self.register_buffer("ridge", torch.zeros(n_sites, dtype=torch.float64))

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log scale of every own element, given the observed others."""
        placed = slot_rows(batch, self.climate, n_sites=self.n_sites, n_lags=self.n_lags)
        rows = Rows(placed.rows.value, placed.rows.known & self.seen)
        lines = _Lines(self.coefficients, self.residual)
        mean, variance = _predict_lines(lines, JointNormal(self.mean, self.moments), rows)
        return _eta(placed, self.seen, mean, self.inflation * variance)


def fit_ridge_covariance(
    groups: Groups,
    *,
    climate: nn.Module,
    validation: Groups | None = None,
    ridges: Sequence[float] = RIDGES,
) -> RidgeCovariancePart:
    """The law of the training maps; the ridge with the best leave-one-out likelihood held out.

    Held out are the maps of `validation`, or else folds of the training maps: whole seasons where
    time has long gaps, blocks of time otherwise. Cells that are missing in training are integrated
    out by expectation-maximization. `ridges` are in units of the anomalies' mean variance.
    Raises DataError for fewer than 2 maps, where no site has 2 observed values, or where they never
    vary.

    >>> import numpy as np
    >>> from exfam.fields.networks.climate import empty_climate
    >>> groups = Groups(start=np.arange(0, 40, 2), stop=np.arange(2, 42, 2),
    ...     item=np.tile([0, 1], 20), values={"t": np.sin(np.arange(40) // 2)},
    ...     group_attributes={"time": np.arange(20.0)})
    >>> sizes = {"n_sites": 2, "n_dims": 2, "metric": "euclidean", "period": 1.0, "step": 1.0}
    >>> part = fit_ridge_covariance(groups, climate=empty_climate("none", **sizes))
    >>> bool((part.eta(groups.pad([3]))[..., 0] - np.sin(3)).abs().max() < 0.01)
    True
    """
    part = RidgeCovariancePart(climate, n_sites=groups.n_items, n_lags=n_lags_of(groups))
    trial = _try(part, groups, validation, ridges=ridges, predict=_given_the_others)
    # The scale that fits best, and the negative log-likelihood with it but for constants.
    ratio = (trial.error / trial.variance).sum((1, 2)) / trial.known.sum()
    nats = 0.5 * ratio.log() + 0.5 * trial.variance.log().sum((1, 2)) / trial.known.sum()
    best = int(nats.argmin())
    law = fit_normal(trial.rows, ridge=trial.ridges[best])
    part.mean.copy_(law.mean)
    part.covariance.copy_(law.covariance)
    part.inflation.copy_(ratio[best])
    part.ridge.fill_(trial.ridges[best])
    return part


def fit_ridge_site(
    groups: Groups,
    *,
    climate: nn.Module,
    validation: Groups | None = None,
    ridges: Sequence[float] = RIDGES,
) -> RidgeSitePart:
    """A regression a site; its penalty is the one with the smallest squared error held out.

    Held out are the maps of `validation`, or else folds of the training maps, as in
    `fit_ridge_covariance`; the same maps give the scale of the residuals. Where training misses
    cells, the moments of the regressions come from expectation-maximization.
    Raises DataError for fewer than 2 maps, or where no site has 2 observed values.

    >>> import numpy as np
    >>> from exfam.fields.networks.climate import empty_climate
    >>> groups = Groups(start=np.arange(0, 40, 2), stop=np.arange(2, 42, 2),
    ...     item=np.tile([0, 1], 20), values={"t": np.sin(np.arange(40) // 2)},
    ...     group_attributes={"time": np.arange(20.0)})
    >>> sizes = {"n_sites": 2, "n_dims": 2, "metric": "euclidean", "period": 1.0, "step": 1.0}
    >>> part = fit_ridge_site(groups, climate=empty_climate("none", **sizes))
    >>> bool((part.eta(groups.pad([3]))[..., 0] - np.sin(3)).abs().max() < 0.01)
    True
    """
    part = RidgeSitePart(climate, n_sites=groups.n_items, n_lags=n_lags_of(groups))
    trial = _try(part, groups, validation, ridges=ridges, predict=_given_all_slots)
    count = trial.known.sum(0)
    total = trial.error.sum(1) + COMMON_ROWS * trial.error.sum((1, 2))[:, None] / count.sum()
    best = total.argmin(0)
    site = torch.arange(part.n_sites)
    ratio = (trial.error / trial.variance).sum(1)[best, site]
    common = COMMON_ROWS * ratio.sum() / count.sum()
    part.inflation.copy_((ratio + common) / (count + COMMON_ROWS))
    part.ridge.copy_(torch.tensor(trial.ridges, dtype=torch.float64)[best])
    _fill_lines(part, trial.rows)
    return part


def _fill_lines(part: RidgeSitePart, rows: Rows) -> None:
    """Each site's regression under its own ridge; the moments under the smallest of them."""
    law: JointNormal | None = None
    for ridge in sorted(set(part.ridge.tolist()), reverse=True):
        law = fit_normal(rows, ridge=ridge, start=law)
        lines, chosen = _lines(law, part.n_sites), part.ridge == ridge
        part.coefficients[chosen] = lines.coefficients[chosen]
        part.residual[chosen] = lines.residual[chosen]
        part.mean.copy_(law.mean)
        part.moments.copy_(_without_ridge(law, ridge).covariance)


class _Trial(NamedTuple):
    """Squared errors and variances of own slots on held-out maps, for each ridge.

    0 and 1 where a value is not `known`. `rows` are the training rows of the final fit.
    """

    ridges: list[float]
    error: Float[Tensor, "ridges rows sites"]
    variance: Float[Tensor, "ridges rows sites"]
    known: Bool[Tensor, "rows sites"]
    rows: Rows


def _try(
    part: RidgeCovariancePart | RidgeSitePart,
    groups: Groups,
    validation: Groups | None,
    *,
    ridges: Sequence[float],
    predict: Callable[[JointNormal, Rows, float, int], Prediction],
) -> _Trial:
    """Fits with every ridge, judged on held-out maps; fills the part's `seen`."""
    sizes = {"n_sites": part.n_sites, "n_lags": part.n_lags}
    rows = slot_table(groups, part.climate, **sizes)
    folds = time_folds(groups.group_attributes["time"], n_folds=N_FOLDS)
    part.seen.copy_(rows.known.sum(0) >= 2)
    if not part.seen.any():
        raise DataError(
            "`groups` must hold at least 2 observed values of some site, got no site with more "
            "than 1: give more maps, or fit `FieldClimatology` alone."
        )
    rows = Rows(rows.value, rows.known & part.seen)
    if validation is None:
        splits = [
            (rows.take(~fold), rows.take(fold)) for fold in (torch.from_numpy(f) for f in folds)
        ]
    else:
        held = slot_table(validation, part.climate, **sizes)
        splits = [(rows, Rows(held.value, held.known & part.seen))]
    known = torch.cat([held.known[:, : part.n_sites] for _, held in splits])
    unit = float(rows.value[rows.known].var())
    if not unit > _LEAST_VARIANCE:
        raise DataError(
            "Values of a field must vary around what is usual at their site and time, got values "
            "that never do, such as constants. Fit `FieldClimatology`: nothing is left for a ridge."
        )
    tried = [ridge * unit for ridge in sorted(ridges, reverse=True)]
    errors, variances = zip(
        *(
            _held_out(*split, ridges=tried, predict=predict, n_sites=part.n_sites)
            for split in splits
        ),
        strict=True,
    )
    error, variance = torch.cat(errors, 1), torch.cat(variances, 1)
    return _Trial(tried, error, variance, known, rows)


def _held_out(
    train: Rows,
    held: Rows,
    *,
    ridges: Sequence[float],
    predict: Callable[[JointNormal, Rows, float, int], Prediction],
    n_sites: int,
) -> tuple[Float[Tensor, "ridges rows sites"], Float[Tensor, "ridges rows sites"]]:
    errors, variances = [], []
    known, value = held.known[:, :n_sites], held.value[:, :n_sites]
    law: JointNormal | None = None
    for ridge in ridges:
        law = fit_normal(train, ridge=ridge, start=law)
        mean, variance = predict(law, held, ridge, n_sites)
        errors.append(torch.where(known, value - mean[:, :n_sites], 0.0).square())
        variances.append(torch.where(known, variance[:, :n_sites], 1.0))
    return torch.stack(errors), torch.stack(variances)


def _given_the_others(law: JointNormal, rows: Rows, ridge: float, n_sites: int) -> Prediction:
    return leave_one_out(law, rows)


def _given_all_slots(law: JointNormal, rows: Rows, ridge: float, n_sites: int) -> Prediction:
    return _predict_lines(_lines(law, n_sites), _without_ridge(law, ridge), rows)


class _Lines(NamedTuple):
    """Regressions of own slots on all other slots, and their residual variances."""

    coefficients: Float[Tensor, "sites slots"]
    residual: Float[Tensor, "sites"]


def _lines(law: JointNormal, n_sites: int) -> _Lines:
    """The ridge regressions of all sites at once: -P_ij / P_ii, P the inverse of S + ridge I."""
    precision = torch.cholesky_inverse(torch.linalg.cholesky(law.covariance))
    residual = precision.diagonal()[:n_sites].reciprocal()
    coefficients = -precision[:n_sites] * residual[:, None]
    coefficients.diagonal().zero_()
    return _Lines(coefficients, residual)


def _predict_lines(lines: _Lines, law: JointNormal, rows: Rows) -> Prediction:
    anomaly = torch.where(rows.known, rows.value - law.mean, 0.0)
    mean = law.mean[: len(lines.residual)] + anomaly @ lines.coefficients.T
    kinds, kind = torch.unique(rows.known, dim=0, return_inverse=True)
    variance = torch.stack([_variance_added(lines, law, ~known) for known in kinds])
    return mean, lines.residual + variance[kind]


def _variance_added(
    lines: _Lines, law: JointNormal, missing: Bool[Tensor, "slots"]
) -> Float[Tensor, "sites"]:
    """Variance of what the missing slots would have added to each site's mean."""
    at = missing.nonzero()[:, 0]
    coefficients = lines.coefficients[:, at]
    return (coefficients @ law.covariance[at[:, None], at] * coefficients).sum(-1)


def _without_ridge(law: JointNormal, ridge: float) -> JointNormal:
    eye = torch.eye(len(law.mean), dtype=law.covariance.dtype, device=law.covariance.device)
    return JointNormal(law.mean, law.covariance - ridge * eye)


def _eta(
    placed: Placed,
    seen: Bool[Tensor, "slots"],
    mean: Float[Tensor, "batch predicted"],
    variance: Float[Tensor, "batch predicted"],
) -> Float[Tensor, "batch length 2"]:
    """Anomalies back in the value's unit; the climate alone where training saw nothing."""
    width = mean.shape[1]
    mean = torch.where(seen[:width], mean, 0.0)
    variance = torch.where(seen[:width], variance, 1.0)
    is_seen = placed.read(seen[:width].double().expand_as(mean), missing=0.0) > 0
    doubt = torch.where(is_seen, 0.0, placed.doubt.square())
    spread = placed.scale.square() * placed.read(variance, missing=1.0) + doubt
    location = placed.location + placed.scale * placed.read(mean, missing=0.0)
    return torch.stack([location, 0.5 * spread.log()], -1)
