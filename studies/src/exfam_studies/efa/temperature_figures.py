"""Figures of predicted fields, and what the table says of them beside the ridge baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from exfam.fields.field_estimator import FieldEstimator
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldConditional, FieldProcess
from exfam_studies.common.rows import Row

__all__ = [
    "COVERAGE",
    "field_figures",
    "new_site_figures",
    "told_figures",
    "truth_rows",
    "with_verdicts",
]

LEVEL = 0.9
COVERAGE = f"coverage-{100 * LEVEL:.0f}"
RIDGES = ("ridge", "ridge-covariance")
# Rows of a metric stand beside each other where these settings agree.
_PLACE = ("days", "draw", "lags")

Told = Prediction | FieldConditional


def told_figures(
    told: Told, value: Float[np.ndarray, "rows"], *, among: np.ndarray | slice = slice(None)
) -> dict[str, float]:
    """Means over the rows `among` all: squared error, nats, CRPS, share in the 90% interval.

    >>> from exfam.simulators import FieldConditional
    >>> law = FieldConditional(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1)))
    >>> told = told_figures(law, np.array([0.0, 2.0]))
    >>> told["mse"], told["coverage-90"]
    (2.0, 0.5)
    """
    apart = np.abs(told.cdf(value) - 0.5)
    columns = {
        "mse": (told.mean - value) ** 2,
        "nats": -told.log_prob(value),
        "crps": told.crps(value),
        COVERAGE: apart <= LEVEL / 2,
    }
    return {metric: float(column[among].mean()) for metric, column in columns.items()}


def field_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of all values of the maps, each given the others."""
    return told_figures(estimator.predict_dist(groups), _values(groups))


def new_site_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of the values that are hidden, each given those that are not."""
    assert groups.observed is not None
    hidden = ~groups.observed[groups.elements()]
    figures = told_figures(estimator.predict_dist(groups), _values(groups), among=hidden)
    kept = {metric: figures[metric] for metric in ("nats", COVERAGE)}
    return {"rmse": float(np.sqrt(figures["mse"])), **kept}


def truth_rows(
    process: FieldProcess,
    test: Groups,
    validation: Groups,
    *,
    task: str,
    place: Mapping[str, str | int],
) -> list[Row]:
    """What one who knows the process achieves: no model can be expected to have fewer nats."""
    tests, validations = (
        told_figures(process.true_conditional(groups), _values(groups))
        for groups in (test, validation)
    )
    return [
        Row(
            task=task,
            model="truth",
            settings=place,
            metric=metric,
            value=value,
            validation=validations[metric],
        )
        for metric, value in tests.items()
    ]


def with_verdicts(rows: Sequence[Row]) -> list[Row]:
    """The rows, those of EFA's squared errors with a note: whether it beats the better ridge.

    >>> figures = [("ridge", 8.9), ("efa-site", 8.5)]
    >>> rows = [Row(task="t", model=m, metric="mse", value=v) for m, v in figures]
    >>> [row.note for row in with_verdicts(rows)]
    ['', 'beats ridge 8.90']
    """
    ridges: dict[tuple, Row] = {}
    for row in rows:
        if row.model in RIDGES and row.metric == "mse" and row.value is not None:
            best = ridges.setdefault(_place(row), row)
            ridges[_place(row)] = min(best, row, key=lambda each: each.value or 0.0)
    return [_judged(row, ridges.get(_place(row))) for row in rows]


def _judged(row: Row, ridge: Row | None) -> Row:
    ours = row.metric == "mse" and row.model.startswith("efa")
    if not ours or ridge is None or row.value is None or ridge.value is None:
        return row
    verb = "beats" if row.value < ridge.value else "does not beat"
    verdict = f"{verb} {ridge.model} {ridge.value:.2f}"
    return replace(row, note="; ".join(part for part in (verdict, row.note) if part))


def _place(row: Row) -> tuple:
    return (row.task, *(row.settings.get(name) for name in _PLACE))


def _values(groups: Groups) -> Float[np.ndarray, "own"]:
    (column,) = groups.values.values()
    return column[groups.elements()]
