"""Where a text file is broken: looked for by reading it again, once reading it has failed."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from exfam.checks import DataError
from exfam.columns.parts import Origin
from exfam.reading.database import first_line
from exfam.reading.paths import short_lines

CHUNK = 1 << 20
Files = Sequence[tuple[str, Path]]


def first_bad(files: Files, search: Callable[[Path], str | None]) -> DataError | None:
    """What is wrong with the first of some (name, path) that is broken."""
    for name, path in files:
        try:
            wrong = search(path)
        except csv.Error as error:
            wrong = f"`source` must have lines that can be read, got {error} of FILE."
        if wrong:
            return DataError(wrong.replace("FILE", name))
    return None


def refused(
    error: Exception, files: Files, search: Callable[[Path], str | None], *, kind: str
) -> DataError:
    """Why DuckDB refused some (name, path): what is wrong with the first, or else what it says."""
    what = f"{first_line(error)}{Origin([name for name, _ in files]).where}"
    return first_bad(files, search) or DataError(f"`source` must be a {kind} file, got {what}.")


def bad_cells(path: Path, *, delimiter: str) -> str | None:
    """What is wrong with the first line of a CSV file that has not as many cells as its header."""
    start = 1
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(short_lines(file), delimiter=delimiter, strict=True)
        try:
            n_cells = len(next(lines))
            start = lines.line_num + 1
            for cells in lines:
                if cells and len(cells) != n_cells and cells[n_cells:] != [""]:
                    return (
                        "`source` must have as many cells in a line as in its header, "
                        f"{n_cells}, got {len(cells)} on line {start} of FILE. Mend the line; a "
                        f"cell with a {delimiter!r} or a line end in it stands in double quotes."
                    )
                start = lines.line_num + 1
        except csv.Error as error:
            return (
                f"`source` must be a CSV file, got {error} in the cells that begin on line {start} "
                "of FILE. Mend the line; double quotes within quotes are doubled."
            )
    with open(path, "rb") as stored:
        # Of a long line the last piece has the end.
        pieces = iter(lambda: stored.readline(CHUNK), b"")
        ends = [piece.endswith(b"\r\n") for piece in pieces if piece.endswith(b"\n")]
    if not ends or all(end == ends[0] for end in ends):
        return None
    return (
        f"`source` must end all lines alike, got another end on line {ends.index(not ends[0]) + 1} "
        "of FILE than on the first. Save it anew with one kind of line end."
    )


def bad_object(path: Path) -> str | None:
    """What is wrong with a JSON file: with its array, or the first line that is not one object."""
    if (wrong := _bad_array(path)) != "":
        return wrong
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(short_lines(file), start=1):
            if not line.strip():
                continue
            rule = "one JSON object a line"
            try:
                value = json.loads(line, object_pairs_hook=_once)
                if isinstance(value, dict):
                    continue
                got = f"a {type(value).__name__}"
            except RecursionError:
                rule, got = "values of few levels", "too many"
            except ValueError as error:
                got = getattr(error, "msg", str(error))
            return f"`source` must have {rule}, got {got} on line {number} of FILE."
    return None


def _bad_array(path: Path) -> str | None:
    """What is wrong with an array of objects; "" if the file does not begin with one."""
    with open(path, encoding="utf-8-sig") as file:
        if not re.match(r"\s*\[\s*\{", file.read(1 << 12)):
            return ""
        file.seek(0)
        rule = "an array of JSON objects"
        try:
            values = json.load(file, object_pairs_hook=_once)
        except ValueError as error:
            line = f" on line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            return f"`source` must have {rule}, got {getattr(error, 'msg', error)}{line} of FILE."
    odd = next((k for k, value in enumerate(values) if not isinstance(value, dict)), None)
    if odd is None:
        return None
    return f"`source` must have {rule}, got a {type(values[odd]).__name__} at {odd} of FILE."


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} twice")
    return value
