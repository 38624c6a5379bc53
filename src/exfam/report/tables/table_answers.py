"""What a table's columns contribute, what is predicted given one alone, and what has moved."""

from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import ExfamError
from exfam.families.mixtures import Mixture
from exfam.plots import conditional_band, conditional_shares
from exfam.report.page import Pairs, Picture, Section, SideBySide, TableData, left_out
from exfam.report.tables.column_section import short
from exfam.report.tables.table_material import TableMaterial
from exfam.report.words import clean, figure, percent, quantity
from exfam.tables.base.contributions import summarize
from exfam.tables.data import Cells, Column, decode
from exfam.tables.experts.table_attention import attention_of_table, summarize_experts
from exfam.tables.shift.report import ColumnShift, ShiftReport

_CONTRIBUTIONS, _GIVEN, _SHIFT = "What each column contributes", "Given one column", "Shift"
_EXPLAINED, _MOST_COLUMNS, _MOST_TARGETS, _FEW = 500, 20, 12, 4
_MOST_LABELS, _MOST_GIVEN, _POINTS = 5, 8, 9
_MOST_SHIFTED_ROWS = 1500
_LEVEL = 0.8


def column_contributions(material: TableMaterial) -> Any:
    """The model's summary of what columns add, None without data or exact parts."""
    if material.scored is None or not len(material.inputs):
        return None
    rows = material.scored[:_EXPLAINED]
    model, names = material.model, list(material.targets[:_MOST_TARGETS])
    if model.base_ is not None:
        return summarize(model.base_, rows, names)
    try:
        return summarize_experts(attention_of_table(model.model_, member=0), rows, names)
    except ExfamError:  # a deep network
        return None


def contribution_section(material: TableMaterial, summary: Any) -> Section:
    """How much each column moves the predictions of the response, or of each other column."""
    if summary is None:
        return left_out(_CONTRIBUTIONS, "there are no data, or the model has no exact parts.")
    n = min(_EXPLAINED, len(material.scored or ()))
    of_base = material.model.base_ is not None
    what = (
        "mean length of what a column adds to the outputs: log-probabilities of labels, or the "
        "location of numbers"
        if of_base
        else "mean weight and length of what a column's expert adds to the outputs"
    )
    text = [
        f"Means over {quantity(n, 'row')}: {what}. The parts of linear predictors and trees "
        "are exact."
        if of_base
        else f"Means over {quantity(n, 'row')}: {what}."
    ]
    if material.model.response_ is not None:
        return Section(_CONTRIBUTIONS, text=text, parts=[_of_response(summary)])
    return Section(_CONTRIBUTIONS, text=text, parts=[_of_columns(summary)])


def _of_response(summary: Any) -> TableData:
    size, spread = summary.size[0], summary.spread[0]
    order = np.argsort(-size, kind="stable")[:_MOST_COLUMNS]
    order = order[size[order] > 0]
    largest = size.max(initial=0) or 1.0
    rows = [[clean(summary.columns[k], most=40), short(size[k]), short(spread[k])] for k in order]
    rest = getattr(summary, "rest", None)
    caption = "Adds: the mean length. Varies: its standard deviation over rows."
    if rest is not None and rest[0] > 0:
        caption += f" Members without exact parts, such as a network, add {short(rest[0])}."
    return TableData(
        ["column", "adds", "varies"], rows, words=["column"], caption=caption,
        shares={"adds": (size[order] / largest).tolist()}, title="Columns by what they add",
    )  # fmt: skip


def _of_columns(summary: Any) -> TableData:
    """Of each column the others that say most of it, as shares of all that is added."""
    rows: list[list[str | Pairs]] = []
    for t, target in enumerate(summary.targets):
        size = summary.size[t]
        total = size.sum() or 1.0
        order = np.argsort(-size, kind="stable")[:_FEW]
        entries = [
            (clean(summary.columns[k], most=30), percent(size[k] / total, 0))
            for k in order
            if size[k] > 0
        ]
        rows.append([clean(target, most=40), Pairs(entries)])
    return TableData(
        ["column", "predicted from"], rows, words=["column", "predicted from"],
        caption=f"Shares of all that columns add; the {_FEW} largest.",
    )  # fmt: skip


def conditional_section(material: TableMaterial, summary: Any) -> Section:
    """What is predicted of the response, or of the first column, given one other column alone."""
    target = material.targets[0] if material.targets else None
    if target is None or summary is None:
        return left_out(_GIVEN, "there are no data, or the model has no exact parts.")
    names = _strongest(material, summary)
    column = material.schema.column(target)
    pictures = [
        picture
        for name in names
        if (picture := _picture(material, column, material.schema.column(name))) is not None
    ]
    if not pictures:
        return left_out(_GIVEN, "no other column varies.")
    shown = clean(target, most=40)
    text = [
        f"What the model predicts of “{shown}” if it is given one column and nothing else, for the "
        "columns that contribute most. Not what would happen if that column were changed."
    ]
    return Section(_GIVEN, text=text, parts=[SideBySide(pictures)])


def _strongest(material: TableMaterial, summary: Any) -> list[str]:
    size = dict(zip(summary.columns, summary.size[0].tolist(), strict=True))
    able = [c.name for c in material.inputs if not c.input_only and c.name != summary.targets[0]]
    return sorted(able, key=lambda name: -size.get(name, 0.0))[:_FEW]


