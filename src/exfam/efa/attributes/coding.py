"""Attributes as numbers of like size: categories as columns of their own, numbers standardized."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from exfam.checks import DataError, ExfamWarning, with_types
from exfam.efa.attributes.item_table import ItemTable

# Standardized numbers end here: a single item far off would be like no other.
_FAR = 5.0
# Labels of a category that so many items share at least have a column; the others are unknown.
_LEAST_ITEMS = 2


@dataclass(frozen=True)
class AttributeCode:
    """How one column becomes numbers.

    `labels`: those of a category, None of numbers; `center` and `spread`: of what it becomes;
    `marks_missing`: whether its last number says that a cell is missing.
    """

    name: str
    labels: tuple[str, ...] | None
    marks_missing: bool
    center: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()

    def plain(self, cells: pa.Array) -> Float[np.ndarray, "items numbers"]:
        """The numbers before they are standardized; NaN stands for what is not known."""
        missing = np.asarray(cells.is_null())
        if self.labels is None:
            numbers = np.asarray(cells.cast(pa.float64()).fill_null(np.nan), dtype=np.float64)
            columns = [numbers]
        else:
            code = {label: number for number, label in enumerate(self.labels)}
            codes = np.array([code.get(cell, -1) for cell in cells.to_pylist()], dtype=np.int64)
            known = (codes >= 0) | (missing & self.marks_missing)
            columns = [
                np.where(known, codes == number, np.nan) for number in range(len(self.labels))
            ]
        if self.marks_missing:
            columns.append(missing.astype(np.float64))
        return np.stack(columns, 1) if columns else np.zeros((len(cells), 0))

    def numbers(self, cells: pa.Array) -> Float[np.ndarray, "items numbers"]:
        """Standardized numbers: what is not known has the mean, 0."""
        numbers = (self.plain(cells) - np.array(self.center)) / np.array(self.spread)
        return np.nan_to_num(np.clip(numbers, -_FAR, _FAR), nan=0.0)

    def unknown(self, cells: pa.Array) -> list[str]:
        """Labels that there were none of."""
        if self.labels is None:
            return []
        known = {*self.labels, None}
        return [cell for cell in cells.to_pylist() if cell not in known]


@dataclass(frozen=True)
class FeatureCoding:
    """How all columns become numbers."""

    codes: tuple[AttributeCode, ...]

    @classmethod
    def of(cls, table: ItemTable, argument: str) -> "FeatureCoding":
        """The coding by these items. Raises DataError for texts that no two items share."""
        codes = [_coded(name, cells, argument) for name, cells in table.columns.items()]
        return cls(tuple(codes))

    def numbers(self, table: ItemTable, argument: str) -> Float[np.ndarray, "items features"]:
        """Features of items. Raises DataError for a column that lacks or is of another kind."""
        parts = [np.zeros((len(table.labels), 0))]
        for code in self.codes:
            parts.append(code.numbers(_column(table.columns, code, argument)))
        return np.concatenate(parts, axis=1)

    def warn_unknown(self, table: ItemTable, argument: str) -> None:
        """One ExfamWarning for all labels that no two items of the fit had."""
        unknown = [
            (code.name, label)
            for code in self.codes
            for label in code.unknown(_column(table.columns, code, argument))
        ]
        if unknown:
            name, label = unknown[0]
            warnings.warn(
                f"{len(unknown)} cells of `{argument}` hold labels that no two items of the fit "
                f"had, such as {label!r} in column {name!r}: they count as the mean of all labels.",
                ExfamWarning,
                stacklevel=2,
            )

    def to_config(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [asdict(code) for code in self.codes]

    @classmethod
    def from_config(cls, config: Sequence[Mapping[str, Any]]) -> "FeatureCoding":
        """The coding that `to_config` wrote."""
        tuples = ("labels", "center", "spread")
        codes = []
        for given in config:
            lists = {name: given[name] for name in tuples if given[name] is not None}
            whole = {**given, **{name: tuple(numbers) for name, numbers in lists.items()}}
            codes.append(with_types(AttributeCode(**whole)))
        return cls(tuple(codes))


def _column(columns: Mapping[str, pa.Array], code: AttributeCode, argument: str) -> pa.Array:
    if code.name not in columns:
        listed = ", ".join(map(repr, columns))
        raise DataError(
            f"`{argument}` must have the column {code.name!r}, as in the fit, got the columns "
            f"{listed}. Add it; cells may be missing."
        )
    cells = columns[code.name]
    is_text = pa.types.is_large_string(cells.type)
    wanted = "numbers" if code.labels is None else "texts"
    if cells.null_count < len(cells) and is_text != (code.labels is not None):
        got = "texts" if is_text else "numbers"
        raise DataError(
            f"`{argument}` must hold {wanted} in column {code.name!r}, as in the fit, got {got}."
        )
    empty = pa.large_string() if code.labels is not None else pa.float64()
    return cells if cells.null_count < len(cells) else pa.nulls(len(cells), empty)


def _coded(name: str, cells: pa.Array, argument: str) -> AttributeCode:
    labels, n_missing = None, cells.null_count
    if pa.types.is_large_string(cells.type):
        found, count = np.unique(cells.drop_null().to_pylist(), return_counts=True)
        labels = tuple(found[count >= _LEAST_ITEMS].tolist())
        if not labels and len(found) > 1:
            raise DataError(
                f"`{argument}` must hold texts that items share, got another one for every item "
                f"in column {name!r}, such as {found[0]!r}. Leave the column out, or pass numbers "
                "made of it, such as which words it has."
            )
    code = AttributeCode(name, labels, marks_missing=0 < n_missing < len(cells))
    plain = code.plain(cells)
    is_known = ~np.isnan(plain)
    count = np.maximum(is_known.sum(0), 1)
    center = np.where(is_known, plain, 0.0).sum(0) / count
    spread = np.sqrt(np.where(is_known, np.square(plain - center), 0.0).sum(0) / count)
    if labels is not None and len(spread):
        # All labels of a category together vary as much as one number.
        spread = np.full(len(spread), np.sqrt(np.square(spread).sum()))
    spread = np.where(spread > 0, spread, 1.0)
    return AttributeCode(
        name, labels, code.marks_missing, tuple(center.tolist()), tuple(spread.tolist())
    )
