"""A row of a table: any cell edited, emptied or restored, and what follows for all others."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from exfam.checks import ExfamError, shown
from exfam.estimator.gain import gain_sentences
from exfam.explorer.curves import bars_of, density_of
from exfam.explorer.kept import Recent
from exfam.explorer.questions import Question, number_or_none, text_of, whole_of
from exfam.explorer.views import Answer
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.conditions import Between, OneOf
from exfam.tables.answers.distributions import column_distributions
from exfam.tables.base.contributions import cell_contributions
from exfam.tables.data import Cells, Column, decode, encode_given
from exfam.tables.table import JointTable

_CONTRIBUTIONS = 12
# Columns whose distributions are one answer of the page.
_AT_ONCE = 40
# Cells that are kept as the model sees them.
_KEPT = 20_000


class RowView:
    """What a model of a table says of one row that is typed in, or taken from data."""

    name, slow = "row", ("joint",)

    def __init__(self, model: JointTable, data: Any = None) -> None:
        self.model = model
        self.columns = [column for column in model.schema_.columns if column.part_of is None]
        self.cells = None if data is None else model._cells(data)
        self._names = [column.name for column in self.columns]
        # Where a column is among the cells; a date has its parts there too.
        self._where = {
            own: [k for k, c in enumerate(model.schema_.columns) if own in (c.name, c.part_of)]
            for own in self._names
        }
        self._encoded = Recent[Cells](_KEPT)
        targets = set(model.schema_.targets)
        self._targets = [name for name in self._names if name in targets]
        self.questions = {
            "row": self.row, "answer": self.answer, "joint": self.joint, "why": self.why,
        }  # fmt: skip

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Always: this view says what it needs."""
        return True

    def start(self) -> Answer:
        """The model in words, its columns with their labels, and how many rows there are.

        `parts`: of the columns that are predicted, those to be asked for at a time
        """
        firsts = range(0, len(self._targets), _AT_ONCE)
        return {
            "title": type(self.model).__name__,
            "n_rows": 0 if self.cells is None else len(self.cells),
            "gain": " ".join(gain_sentences(self.model)),
            "columns": [self._described(column) for column in self.columns],
            "parts": [self._targets[k : k + _AT_ONCE] for k in firsts],
        }

    def row(self, question: Question) -> Answer:
        """`index` -> the cells of a row of the data, None where missing."""
        if self.cells is None:
            raise ExfamError("`index` must be of a row of data, got none: no data were given.")
        k = whole_of(question, "index", low=0, high=len(self.cells) - 1)
        own = self.cells[k : k + 1]
        cells = {c.name: self._cell(own, c) for c in self.columns}
        for column in self.columns:
            if column.kind != "date":  # whose text may say less than the number
                self._cells_of(column.name, cells[column.name], lambda: own)
        return {"index": k, "cells": cells}

    def answer(self, question: Question) -> Answer:
        """`cells` -> the distribution of each of the `columns`, all of them, given all other cells.

        A cell is a value, or {"low": …, "high": …}, or {"one_of": […]}; columns left out are empty.
        `nats`: log p(cell | all others) where there is a value; `tail`: the probability of a value
        as far out, or of a label as improbable.
        """
        known, conditions = self._parted(question)
        cells, names = self._encode(known), self._chosen(question)
        if conditions:
            found = {name: self._conditioned(known, conditions, name) for name in names}
        else:
            found = column_distributions(self.model.model_, cells, names)
        return {"columns": {name: self._shown(name, found[name], cells) for name in names}}

    def joint(self, question: Question) -> Answer:
        """`cells` -> log p of the row of values, or of the conditions given the values."""
        known, conditions = self._parted(question)
        if not conditions:
            nats = self.model.log_prob(self._row(known))[0] if known else np.nan
            return {"log_prob": number_or_none(nats)}
        answer: Answer = {"log_prob": None}
        free = [name for name in self._targets if name not in {**known, **conditions}][:1]
        if free:
            own = self.model.conditional(free, given={**known, **conditions})
            answer["condition_log_prob"] = number_or_none(own.condition_log_prob[0])
        return answer

    def why(self, question: Question) -> Answer:
        """`cells`, `column` -> what each known cell adds to its prediction, the largest first."""
        name = self._column(question)
        known, _ = self._parted(question)
        known.pop(name, None)
        if self.model.base_ is None or not known:
            return {"column": name, "entries": [], "output": None}
        cells = self._encode(known)
        own = cell_contributions(self.model.base_, cells, [name])
        column = self.model.schema_.column(name)
        output = 0
        if column.labels is not None:
            probs = column_distributions(self.model.model_, cells, [name])[name].probs()
            output = int(probs[0].argmax())
        added = own.parts[0, 0, :, output]
        order = np.argsort(-np.abs(added), kind="stable")[:_CONTRIBUTIONS]
        return {
            "column": name,
            "output": None if column.labels is None else str(column.labels[output]),
            "start": number_or_none(own.start[0, 0, output]),
            "rest": number_or_none(own.rest[0, 0, output]),
            "total": number_or_none(own.outputs[0, 0, output]),
            "entries": [
                {"name": own.columns[k], "contribution": number_or_none(added[k])}
                for k in order
                if added[k]
            ],
        }

    def _encode(self, known: Mapping[str, Any]) -> Cells:
        """The row as the model sees it; a cell that was seen before is not read again."""
        schema, row = self.model.schema_, Cells.absent(1, len(self.model.schema_))
        read = partial(encode_given, schema, unknown="error")
        new = {name: x for name, x in known.items() if _key(name, x) not in self._encoded}
        of_new = cache(partial(read, new))
        for name, value in known.items():
            # Another thread may have made one go since.
            alone = of_new if name in new else partial(read, {name: value})
            own, where = self._cells_of(name, value, alone), self._where[name]
            for whole, cell in zip(vars(row).values(), vars(own).values(), strict=True):
                whole[:, where] = cell
        return row

    def _cells_of(self, name: str, value: Any, read: Callable[[], Cells]) -> Cells:
        """One cell, and the parts of a date, out of the row that is read if it was not before."""
        return self._encoded.of(_key(name, value), lambda: read().columns(self._where[name]))

    def _conditioned(
        self, known: Mapping[str, Any], conditions: Mapping[str, Any], name: str
    ) -> Mixture:
        given = {n: value for n, value in {**known, **conditions}.items() if n != name}
        return self.model.conditional([name], given=given).distributions[name]

    def _shown(self, name: str, distribution: Mixture, cells: Cells) -> Answer:
        column = self.model.schema_.column(name)
        value = cells.value[:, self.model.schema_.index(name)]
        prediction = Prediction(distribution, np.arange(1), 1)
        if column.labels is None:
            return density_of(prediction, value, is_count=column.kind == "count")
        nats = None if np.isnan(value[0]) else number_or_none(prediction.log_prob(value)[0])
        return {"nats": nats, **_of_labels(column, distribution, value[0])}

    def _described(self, column: Column) -> Answer:
        labels = None if column.labels is None else [_plain(label) for label in column.labels]
        return {
            "name": column.name,
            "kind": column.kind,
            "labels": labels,
            "predicted": column.name in self._targets,
        }

    def _cell(self, cells: Cells, column: Column) -> Any:
        schema = self.model.schema_
        value = cells.value[:, schema.index(column.name)]
        return None if np.isnan(value[0]) else _plain(decode(schema, column.name, value)[0])

    def _column(self, question: Question) -> str:
        name = text_of(question, "column")
        if name not in self._targets:
            raise ExfamError(f"`column` must be one that is predicted, got {name!r}.")
        return name

    def _row(self, known: Mapping[str, Any]) -> dict[str, list[Any]]:
        return {name: [known.get(name)] for name in self._names}

    def known(self, question: Question) -> Cells:
        """`cells` -> the row as the model sees it, empty where there is a condition."""
        return self._encode(self._parted(question)[0])

    def _chosen(self, question: Question) -> list[str]:
        names = question.get("columns", self._targets)
        if not isinstance(names, list) or not all(name in self._targets for name in names):
            raise ExfamError(f"`columns` must be columns that are predicted, got {shown(names)}.")
        return names

    def _parted(self, question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values and conditions by column."""
        given = self._given(question)
        conditions = {n: own for n, own in given.items() if isinstance(own, Between | OneOf)}
        return {n: own for n, own in given.items() if n not in conditions}, conditions

    def _given(self, question: Question) -> dict[str, Any]:
        cells = question.get("cells", {})
        if not isinstance(cells, Mapping):
            raise ExfamError(f"`cells` must map columns to values, got {shown(cells)}.")
        given = {}
        for name, value in cells.items():
            if name not in self._names:
                raise ExfamError(f"`cells` must name columns of the model, got {shown(name)}.")
            if value is not None:
                given[name] = _condition(value) if isinstance(value, Mapping) else value
        return given


def _key(name: str, value: Any) -> tuple[str, str]:
    return name, json.dumps(value)


def _condition(value: Mapping[str, Any]) -> Between | OneOf:
    if set(value) == {"one_of"}:
        return OneOf(value["one_of"])
    if value and set(value) <= {"low", "high"}:
        return Between(value.get("low"), value.get("high"))
    raise ExfamError(f"`cells` must hold values, ranges or sets of labels, got {shown(value)}.")


def _plain(value: Any) -> Any:
    """A label, number or date as JSON has it."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "iufb" else value
    return value if isinstance(value, bool | int | float | str) else str(value)


def _of_labels(column: Column, distribution: Mixture, code: float) -> Answer:
    assert column.labels is not None
    labels = [_plain(label) for label in column.labels]
    probability = distribution.probs()[0].double().numpy()
    own = None if np.isnan(code) else int(code)
    return bars_of(probability, labels, in_order=column.kind == "ordinal", own=own)
