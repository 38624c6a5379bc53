"""Fits of models to tables, each once and kept, and the rows they make."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped
from scipy.special import ndtr

from exfam_studies.common.fits import Job, fit_once, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.tables.data import Columns, TableShift

# The share of a uniform distribution in the nats that are always finite.
MIXED_IN = 1e-3
# By task: metric and decision rule. "argmax" is the most probable level, "mean" the mean, and
# "rounded" the level nearest to it.
_LABELS = ("accuracy argmax", "accuracy rounded", "mse argmax", "mse mean", "nats", "nats-mixed")
LOSSES = {
    "regression": ("mse mean", "nats"),
    "ordinal": _LABELS,
    "classification": ("accuracy argmax", "nats", "nats-mixed"),
}
# Of tables of codes, which have no finer scale than their codes.
CODED = tuple(name.replace("mse mean", "mse rounded") for name in _LABELS)


@dataclass(frozen=True, eq=False)
class Predicted:
    """Probabilities of all levels of y, or the mean of a number and its log density in nats."""

    chances: Float[np.ndarray, "rows levels"] | None = None
    mean: Float[np.ndarray, "rows"] | None = None
    log_prob: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model: predictions of rows, and what was chosen by validation, by name."""

    predict: Callable[[Columns], Predicted]
    chosen: Mapping[str, Any] = field(default_factory=dict)


def spread(
    chances: Float[np.ndarray, "rows classes"],
    classes: Int64[np.ndarray, "classes"],
    *,
    n_levels: int,
) -> Float[np.ndarray, "rows levels"]:
    """Probabilities of all levels from those of the classes that occurred in training."""
    whole = np.zeros((len(chances), n_levels))
    whole[:, classes] = chances
    return whole


def normal_prediction(mean: Float[np.ndarray, "rows"], sd: float, table: TableShift) -> Predicted:
    """A normal distribution of y, or of levels the chances of what lies nearest to each code."""

    def log_prob(y: np.ndarray) -> np.ndarray:
        return -(0.5 * (mean - y) ** 2 / sd**2 + np.log(sd) + 0.5 * np.log(2 * np.pi))

    if table.task == "regression":
        return Predicted(mean=mean, log_prob=log_prob)
    edges = np.arange(1, len(table.y_levels)) - 0.5
    return Predicted(chances=gaussian_bins(mean, sd, edges))


def gaussian_bins(
    mean: Float[np.ndarray, "rows"], sd: float, edges: Float[np.ndarray, "edges"]
) -> Float[np.ndarray, "rows levels"]:
    """Probabilities of the intervals between increasing edges, and of those beyond them."""
    z = (np.concatenate([[-np.inf], edges, [np.inf]]) - mean[:, None]) / sd
    return normal_mass(z[:, :-1], z[:, 1:])


