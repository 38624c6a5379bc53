"""Rows of a table: a term is a cell given all others of its row."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError
from exfam.explorer.errors.calibration import choices_come_true, values_come_true
from exfam.explorer.errors.scored import first_of, gives_masses, some_of
from exfam.explorer.errors.shift import bars_of_column, moved_rows
from exfam.explorer.errors.terms import Slicing, Terms, of_bins, of_labels
from exfam.explorer.views import Answer
from exfam.scores.calibration import reliability
from exfam.tables.answers.distributions import cell_log_prob, column_distributions
from exfam.tables.data import Column, decode
from exfam.tables.table import JointTable

_MOST_CELLS, _LEAST_ROWS, _MOST_ROWS = 400_000, 500, 20_000
_MOST_CALIBRATED = 4000
# Of the rows that are scored, what a first look needs.
_FIRST = 0.02
_MISSING = "missing"


class ScoredRows:
    """Cells of a table; of a model with a response, those of the response alone."""

    units, parts = "rows", "columns"

    def __init__(
        self,
        model: JointTable,
        data: Any,
        *,
        against: JointTable | None = None,
        first: bool = False,
    ) -> None:
        self.model, self._data, self._against = model, data, against
        response = model.response_
        self.columns = list(model.schema_.targets if response is None else (response,))
        self.all_cells = model._cells(data)
        budget = float(np.clip(_MOST_CELLS / len(self.columns), _LEAST_ROWS, _MOST_ROWS))
        self.n_all = len(self.all_cells)
        most, self.is_partial = first_of(budget, of=self.n_all, share=_FIRST, first=first)
        self._row = some_of(self.n_all, most)
        self.n_scored = len(self._row)
        self.cells = self.all_cells[self._row]

    @cached_property
    def terms(self) -> Terms:
        """The cells that are there."""
        unit, part = np.nonzero(~np.isnan(self._nats))
        return Terms(unit, part, self._nats[unit, part])

    @cached_property
    def _nats(self) -> Float64[np.ndarray, "rows columns"]:
        return cell_log_prob(self.model.model_, self.cells, self.columns)

    @cached_property
    def other(self) -> Float64[np.ndarray, "terms"] | None:
        """What the second model says of the columns that both predict alike."""
        other = self._against
        if other is None:
            return None
        nats = np.full(self._nats.shape, np.nan)
        cells = other._cells(self._data)[self._row]
        for k, name in enumerate(self.columns):
            if name in other.schema_.targets and _alike(self.model, other, name):
                nats[:, k] = cell_log_prob(other.model_, cells, [name])[:, 0]
        if np.isnan(nats).all():
            raise ExfamError(
                "`against` must predict a column that `model` does, of the same kind, got none."
            )
        return nats[self.terms.unit, self.terms.part]

    @cached_property
    def slicings(self) -> Mapping[str, Slicing]:
        """By column, and by the values of each."""
        own = {"column": of_labels(self.terms.part, self.columns)}
        for column in self.model.schema_.columns:
            slicing = self._by_value(column)
            code = slicing.code[self.terms.unit]
            own[f"value of {column.name}"] = Slicing(code, slicing.labels, column.name)
        return own

    def name_of_unit(self, unit: int) -> str:
        return f"row {self._row[unit]}"

    def name_of_part(self, part: int) -> str:
        return self.columns[part]

    def value_of(self, term: int) -> str:
        name, row = self.columns[self.terms.part[term]], self.terms.unit[term]
        value = self.cells.value[[row], self.model.schema_.index(name)]
        if self.model.schema_.column(name).labels is None:
            return f"{value[0]:.6g}"
        return str(decode(self.model.schema_, name, value)[0])

    def address(self, term: int) -> Mapping[str, Any]:
        row, part = self.terms.unit[term], self.terms.part[term]
        return {"index": int(self._row[row]), "column": self.columns[part]}

    def calibration(self, column: str, terms: Int64[np.ndarray, "chosen"]) -> Answer:
        terms = terms[some_of(len(terms), _MOST_CALIBRATED)]
        part = self.cells[self.terms.unit[terms]]
        distribution = column_distributions(self.model.model_, part, [column])[column]
        value = part.value[:, self.model.schema_.index(column)]
        if self.model.schema_.column(column).labels is None:
            return values_come_true(distribution, torch.from_numpy(value.copy()))
        probability = distribution.probs().double().numpy()
        return choices_come_true(reliability(probability, value.astype(np.int64)))

    def shift(self, after: "ScoredRows") -> Answer:
        return moved_rows(self.model, self.all_cells, after.all_cells)

    def bars(self, after: "ScoredRows", part: str) -> Answer:
        return bars_of_column(self.model, self.all_cells, after.all_cells, part)

    def _by_value(self, column: Column) -> Slicing:
        value = self.cells.value[:, self.model.schema_.index(column.name)]
        if column.labels is None:
            missing = _MISSING if np.isnan(value).any() else None
            return of_bins(value, missing=missing)
        absent = np.isnan(value)
        code = np.where(absent, len(column.labels), value).astype(np.int64)
        return of_labels(code, [*column.labels.tolist(), _MISSING])


def _alike(model: JointTable, other: JointTable, name: str) -> bool:
    """Whether log-probabilities of two models are of the same thing: both masses or densities."""
    kinds = [own.schema_.column(name).kind for own in (model, other)]
    masses = [gives_masses(own.families_[own.schema_.index(name)]) for own in (model, other)]
    return kinds[0] == kinds[1] and masses[0] == masses[1]
