"""What public methods return: columns that become a frame of the caller's kind, and a short view.

A result derives from `TabularResult`, or from `PlottedResult` if a function of `exfam.plots` draws
it, and says its columns in `to_dict`. The public method that returns it ends in
`.like(data)`, with the data that it was given.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import pyarrow as pa

from exfam.checks import ExfamError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Result = TypeVar("_Result", bound="TabularResult")

# Rows of a result that its view has.
SHOWN_ROWS = 6
_MOST_LETTERS = 24
# Where pictures are: a room above, loaded when one is drawn.
_PICTURES = "exfam.plots"


@dataclass(frozen=True, eq=False, repr=False)
class TabularResult(ABC):
    """A result of several columns of one length.

    `frame_kind`: the kind of frame that `to_frame` makes unless it is given one
    """

    frame_kind: str = field(default="pyarrow", kw_only=True)

    @abstractmethod
    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name, as NumPy arrays or lists of one length."""

    def to_frame(self, kind: str | None = None) -> Any:
        """The columns as a frame: of the kind that the data came in, or of the `kind` given.

        `kind`: "pandas", "polars", "pyarrow" or another that narwhals makes (default None); data
            that came in no frame, such as files and dictionaries, give an Arrow table

        Raises ExfamError for a kind that narwhals does not know or that is not installed.
        """
        return make_frame(self.to_dict(), kind=self.frame_kind if kind is None else kind)

    def like(self: _Result, data: Any) -> _Result:
        """The same result, with frames of the kind that `data` is."""
        return replace(self, frame_kind=frame_kind_of(data))

    def headline(self) -> str:
        """What it is, in a line."""
        columns, n_rows = self._view()
        rows = "row" if n_rows == 1 else "rows"
        return f"{type(self).__name__}: {n_rows:,} {rows} of {', '.join(columns)}"

    def _view(self) -> tuple[Mapping[str, Any], int]:
        """Columns of the first rows at least, and the number of all."""
        columns = self.to_dict()
        return columns, len(next(iter(columns.values()))) if columns else 0

    def _calls(self) -> str:
        return "to_frame()"

    def __repr__(self) -> str:
        columns, n_rows = self._view()
        return "\n".join([self.headline(), *_text_lines(columns), _ending(n_rows, self._calls())])

    def _repr_html_(self) -> str:
        columns, n_rows = self._view()
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in _shown_cells(columns)
        )
        return (
            f"<div><p>{escape(self.headline())}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(_ending(n_rows, self._calls()))}</p></div>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlottedResult(TabularResult, ABC):
    """A result that the function `picture` of `exfam.plots` draws."""

    picture: ClassVar[str]

    def plot(self, *, ax: "Axes | None" = None) -> Any:
        """Draw it: the new figure, or None with `ax`, where it is drawn on these axes."""
        return getattr(importlib.import_module(_PICTURES), self.picture)(self, ax=ax)

    def _calls(self) -> str:
        return "to_frame(), plot()"


def in_rows(axes: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A row for each entry of arrays of one shape: what it stands for on each axis, and values.

    `axes`: by name, the labels of an axis, or None for its numbers from 0

    >>> in_rows({"row": None, "word": ("a", "b")}, {"x": np.eye(2)})["word"]
    array(['a', 'b', 'a', 'b'], dtype=object)
    """
    shape = next(iter(values.values())).shape
    columns = dict(zip(axes, np.indices(shape).reshape(len(shape), -1), strict=True))
    for name, labels in axes.items():
        if labels is not None:
            own = labels if isinstance(labels, np.ndarray) else np.array(labels, dtype=object)
            columns[name] = own[columns[name]]
    return columns | {name: numbers.ravel() for name, numbers in values.items()}


def frame_kind_of(data: Any) -> str:
    """The kind of frame that data are, as narwhals names it: "pyarrow" for all that is no frame.

    >>> frame_kind_of({"item": ["milk"]}), frame_kind_of("baskets.csv")
    ('pyarrow', 'pyarrow')
    """
    if isinstance(data, Mapping | str | list | tuple) or data is None:
        return "pyarrow"
    library = type(data).__module__.partition(".")[0]
    if library in ("exfam", "numpy"):
        return "pyarrow"
    if library in ("pandas", "polars") and type(data).__name__ == "DataFrame":
        return library
    import narwhals as nw

    frame = nw.from_native(data, pass_through=True, allow_series=True)
    implementation = getattr(frame, "implementation", None)
    if implementation is None or not (
        implementation.is_pandas_like() or implementation.is_polars()
    ):
        return "pyarrow"
    return str(implementation.value)


def make_frame(columns: Mapping[str, Any], *, kind: str) -> Any:
    """A frame of these columns; labels of several types become text.

    Raises ExfamError for a kind that narwhals does not know or that is not installed.

    >>> make_frame({"item": np.array(["milk", "tea"])}, kind="pandas").shape
    (2, 1)
    """
    table = pa.table({name: arrow_column(np.asarray(column)) for name, column in columns.items()})
    return frame_of(table, kind=kind)


def frame_of(table: pa.Table, *, kind: str) -> Any:
    """The same columns as a frame of a kind.

    Raises ExfamError for a kind that narwhals does not know or that is not installed.
    """
    import narwhals as nw

    try:
        return nw.from_arrow(table, backend=cast(Any, kind)).to_native()
    except (ImportError, ValueError, TypeError) as error:
        raise ExfamError(
            f"`kind` must be a kind of frame that is installed, such as 'pandas', 'polars' or "
            f"'pyarrow', got {kind!r}."
        ) from error


def arrow_column(labels: np.ndarray) -> pa.Array:
    """Labels as Arrow holds them; as text if they are of several types."""
    try:
        return pa.array(labels.tolist() if labels.dtype == object else labels)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if label is None else str(label) for label in labels.tolist()])


def _shown_cells(columns: Mapping[str, Any]) -> list[list[str]]:
    """The first rows, as short texts."""
    if not columns:
        return []
    first = [[_cell(value) for value in column[:SHOWN_ROWS]] for column in columns.values()]
    return [list(row) for row in zip(*first, strict=True)]


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def _text_lines(columns: Mapping[str, Any]) -> list[str]:
    rows = [list(map(_cell, columns)), *_shown_cells(columns)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _ending(n_rows: int, calls: str) -> str:
    more = f"… {n_rows - SHOWN_ROWS:,} more. " if n_rows > SHOWN_ROWS else ""
    return f"{more}Call {calls}."
