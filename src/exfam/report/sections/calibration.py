"""Whether the model's probabilities come true."""

import numpy as np
import torch
from jaxtyping import Float

from exfam.families.mixtures import Mixture
from exfam.plots import integral_bars, reliability_diagram
from exfam.report.evaluation import Evaluation, value_predictions
from exfam.report.material import Material
from exfam.report.page import Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.words import clean, figure, percent, quantity
from exfam.scores.calibration import (
    Coverage,
    IntegralShares,
    Reliability,
    TopItem,
    integral_shares,
    interval_coverage,
)

_TITLE = "Calibration"
_MOST_COLUMNS, _FEWEST_DOTS = 3, 2
_LEVELS = (0.5, 0.8, 0.9)
_DIVIDED = (
    " Whole numbers are divided among the bars that their own probability crosses (Czado, Gneiting "
    "& Held 2009)."
)


def calibration_section(material: Material, evaluation: Evaluation | None) -> Section:
    """Reliability of items' probabilities; histograms of integrals and intervals of values."""
    if material.scored is None or evaluation is None:
        return left_out(_TITLE, "no data were given to compare predictions with.")
    parts: list[Part] = []
    if evaluation.reliability is not None and evaluation.top is not None:
        parts.append(choice_calibration(evaluation.reliability, evaluation.top))
    values = value_predictions(material.model, material.scored)
    for column, predictions in list(values.items())[:_MOST_COLUMNS]:
        if len(predictions.rows):
            parts.append(value_calibration(column, predictions.distribution, predictions.value))
    if not parts:
        return left_out(_TITLE, "the data hold no observed target.")
    text = [
        f"Of the same {quantity(len(material.scored), 'group')} as the scores. A model is "
        "calibrated if what it gives 10 % happens one time in ten."
    ]
    return Section(_TITLE, text=text, parts=parts)


def choice_calibration(
    reliability: Reliability, top: TopItem, *, one: str = "item", many: str = "items"
) -> SideBySide:
    """Whether probabilities of items, or of what `one` and `many` name, come true."""
    n = len(top.confidence)
    rows = [
        ["targets", f"{n:,}"],
        [f"mean probability of the most probable {one}", percent(float(top.confidence.mean()))],
        [f"how often it was that {one}", percent(float(top.correct.mean()))],
        [f"expected calibration error, most probable {one}", percent(top.error())],
        [f"expected calibration error, all {many}", percent(reliability.error)],
    ]
    table = TableData(
        [many, ""],
        rows,
        words=[many],
        title=f"Probabilities of {many}",
        caption=f"Error of the most probable {one}: mean distance between its probability and its "
        f"share of hits, in ten bins of equal size. Error over all {many}: the same over every "
        f"pair of target and {one}, in bins of a factor of two, for each target.",
    )
    # Fewer dots are no curve.
    if (reliability.predicted >= 5).sum() < _FEWEST_DOTS:
        return SideBySide([table])
    picture = Picture(
        f"Predicted probability and frequency of {many}",
        reliability_diagram(reliability, of=one),
        f"All {many} at all targets, in bins of a factor of two. Below the line the model is too "
        "sure, above it not sure enough. Shaded: where 95 of 100 dots would be by chance.",
    )
    return SideBySide([picture, table])


def value_calibration(
    column: str, distribution: Mixture, value: Float[torch.Tensor, "rows"]
) -> SideBySide:
    """Where values fall in their predicted distributions, and how many intervals hold."""
    column = clean(column, most=30)
    shares = integral_shares(distribution, value)
    has_jumps = bool(distribution.has_jumps(value).any())
    picture = Picture(
        f"Where values of “{column}” fall in their predicted distributions",
        integral_bars(shares),
        _how_to_read(shares) + (_DIVIDED if has_jumps else ""),
    )
    rows = [
        [percent(interval.level, 0), percent(interval.observed), _by_chance(interval)]
        for interval in interval_coverage(distribution, value, levels=_LEVELS)
    ]
    ends = " Values at an end of an interval are inside in part, by the same division."
    table = TableData(
        ["central interval", "values inside", "by chance"],
        rows,
        title=f"Intervals of “{column}”",
        caption=f"{quantity(shares.n, 'value')}. By chance: where 95 of 100 such shares would be "
        "if all distributions were right and values independent." + (ends if has_jumps else ""),
    )
    return SideBySide([picture, table])


def _by_chance(interval: Coverage) -> str:
    low, high = (interval.level + sign * 1.96 * interval.spread for sign in (-1, 1))
    return f"{figure(100 * max(low, 0.0), 1)} to {percent(min(high, 1.0))}"


def _how_to_read(shares: IntegralShares) -> str:
    even, margin = 1 / len(shares.share), 1.96 * shares.spread
    # Shares that cannot vary differ by rounding.
    outside = int((np.abs(shares.share - even) > margin + 1e-9).sum())
    low, high = max(even - margin.max(), 0.0), even + margin.max()
    return (
        "Flat if calibrated; high ends: distributions are too narrow; a hill: too wide; a slope: "
        f"means are off. If calibrated a bar has {percent(even, 0)}, {figure(shares.n * even, 0)} "
        f"of {quantity(shares.n, 'value')}, and 95 of 100 bars are in the band, at its widest "
        f"{figure(shares.n * low, 0)} to {figure(shares.n * high, 0)} values. Outside are "
        f"{outside} of {len(margin)} bars."
    )