def normal_mass(
    low: Float[np.ndarray, "*shape"], high: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """The probability of a standard normal number from `low` to `high`."""
    # The mirror image has the same probability, and is exact in the upper tail.
    above = low > 0
    return np.asarray(ndtr(np.where(above, -low, high)) - ndtr(np.where(above, -high, low)))


def nats(
    chances: Float[np.ndarray, "rows levels"], codes: Int64[np.ndarray, "rows"], *, mixed_in: float
) -> Float[np.ndarray, "rows"]:
    """-log p(y) with a share of a uniform distribution mixed in."""
    p = chances[np.arange(len(codes)), codes] * (1 - mixed_in) + mixed_in / chances.shape[1]
    with np.errstate(divide="ignore"):
        return -np.log(p)


def row_losses(
    predicted: Predicted,
    y: Shaped[np.ndarray, "rows"],
    *,
    table: TableShift,
    names: Sequence[str] | None = None,
) -> dict[str, Float[np.ndarray, "rows"]]:
    """Each row's losses by name: 1 for a right decision, a squared error, -log p(y) in nats.

    Squared errors of levels are those of their codes; nats are infinite where what happened had no
    chance, "nats-mixed" have a thousandth of a uniform distribution mixed in.
    """
    if predicted.chances is None:
        assert predicted.mean is not None and predicted.log_prob is not None
        numbers = y.astype(np.float64)
        return {"mse mean": (predicted.mean - numbers) ** 2, "nats": -predicted.log_prob(numbers)}
    codes, chances = table.y_codes(y), predicted.chances
    mean, likeliest = chances @ np.arange(chances.shape[1]), chances.argmax(axis=1)
    losses = {
        "accuracy argmax": likeliest == codes,
        "accuracy rounded": np.rint(mean) == codes,
        "mse argmax": (likeliest - codes) ** 2,
        "mse mean": (mean - codes) ** 2,
        "mse rounded": (np.rint(mean) - codes) ** 2,
        "nats": nats(chances, codes, mixed_in=0.0),
        "nats-mixed": nats(chances, codes, mixed_in=MIXED_IN),
    }
    return {name: losses[name].astype(np.float64) for name in names or LOSSES[table.task]}


Results = Mapping[str, Sequence[Measured]]


def run_tables(tasks: Sequence[Any], options: Options) -> list[Row]:
    """Fit and measure all models on all tasks, `CodedTask` or `ShiftTask`, but what is kept."""
    # A smoke run is of other data.
    store = Store(options.folder / "fast" if options.folder and options.fast else options.folder)
    pairs = [(task, name) for task in tasks for name in task.models()]
    rows = gather(
        [Job(f"{task.label} {n}", partial(_fitted_rows, task, n, store)) for task, n in pairs]
    )
    for task in tasks:
        rows += task.further_rows({name: _kept(task, name, store) for name in task.models()})
    return rows


def _fitted_rows(task: Any, name: str, store: Store) -> list[Row]:
    """The rows of a model, after those fits that have no result yet, seeded by their numbers."""
    contender, together = task.models()[name], task.together(name)
    if not contender.is_installed:
        return [task.not_installed(name)]
    missing = [key for key in task.keys(name) if store.get(key) is None]
    for keys in [missing] if together and missing else [[key] for key in missing]:
        tables = [task.table(key) for key in keys]
        fit = fit_once(together or contender, tables if together else tables[0], seed=keys[0].seed)
        fits, seconds = fit.estimator if together else [fit.estimator], fit.cpu_seconds / len(keys)
        for key, table, fitted in zip(keys, tables, fits, strict=True):
            losses = task.losses(fitted, table, key)
            store.put(Measured({}, losses, fitted.chosen, seconds, key))
    return task.model_rows(name, _kept(task, name, store))


def _kept(task: Any, name: str, store: Store) -> list[Measured]:
    return [result for key in task.keys(name) if (result := store.get(key)) is not None]


def loss_row(
    row: Row, results: Sequence[Measured], loss: str, *, held: Sequence[Measured] = ()
) -> Row:
    """`row` with the mean of a loss over rows, then over fits; in words where it is infinite."""
    means, held_means = (
        [float(result.arrays[loss].mean()) for result in some] for some in (results, held)
    )
    if not np.isfinite(means).all():
        # A row cannot hold infinity.
        return replace(row, note="infinite: no chance for what happened")
    return row_over_seeds(
        row,
        values=means,
        validations=[value for value in held_means if math.isfinite(value)],
        cpu_seconds=[result.cpu_seconds for result in results],
    )


def pairs_of(
    ours: Sequence[Measured], theirs: Sequence[Measured]
) -> list[tuple[Measured, Measured]]:
    """The results of both models that are of the same data set or seed."""
    own = {result.key.seed: result for result in ours}
    return [(own[r.key.seed], r) for r in theirs if r.key.seed in own]


def difference_row(
    row: Row, pairs: Sequence[tuple[Measured, Measured]], loss: str
) -> tuple[Row, np.ndarray]:
    """`row` with how much our losses differ from theirs, and the mean over fits of each row."""
    with np.errstate(invalid="ignore"):  # what both gave no chance
        apart = [ours.arrays[loss] - other.arrays[loss] for ours, other in pairs]
    by_row = np.mean(apart, axis=0)
    if not np.isfinite(by_row).all():
        return row, by_row
    return row_over_seeds(row, values=[float(rows.mean()) for rows in apart]), by_row


def with_error(row: Row, error: float) -> Row:
    """`row` with, in words, how many standard errors a difference is from 0."""
    assert row.value is not None
    return replace(row, note=f"{row.value / error:+.1f} standard errors") if error > 0 else row
