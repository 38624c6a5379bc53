"""Whether the model's probabilities come true."""

import numpy as np

from exfam.plots import integral_histogram, reliability_diagram
from exfam.report.evaluation import Evaluation, ValuePredictions, value_predictions
from exfam.report.material import Material
from exfam.report.page import Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.words import figure, percent, quantity
from exfam.scores.calibration import (
    Reliability,
    TopItem,
    distance_to_uniform,
    interval_coverage,
    probability_integral,
)

_TITLE = "Calibration"
_MOST_COLUMNS = 3
_LEVELS = (0.5, 0.8, 0.9)


def calibration_section(material: Material, evaluation: Evaluation | None) -> Section:
    """Reliability of items' probabilities; integrals and intervals of values."""
    if material.scored is None or evaluation is None:
        return left_out(_TITLE, "no data were given to compare predictions with.")
    parts: list[Part] = []
    if evaluation.reliability is not None and evaluation.top is not None:
        parts.append(_items(evaluation.reliability, evaluation.top))
    values = value_predictions(material.model, material.scored)
    for column, predictions in list(values.items())[:_MOST_COLUMNS]:
        if len(predictions.rows):
            parts.append(_values(column, predictions, material.seed))
    if not parts:
        return left_out(_TITLE, "the data hold no observed target.")
    text = [
        f"Of the same {quantity(len(material.scored), 'group')} as the scores. A model is "
        "calibrated if what it gives 10 % happens one time in ten."
    ]
    return Section(_TITLE, text=text, parts=parts)


def _items(reliability: Reliability, top: TopItem) -> SideBySide:
    n = len(top.confidence)
    rows = [
        ["targets", f"{n:,}"],
        ["mean probability of the most probable item", percent(float(top.confidence.mean()))],
        ["how often it was that item", percent(float(top.correct.mean()))],
        ["expected calibration error, most probable item", percent(top.error())],
        ["expected calibration error, all items", percent(reliability.error)],
    ]
    table = TableData(
        ["items", ""],
        rows,
        words=["items"],
        title="Probabilities of items",
        caption="Error of the most probable item: mean distance between its probability and its "
        "share of hits, in ten bins of equal size. Error over all items: the same over every pair "
        "of target and item, in bins of a factor of two, for each target.",
    )
    if reliability.predicted.max() < 5:
        return SideBySide([table])
    picture = Picture(
        "Predicted probability and frequency of items",
        reliability_diagram(reliability),
        "All items at all targets, in bins of a factor of two. Below the line the model is too "
        "sure, above it not sure enough. Shaded: where 95 of 100 dots would be by chance.",
    )
    return SideBySide([picture, table])


def _values(column: str, predictions: ValuePredictions, seed: int) -> SideBySide:
    integral = probability_integral(predictions.distribution, predictions.value, seed=seed)
    coverage = interval_coverage(predictions.distribution, predictions.value, levels=_LEVELS)
    rows = [
        [f"{100 * interval.level:.0f} %", percent(interval.promised), percent(interval.observed)]
        for interval in coverage
    ]
    n, distance = len(integral), distance_to_uniform(integral)
    table = TableData(
        ["central interval", "promised", "observed"],
        rows,
        title=f"Intervals of “{column}”",
        caption="Promised: the probability that the model gives its intervals, more than chosen "
        f"where values are whole numbers. {quantity(n, 'value')}. Largest distance of the "
        f"integrals from uniform: {figure(distance)}; by chance below {figure(1.36 / np.sqrt(n))} "
        "in 95 of 100 cases if all distributions were right.",
    )
    how = "Flat if calibrated; high ends: distributions are too narrow; a hill: too wide; a slope: "
    how += "means are off. Band: 95 of 100 bars by chance."
    if predictions.distribution.has_jumps(predictions.value).any():
        how += " Whole numbers are spread over their own probability at random."
    picture = Picture(
        f"Where values of “{column}” fall in their predicted distributions",
        integral_histogram(integral),
        how,
    )
    return SideBySide([picture, table])
