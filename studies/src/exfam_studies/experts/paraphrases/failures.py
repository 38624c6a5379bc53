"""Whether the terms of an analogy's error predict which questions are answered wrongly."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError
from exfam.scores.metrics import Interval
from exfam_studies.experts.paraphrases.analogies import TERMS, AnalogyErrors

_DRAWS_AT_ONCE = 50
_ROUNDING = 1e-9
ENDS = (0.025, 0.975)

Numbers = Float[np.ndarray, "questions"]
Failed = Bool[np.ndarray, "questions"]
Weights = Float[np.ndarray, "draws questions"]
Draws = Float[np.ndarray, "draws"]


def failure_predictors(
    errors: AnalogyErrors, answered: Bool[np.ndarray, "given"], *, seed: int, n: int = 1000
) -> dict[str, dict[str, Interval]]:
    """How well the gap, each term and the answer's rarity predict which questions fail.

    Predictors are the lengths of the gap and of `TERMS`, "statistics", that of rho + Delta + delta,
    and "rarity", -log p of the answer. "auc" is the probability that a failed question has more of
    it than an answered one, ties half; "correlation" is point-biserial; "auc-within" is of two
    questions of one relation. Intervals hold 95 % of `n` redrawn figures; pairs (a, a*) are redrawn
    with all their questions. Raises DataError unless questions of both kinds are left.
    """
    failed = ~answered[errors.question]
    if failed.all() or not failed.any():
        raise DataError(
            "`answered` must hold right and wrong answers, got "
            f"{int((~failed).sum())} right of {len(failed)}."
        )
    _, category = np.unique(np.array(errors.categories), return_inverse=True)
    _, pair = np.unique(errors.codes[:, :2], axis=0, return_inverse=True)
    lengths = {
        "gap": errors.gap_norm,
        **dict(zip(TERMS, errors.norms.T, strict=True)),
        "statistics": errors.statistics_norm,
    }
    # Rounding errors of a term that is 0 mean nothing.
    numbers = {name: np.where(size > _ROUNDING, size, 0.0) for name, size in lengths.items()}
    numbers["rarity"] = -errors.log_frequency
    predictors = {}
    for name, number in numbers.items():
        weights = _redrawn(pair.reshape(-1), n, np.random.default_rng(seed))
        whole = _figures(number, failed, category, np.ones((1, len(failed))))
        parts = [_figures(number, failed, category, weight) for weight in weights]
        drawn = np.concatenate(parts, axis=1)
        predictors[name] = {
            # Redrawings without one of the kinds have no figure.
            kind: Interval(float(whole[row, 0]), *np.nanquantile(drawn[row], ENDS).tolist())
            for row, kind in enumerate(("auc", "correlation", "auc-within"))
            if not np.isnan(whole[row, 0])
        }
    return predictors


def _redrawn(
    pair: Int64[np.ndarray, "questions"], n: int, random: np.random.Generator
) -> Iterator[Weights]:
    size = int(pair.max()) + 1
    even = np.full(size, 1 / size)
    for first in range(0, n, _DRAWS_AT_ONCE):
        drawn = random.multinomial(size, even, size=min(_DRAWS_AT_ONCE, n - first))
        yield drawn[:, pair].astype(np.float64)


def _figures(
    number: Numbers, failed: Failed, category: Int64[np.ndarray, "questions"], weight: Weights
) -> Float[np.ndarray, "figures draws"]:
    won, pairs = _won(number, failed, weight)
    within = [category == relation for relation in np.unique(category)]
    parts = [_won(number[own], failed[own], weight[:, own]) for own in within]
    won_within, pairs_within = np.sum(parts, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = _correlation(number, failed, weight)
        return np.stack([won / pairs, correlation, won_within / pairs_within])


def _won(number: Numbers, failed: Failed, weight: Weights) -> tuple[Draws, Draws]:
    """Pairs of a failure and a success in which the failure has more, and all such pairs."""
    values, which = np.unique(number, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(values)))
    sums = [
        np.add.reduceat((weight * kind)[:, order], starts, axis=1) for kind in (failed, ~failed)
    ]
    below = np.cumsum(sums[1], axis=1) - sums[1]
    won = (sums[0] * (below + sums[1] / 2)).sum(axis=1)
    return won, sums[0].sum(axis=1) * sums[1].sum(axis=1)


def _correlation(number: Numbers, failed: Failed, weight: Weights) -> Draws:
    total = weight.sum(axis=1)
    # Centered first: numbers may be large against their spread.
    x, y = number - number.mean(), failed - failed.mean()
    mean_x, mean_y = weight @ x / total, weight @ y / total
    covariance = weight @ (x * y) / total - mean_x * mean_y
    spread = (weight @ x**2 / total - mean_x**2) * (weight @ y**2 / total - mean_y**2)
    # A number that does not vary goes with nothing.
    known = spread > 1e-24 * max(float((x**2).mean()), 1e-300)
    return np.where(known, covariance / np.sqrt(np.where(known, spread, 1.0)), 0.0)
