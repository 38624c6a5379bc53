"""Results as a table on a terminal, CSV, JSON or Parquet: on stdout, or in a file that is whole."""

import io
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from exfam.checks import ExfamError
from exfam.cli.writable import check_output_file
from exfam.columns.results import arrow_column
from exfam.files import write_atomically
from exfam.training.ranks import is_main_rank

_SUFFIXES = {".txt": "table", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# More rows than anyone reads; rich would take minutes for a million.
SHOWN_ROWS = 1000


@dataclass(frozen=True)
class Destination:
    """Where results go, and how they are written; stdout if `path` is None."""

    format: str
    path: Path | None = None


def destination(format: str | None, output: str | None) -> Destination:
    """Where to write, checked before the work begins."""
    if output is None:
        if format == "parquet" and sys.stdout.isatty():
            raise ExfamError(
                "`--format` must be text on a terminal, got parquet. Use --output FILE.parquet, or "
                "send stdout to a file."
            )
        return Destination(format or "table")
    path = Path(output)
    chosen = format or _SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise ExfamError(
            f"`--output` must end in {', '.join(_SUFFIXES)}, got {output!r}. Or name a --format."
        )
    check_output_file(output)
    return Destination(chosen, path)


def note(*lines: str) -> None:
    """Print lines for the reader on stderr, once under torchrun; results alone are on stdout."""
    if is_main_rank():
        for line in lines:
            print(line.encode(errors="backslashreplace").decode(), file=sys.stderr, flush=True)


def number_of(n: int, word: str) -> str:
    """A number with what it counts: "1 row", "1,200 rows"."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def names_by_label(name: str, labels: Iterable[Any]) -> list[str]:
    """How columns about the labels of a column are called."""
    return [
        f"{name}={label:g}" if isinstance(label, float) else f"{name}={label}" for label in labels
    ]


def beside(columns: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Columns and more of them; those with a name that is taken get a longer one."""
    together = dict(columns)
    for name, column in more.items():
        while name in together:
            name += "_"
        together[name] = column
    return together


def stacked(pieces: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Pieces with the same columns, one below the other."""
    return pa.concat_tables(
        pa.table({name: arrow_column(np.asarray(column)) for name, column in piece.items()})
        for piece in pieces
    )


def deliver(columns: Mapping[str, Any] | pa.Table, to: Destination) -> None:
    """Write a table of results."""
    table = _plain(pa.table(columns))
    if to.path is None and to.format == "table" and sys.stdout.isatty():
        show_rows(table, sys.stdout)
        if table.num_rows > SHOWN_ROWS:
            more = table.num_rows - SHOWN_ROWS
            print(f"{more:,} more rows: --format csv writes all.", file=sys.stderr)
    else:
        _put(_encoded(table, to.format), to)


def deliver_document(document: dict[str, Any], to: Destination) -> None:
    """Write one JSON object."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    _put(text.encode(), to)


def _put(content: bytes, to: Destination) -> None:
    """Bytes to a file or to stdout; UTF-8 whatever the locale."""
    if to.path is not None:
        write_atomically(to.path, content)
    elif hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content.decode())


def _encoded(table: pa.Table, format: str) -> bytes:
    if format == "json":
        return "".join(_json_lines(table)).encode()
    if format == "table":
        return "".join(table_lines(table)).encode()
    buffer = io.BytesIO()
    if format == "csv":
        pa.csv.write_csv(_harmless(table), buffer)
    else:
        pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


def _harmless(table: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would run as a formula, with an apostrophe before them."""
    columns = [
        _marked(column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=_marked(pa.array(table.column_names, pa.string())).to_pylist())


def _marked(texts: Any) -> Any:
    """An apostrophe before each text that begins as formulas do and is no number."""
    begins = pc.match_substring_regex(texts, r"^[=+\-@\t\r]")
    runs = pc.and_not(begins, pc.match_substring_regex(texts, _NUMBER))
    return pc.if_else(runs, pc.utf8_replace_slice(texts, 0, 0, "'"), texts)


def _json_lines(table: pa.Table) -> Iterator[str]:
    opening = "["
    for batch in table.to_batches(max_chunksize=10_000):
        for record in batch.to_pylist():
            plain = {name: _json_value(value) for name, value in record.items()}
            yield f"{opening}\n{json.dumps(plain, ensure_ascii=False, allow_nan=False)}"
            opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def _json_value(value: Any) -> Any:
    """JSON knows no infinity: the probability of an impossible observation is a word."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _plain(table: pa.Table) -> pa.Table:
    """Floats in double precision, NaN as missing, dates as text."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            column = pa.array(column.to_numpy().astype("float64"), from_pandas=True)
        elif pa.types.is_temporal(kind):
            column = column.cast(pa.string())
        columns[name] = column
    return pa.table(columns)


def table_lines(table: pa.Table) -> Iterator[str]:
    """A table as plain lines, as wide as it needs to be."""
    from rich.cells import cell_len

    columns, sides = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = [_one_line(name), *(_cell(value) for value in column.to_pylist())]
        width = max(map(cell_len, cells))
        columns.append([(cell, " " * (width - cell_len(cell))) for cell in cells])
        sides.append(_side(column.type))
    for row in zip(*columns, strict=True):
        padded = [
            space + cell if side == "right" else cell + space
            for (cell, space), side in zip(row, sides, strict=True)
        ]
        yield "  ".join(padded).rstrip() + "\n"


def show_rows(table: pa.Table, file: Any) -> None:
    """The first rows as a table on a terminal, no wider than it."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    page = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        page.add_column(Text(_one_line(name)), justify=_side(kind), overflow="fold")
    for row in table.slice(0, SHOWN_ROWS).to_pylist():
        page.add_row(*(Text(_cell(value)) for value in row.values()))
    Console(file=file, highlight=False).print(page)


def _side(kind: pa.DataType) -> Any:
    return "right" if pa.types.is_floating(kind) or pa.types.is_integer(kind) else "left"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else _one_line(str(value))


def _one_line(word: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in word
    )
