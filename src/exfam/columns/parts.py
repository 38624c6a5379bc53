"""Parts that columns play, where their rows stand, labels that a vocabulary lacks."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, ExfamWarning, UnknownItemError

# As `order`: rows come in an order that means something.
ROWS = "rows"
Names = str | Sequence[str] | None
_ARGUMENTS = ("group", "item", "value", "attributes", "group_attributes", "position", "order")


@dataclass(frozen=True)
class Part:
    """One column of the source in one role, such as `Part("value", "stars")`."""

    argument: str
    name: str

    @property
    def key(self) -> str:
        """What a vocabulary calls the labels of the column."""
        return "item" if self.argument == "item" else self.name


@dataclass(frozen=True)
class FrameColumns:
    """Which columns of a frame play which part; a part with several columns takes a list.

    `order` may also be the word "rows": the rows come in an order that means something.
    """

    group: str
    order: Names = None
    item: str | None = None
    value: Names = None
    attributes: Names = ()
    group_attributes: Names = ()
    position: Names = None

    def __post_init__(self) -> None:
        for argument in ("item", "value"):
            if self.group in _listed(getattr(self, argument)):
                raise DataError(
                    f"`{argument}` must name another column than `group`, got {self.group!r} for "
                    "both."
                )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are named, group first, each of them once."""
        named = {argument: _listed(getattr(self, argument)) for argument in _ARGUMENTS}
        if self.order == ROWS:  # no column: the rows come in order
            named["order"] = []
        return tuple(dict.fromkeys(Part(key, name) for key in named for name in named[key]))

    @property
    def ordered(self) -> bool:
        """Whether groups read with these columns are in an order that means something."""
        return bool(_listed(self.order))

    def check_rows(self, names: Iterable[Any], where: str = "") -> None:
        """Raise DataError if order="rows" might also mean a column of that name."""
        if self.order == ROWS and ROWS in names:
            raise DataError(
                "`order` must not be 'rows' where a column has that name, got a column 'rows'"
                f"{where}. Pass order=['rows'] in Python to sort by the column, or rename it."
            )


def _listed(names: Names) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a row of the source stands: which file, which row of it.

    `counts` says how many rows each file has; it is called only for the sake of an error.
    """

    files: Sequence[str] = ()
    counts: Callable[[], Iterable[int]] = tuple

    @property
    def where(self) -> str:
        """Which file or files, as the end of a sentence; nothing for frames and queries."""
        if not self.files:
            return ""
        others = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f" in {self.files[0]}{others}"

    def of(self, row: int) -> tuple[int, str]:
        """The row within its file, and which file that is."""
        if len(self.files) > 1:
            for file, count in zip(self.files, self.counts(), strict=False):
                if row < count:
                    return row, f" in {file}"
                row -= count
        return row, self.where

    def row(self, row: int) -> str:
        """A row in words, with its file if there is one."""
        number, file = self.of(row)
        return f"row {number}{file}"

    def error(
        self, part: Part, rule: str, *, found: tuple[int, Any, int], n_rows: int, advice: str
    ) -> DataError:
        """The error for a row: `found` is the row, its cell, and how many rows are like it."""
        row, where = self.of(found[0])
        got = "nothing" if found[1] is None else repr(found[1])
        return DataError(
            f"`{part.argument}` must {rule}, got {got} at row {row} of column {part.name!r}{where} "
            f"({found[2]} of {n_rows} rows). {advice}".rstrip()
        )


def check_named(
    parts: Iterable[Part], names: Sequence[Any], *, what: str = "source", where: str = ""
) -> None:
    """Raise DataError unless each part names one column.

    `what`: what errors call that which has the columns (default "source")
    `where`: which file, as the end of a sentence (default "")
    """
    for part in parts:
        if part.name not in names:
            listed = ", ".join(repr(name) for name in names) or "none"
            raise DataError(
                f"`{part.argument}` must name a column of the {what}, got {part.name!r}{where}. "
                f"Its columns: {listed}."
            )
        if names.count(part.name) > 1:
            raise DataError(
                f"`{what}` must have one column of each name, got {part.name!r} twice{where}."
            )


def varying_error(name: str, group: Any, where: str) -> DataError:
    """The error for an attribute of groups that has two values in one."""
    return DataError(
        f"`group_attributes` must be constant within a group, got a second value of {name!r} "
        f"in group {group!r} at {where}. List it in `attributes` if it belongs to the elements."
    )


def look_up(
    names: np.ndarray, known: np.ndarray, *, typed: bool = True
) -> Int64[np.ndarray, "labels"]:
    """Where each name is among the known labels, -1 where it is not.

    `typed`: whether text is text; otherwise it may stand for a number (default True)
    """
    lookup = {label: code for code, label in enumerate(known.tolist())}
    if not typed:
        lookup = {str(label): code for label, code in lookup.items()} | lookup
    return np.array([lookup.get(name, -1) for name in names.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class UnknownLabels:
    """Labels of a column that the vocabulary lacks: in so many rows so many, such as `example`.

    `argument`: the part that the column plays: "item", "attributes" or "group_attributes"
    `column`: its name, "item" for items
    """

    argument: str
    column: str
    rows: int
    labels: int
    example: Any

    def __str__(self) -> str:
        what = "items" if self.argument == "item" else f"labels of {self.column!r}"
        rows, labels = (
            f"{n:,} {word}{'' if n == 1 else 's'}"
            for n, word in ((self.rows, "row"), (self.labels, "label"))
        )
        return f"{rows} of {what} never seen in training ({labels}, such as {self.example!r})"

    def error(self, where: str, *, n_known: int, n_rows: int) -> DataError:
        """The error for the first of these rows, which `where` names and has the `example`."""
        of = "" if self.argument == self.column else f" of {self.column!r}"
        kind = UnknownItemError if self.argument == "item" else DataError
        return kind(
            f"`{self.argument}` must be in the vocabulary{of} ({n_known} labels), got "
            f"{self.example!r} at {where} ({self.rows} of {n_rows} rows). Choose unknown='ignore' "
            "or unknown='unk'."
        )


def warn_unknown(found: Sequence[UnknownLabels], *, ignored: bool) -> None:
    """One ExfamWarning for all columns; `ignored`: whether rows of unknown items are left out."""
    if not found:
        return
    done = "Such labels are taken as unknown."
    if any(labels.argument == "item" for labels in found):
        done = (
            "Rows of unknown items are left out."
            if ignored
            else "They stay in the context as unknown; where items are predicted, a score leaves "
            "these rows out of its mean."
        )
    message = (
        f"The data have {' and '.join(map(str, found))}. {done} "
        "Choose unknown='error' to refuse them."
    )
    warnings.warn(message, ExfamWarning, stacklevel=2)
