"""Figures of predicted fields, and what the table says of them beside the ridge baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from exfam.fields.field_estimator import FieldEstimator
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldProcess
from exfam_studies.common.pictures import setting_curve
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import values_of
from exfam_studies.efa.field_conditionals import FieldConditional, true_conditional

LEVEL = 0.9
COVERAGE = f"coverage-{100 * LEVEL:.0f}"
# Model -> its name in the figure.
LINES = {
    "efa-l1": "EFA, 1 layer",
    "efa-l2": "EFA, 2 layers",
    "efa-l4": "EFA, 4 layers",
    "efa-ensemble": "EFA, ours",
    "ridge": "ridge",
}
RIDGES = ("ridge", "ridge-covariance")
# Rows of a metric stand beside each other where these settings agree.
_COMPARED = ("days", "draw", "lags")

Predicted = Prediction | FieldConditional


def prediction_figures(
    predicted: Predicted,
    value: Float[np.ndarray, "rows"],
    *,
    among: np.ndarray | slice = slice(None),
) -> dict[str, float]:
    """Means over the rows `among` all: squared error, nats, CRPS, share in the 90% interval.

    >>> from exfam_studies.efa.field_conditionals import FieldConditional
    >>> normal = FieldConditional(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1)))
    >>> figures = prediction_figures(normal, np.array([0.0, 2.0]))
    >>> figures["mse"], figures["coverage-90"]
    (2.0, 0.5)
    """
    apart = np.abs(predicted.cdf(value) - 0.5)
    columns = {
        "mse": (predicted.mean - value) ** 2,
        "nats": -predicted.log_prob(value),
        "crps": predicted.crps(value),
        COVERAGE: apart <= LEVEL / 2,
    }
    return {metric: float(column[among].mean()) for metric, column in columns.items()}


def field_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of all values of the maps, each given the others."""
    return prediction_figures(estimator.predict_dist(groups), values_of(groups))


def new_site_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of the values that are hidden, each given those that are not."""
    assert groups.observed is not None
    hidden = ~groups.observed[groups.elements()]
    figures = prediction_figures(estimator.predict_dist(groups), values_of(groups), among=hidden)
    kept = {metric: figures[metric] for metric in ("nats", COVERAGE)}
    return {"rmse": float(np.sqrt(figures["mse"])), **kept}


def truth_rows(
    process: FieldProcess,
    test: Groups,
    validation: Groups,
    *,
    task: str,
    where: Mapping[str, str | int],
) -> list[Row]:
    """What one who knows the process achieves: no model can be expected to have fewer nats."""
    tests, validations = (
        prediction_figures(true_conditional(process, groups), values_of(groups))
        for groups in (test, validation)
    )
    return [
        Row(
            task=task,
            model="truth",
            settings=where,
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
            best = ridges.setdefault(_compared(row), row)
            ridges[_compared(row)] = min(best, row, key=lambda row: row.value or 0.0)
    return [_judged(row, ridges.get(_compared(row))) for row in rows]


def _judged(row: Row, ridge: Row | None) -> Row:
    ours = row.metric == "mse" and row.model.startswith("efa")
    if not ours or ridge is None or row.value is None or ridge.value is None:
        return row
    verb = "beats" if row.value < ridge.value else "does not beat"
    verdict = f"{verb} {ridge.model} {ridge.value:.2f}"
    return replace(row, note="; ".join(part for part in (verdict, row.note) if part))


def _compared(row: Row) -> tuple:
    return (row.task, *(row.settings.get(name) for name in _COMPARED))


def draw_figure_6(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Figure 6: errors of the latent factor model against k, of others as lines; the file.

    `rows` of one task; none is written where they have no latent factor model.
    """
    errors = [row for row in rows if row.metric == "mse" and "days" not in row.settings]
    curve = [row for row in errors if row.model.startswith("latent-factor-k")]
    if not curve:
        return []
    by_model = {row.model: row for row in errors}
    references = {
        name + ("" if row.paper is None else f" (paper: {row.paper:.2f})"): _number(row.value)
        for model, name in LINES.items()
        if (row := by_model.get(model)) is not None
    }
    figure = setting_curve(
        np.array([float(row.settings["k"]) for row in curve]),
        np.array([_number(row.value) for row in curve]),
        name="latent factor",
        setting_name="nearest cities that the latent factor model sees, k",
        metric="test MSE (°F squared)",
        spread=np.array([_number(row.sd) for row in curve]),
        paper=np.array([_number(row.paper) for row in curve]),
        references=references,
    )
    path = folder / "efa-temperature-figure-6.png"
    figure.savefig(path, format="png", dpi=120, facecolor="white")
    return [path]


def _number(figure: float | None) -> float:
    return float("nan") if figure is None else figure
