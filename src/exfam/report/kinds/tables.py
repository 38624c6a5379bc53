"""Reports about models of tables: rows of mixed columns."""

from typing import Any

from exfam.estimator.gain import gain_sentences
from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.page import Summary
from exfam.report.tables.column_scores_section import (
    TableScores,
    column_score_section,
    score_columns,
)
from exfam.report.tables.column_section import column_section, duplicates_in
from exfam.report.tables.table_answers import (
    column_contributions,
    conditional_section,
    contribution_section,
    shift_section,
    table_shift,
)
from exfam.report.tables.table_calibration import (
    PredictedCells,
    careful_of_intervals,
    predicted_cells,
    table_calibration_section,
)
from exfam.report.tables.table_material import TableMaterial, gather_table
from exfam.report.tables.table_model_section import table_model_section
from exfam.report.tables.table_rivals import MARGINAL, TREES
from exfam.report.verdicts import comparison_sentence
from exfam.report.words import clean, figure, listing, percent, quantity
from exfam.tables.shift.report import ShiftReport

_NAMED = 3


def table_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about a model of a table."""
    material = gather_table(model, request)
    scores, predicted = score_columns(material), predicted_cells(material)
    summary, shift = column_contributions(material), table_shift(material)
    return ReportContent(
        _lead(material),
        Summary(
            quality=_quality(material, scores),
            against=_against(scores),
            attention=_attention(material),
            careful=_careful(material, predicted, shift),
        ),
        [
            column_section(material),
            table_model_section(material),
            column_score_section(material, scores),
            table_calibration_section(material, predicted),
            contribution_section(material, summary),
            conditional_section(material, summary),
            shift_section(material, shift),
        ],
    )


def _lead(material: TableMaterial) -> str:
    model, n = material.model, len(material.inputs)
    what = f"{type(model).__name__} of {quantity(n, 'column')}"
    if model.response_ is not None:
        what += f", response “{clean(model.response_, most=40)}”"
    if material.data is None:
        return f"{what}, without data."
    return f"{what}, on {quantity(len(material.data), 'row')} of data."


def _quality(material: TableMaterial, scores: TableScores | None) -> str:
    if scores is None or material.scored is None:
        return "Not known: no data were given to score the model on."
    n, total = sum(s.n for s in scores.own.values()), sum(s.nats_sum for s in scores.own.values())
    nats = f"{figure(total / n)} nats"
    rows = quantity(len(material.scored), "row")
    if material.model.response_ is None:
        return f"{nats} a cell given the others of its row, over {n:,} cells of {rows}."
    (score,) = scores.own.values()
    ((measure, value),) = score.measures.items()
    name = clean(material.model.response_, most=40)
    if measure == "accuracy":
        right = f"The right label of “{name}” in {percent(value)} of {rows}"
    else:
        right = f"R² of “{name}” is {figure(value)} over {rows}"
    return f"{right}; {nats} a row (log-likelihood; higher is better)."


def _against(scores: TableScores | None) -> str:
    if scores is None or not scores.whole:
        return "Nothing: no cheap baseline was fitted to compare with."
    words = {MARGINAL: "the columns' own distributions", TREES: "boosted trees"}
    named = {words[name]: interval for name, interval in scores.whole.items()}
    return comparison_sentence("all cells" if len(scores.own) > 1 else "the response", named)


def _attention(material: TableMaterial) -> str:
    if said := gain_sentences(material.model):
        return " ".join(said)
    if material.model.base_ is None:
        return "The model is attention alone: there is no base that it could add to."
    return "There is no attention in this model, which pools linear predictors, networks and trees."


def _careful(
    material: TableMaterial, predicted: list[PredictedCells], shift: ShiftReport | None
) -> list[str]:
    if material.data is None or material.scored is None:
        return []
    columns = [material.schema.index(column.name) for column in material.inputs]
    missing = float(1 - material.data.present[:, columns].mean()) if columns else 0.0
    sentences = [
        cautions.of_seen(material.overlap, "rows"),
        cautions.of_few(len(material.scored), "row"),
        *careful_of_intervals(predicted),
        cautions.of_missing(missing, "cells"),
        *_of_duplicates(material),
        *_of_shift(shift),
    ]
    return [sentence for sentence in sentences if sentence]


def _of_duplicates(material: TableMaterial) -> list[str]:
    pairs = duplicates_in(material)
    shown = [f"“{first}” and “{second}”" for first, second in pairs[:_NAMED]]
    if not pairs:
        return []
    more = f" (and {len(pairs) - _NAMED} more pairs)" if len(pairs) > _NAMED else ""
    response = material.model.response_
    why = (
        "one may give the response away"
        if any(response is not None and clean(response, most=30) in pair for pair in pairs)
        else "scores of either say little"
    )
    return [f"Columns that say the same: {listing(shown)}{more}: {why}."]


def _of_shift(shift: ShiftReport | None) -> list[str]:
    if shift is None:
        return []
    names = list(dict.fromkeys([*shift.shifted, *shift.surprising]))
    if not names:
        return []
    shown = listing([f"“{clean(name, most=30)}”" for name in names[:_NAMED]])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"The data are not like the training data: {shown}{more} moved."]