def _picture(material: TableMaterial, target: Column, given: Column) -> Picture | None:
    assert material.data is not None
    value = material.data.value[:, material.schema.index(given.name)]
    value = value[~np.isnan(value)]
    points = _points(given, value)
    if len(points) < 2:
        return None
    shown = decode(material.schema, given.name, points)
    table = pa.table({given.name: pa.array(list(shown))})
    answer = material.model.conditional([target.name], given=table)
    distribution = answer.distributions[target.name]
    x = [clean(label, most=22) for label in shown] if given.labels is not None else points
    title = f"“{clean(target.name, most=24)}” given “{clean(given.name, most=24)}”"
    drawn = _drawn(target, given, x, distribution, _frequency(material, target))
    return Picture(title, drawn, _how(target))


def _frequency(material: TableMaterial, column: Column) -> np.ndarray:
    """How often each label occurs; of numbers nothing."""
    if column.labels is None:
        return np.zeros(0)
    assert material.data is not None
    value = material.data.value[:, material.schema.index(column.name)]
    there = value[~np.isnan(value)].astype(np.int64)
    return np.bincount(there, minlength=len(column.labels))


def _points(column: Column, value: np.ndarray) -> np.ndarray:
    """Labels by how often they occur, in order; of numbers quantiles."""
    if column.labels is None:
        levels = np.quantile(value, np.linspace(0.02, 0.98, _POINTS)) if len(value) else value
        return np.unique(np.round(levels) if column.kind == "count" else levels)
    count = np.bincount(value.astype(np.int64), minlength=len(column.labels))
    most = np.argsort(-count, kind="stable")[:_MOST_GIVEN]
    return np.sort(most[count[most] > 0]).astype(np.float64)


def _drawn(
    target: Column, given: Column, x: Any, distribution: Mixture, frequency: np.ndarray
) -> Any:
    x_name, y_name = clean(given.name), clean(target.name)
    if target.labels is None:
        tail = (1 - _LEVEL) / 2
        low, high = (distribution.quantile(p).double().numpy() for p in (tail, 1 - tail))
        center = distribution.center().double().numpy()
        return conditional_band(x, center, low, high, x=x_name, y=y_name)
    probability = distribution.probs().double().numpy()
    most = np.sort(np.argsort(-frequency, kind="stable")[:_MOST_LABELS])
    labels = [clean(target.labels[k], most=22) for k in most]
    return conditional_shares(x, probability[:, most], labels, x=x_name, y=y_name)


def _how(target: Column) -> str:
    if target.labels is None:
        return f"Predicted mean, and where {percent(_LEVEL, 0)} of values are expected."
    more = len(target.labels) - _MOST_LABELS
    return f"Of {len(target.labels)} labels the {_MOST_LABELS} most frequent." if more > 0 else ""


def table_shift(material: TableMaterial) -> ShiftReport | None:
    """How the data differ from the training data given, if there are both."""
    if material.train is None or material.data is None:
        return None
    train, new = (_some(cells, material.seed) for cells in (material.train, material.data))
    report: ShiftReport = material.model._shift(train, new)
    return report


def _some(cells: Cells, seed: int) -> Cells:
    if len(cells) <= _MOST_SHIFTED_ROWS:
        return cells
    drawn = np.random.default_rng(seed).permutation(len(cells))[:_MOST_SHIFTED_ROWS]
    return cells[np.sort(drawn)]


def shift_section(material: TableMaterial, shift: ShiftReport | None) -> Section:
    """Columns whose distribution moved, and those that fit the others of their row less."""
    if shift is None:
        return left_out(_SHIFT, "give training data as well to see which columns have moved.")
    rows = [_shifted(column, shift) for column in shift.columns[:60]]
    flagged = [k for k, row in enumerate(rows) if row[-1]]
    z = shift.rows.z
    text = [
        f"Whole rows of the data have {figure(shift.rows.new)} nats, those of the training data "
        f"{figure(shift.rows.train)}: a difference of {figure(shift.rows.difference)} ± "
        f"{figure(shift.rows.error)} (z = {figure(z, 1)}). Where the model was fitted on these "
        "training data, some of this is that it knows them."
    ]
    table = TableData(
        ["column", "p", "z", "missing", "moved"],
        rows,
        words=["column", "moved"],
        marked=flagged,
        caption="p: that the column has one distribution in training data and data. z: how much "
        "better its cells fit the others of their rows, in standard errors. Missing: training data "
        f"→ data. Moved: the chance of any false mark is {shift.level:g} (Bonferroni).",
    )
    return Section(_SHIFT, text=text, parts=[table])


def _shifted(column: ColumnShift, shift: ShiftReport) -> list[str]:
    p, given, absent = column.marginal.p, column.conditional, column.absent
    words = ["itself"] if column.name in shift.shifted else []
    words += ["given others"] if column.name in shift.surprising else []
    return [
        clean(column.name, most=40),
        "–" if np.isnan(p) else f"{p:.2g}",
        figure(given.z, 1),
        f"{percent(absent.train, 0)} → {percent(absent.new, 0)}",
        ", ".join(words),
    ]
