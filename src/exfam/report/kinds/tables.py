"""Reports about models of tables: rows of mixed columns."""

from typing import Any

from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.page import Summary
from exfam.report.tables.column_scores_section import (
    TableScores,
    column_score_section,
    score_columns,
)
from exfam.report.tables.column_section import column_section
from exfam.report.tables.table_material import TableMaterial, gather_table
from exfam.report.words import clean, quantity


def table_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about a model of a table."""
    material = gather_table(model, request)
    scores = score_columns(material)
    sections = [column_section(material), column_score_section(material, scores)]
    return ReportContent(_lead(material), _summary(material, scores), sections)


def _lead(material: TableMaterial) -> str:
    model, n = material.model, len(material.inputs)
    what = f"{type(model).__name__} of {quantity(n, 'column')}"
    if model.response_ is not None:
        what += f", response “{clean(model.response_, most=40)}”"
    if material.data is None:
        return f"{what}, without data."
    return f"{what}, on {quantity(len(material.data), 'row')} of data."


def _summary(material: TableMaterial, scores: TableScores | None) -> Summary:
    return Summary(careful=[cautions.of_seen(material.overlap, "rows")])
