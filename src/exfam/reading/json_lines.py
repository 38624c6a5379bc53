"""JSON lines: one object a line, kinds of values taken from all lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from exfam.checks import DataError
from exfam.columns.parts import Part, Places, check_named, complaint
from exfam.reading.database import Database, explained, first_line
from exfam.reading.files import scanned, unpacked
from exfam.reading.lines import bad_object, first_bad
from exfam.reading.quoting import literal
from exfam.reading.table import Column, Table, staged

WHOLE = {"BIGINT", "UBIGINT"}
# A column of lists or objects: no part takes it, and the error shows it as it is written.
NESTED = pa.list_(pa.null())


def open_json_lines(database: Database, paths: Sequence[Path], parts: Sequence[Part]) -> Table:
    """JSON lines files as one table; a key that a line lacks is a missing value.

    Raises DataError naming the file and line of what is no object, and the row of a value of
    another kind than those before it.
    """
    files = [(str(path), unpacked(path, database.folder)) for path in paths]
    _check_cases(parts)

    with explained(lambda error: _unreadable(error, files)):
        raw = _raw(database, files, parts)
        kinds = {part: _kinds(database, raw, part) for part in parts}
        absent = [part for part in parts if not kinds[part]]
        if absent and database.row(f"SELECT count(*) FROM {raw.relation}")[0]:
            check_named(absent, sorted(key_names(database, files)), where=raw.places.where)
        columns = {part: _column(database, raw, part, kinds[part]) for part in parts}
        return staged(database, raw.relation, columns, raw.places)


def _unreadable(error: duckdb.Error, files: Sequence[tuple[str, Path]]) -> DataError:
    what = f"{first_line(error)}{Places([name for name, _ in files]).where}"
    found = first_bad(files, bad_object)
    return found or DataError(f"`source` must be a JSON lines file, got {what}.")


def _check_cases(parts: Sequence[Part]) -> None:
    """Raise where DuckDB, which ignores upper and lower case, would mix up two names."""
    seen: dict[str, str] = {}
    for part in parts:
        other = seen.setdefault(part.name.lower(), part.name)
        if other != part.name:
            raise DataError(
                f"`{part.argument}` must not be named as another column but for upper and lower "
                f"case in a JSON lines file, got {part.name!r} and {other!r}. Rename one."
            )


def _raw(database: Database, files: Sequence[tuple[str, Path]], parts: Sequence[Part]) -> Table:
    names = list(dict.fromkeys(part.name for part in parts))

    def counts() -> Iterator[int]:
        for _, path in files:
            yield database.row(f"SELECT count(*) FROM {_scan([path], names)}")[0]

    scan = _scan([path for _, path in files], names)
    aliases = ", ".join(f"c{k}" for k in range(len(names)))
    columns = {part: Column(f"c{names.index(part.name)}", pa.large_string()) for part in parts}
    relation = f"(SELECT *, row_number() OVER () - 1 AS row FROM {scan} AS t({aliases}))"
    return Table(relation, columns, Places([name for name, _ in files], counts))


def _scan(paths: Sequence[Path], names: Sequence[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    return (
        f"read_json({scanned(paths)}, format = 'newline_delimited', records = true, "
        f"columns = {{{columns}}})"
    )


def key_names(database: Database, files: Sequence[tuple[str, Path]]) -> list[str]:
    """The keys of all lines, in the order in which they first appear; `files` are (name, path).

    Raises DataError naming the file and line of what is no object.

    >>> import tempfile
    >>> from exfam.reading.database import open_database
    >>> from exfam.reading.options import ReadingOptions
    >>> path = Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"km": 40}\\n{"km": 60, "age": 3}\\n')
    >>> with open_database(ReadingOptions()) as database:
    ...     key_names(database, [("a.jsonl", path)])
    ['km', 'age']
    """
    objects = f"read_ndjson_objects({scanned([path for _, path in files])})"
    lines = f"(SELECT json_keys(json) AS keys, row_number() OVER () AS line FROM {objects})"
    keys = f"(SELECT unnest(keys) AS k, unnest(range(len(keys))) AS place, line FROM {lines})"
    with explained(lambda error: _unreadable(error, files)):
        found = database.table(f"SELECT k FROM {keys} GROUP BY k ORDER BY min((line, place))")
    names = found["k"].to_pylist()
    # DuckDB takes a lone bracket for no line at all.
    if not names and (wrong := first_bad(files, bad_object)):
        raise wrong
    return names


def _kinds(database: Database, raw: Table, part: Part) -> set[str]:
    """The kinds of values there are, missing ones aside, in the words of DuckDB."""
    x = raw.columns[part].sql
    query = f"SELECT DISTINCT json_type({x}) AS kind FROM {raw.relation} WHERE {x} IS NOT NULL"
    return set(database.table(query)["kind"].to_pylist()) - {"NULL"}


def _column(database: Database, raw: Table, part: Part, kinds: set[str]) -> Column:
    text = f"({raw.columns[part].sql} ->> '$')"
    if not kinds:
        return Column(f"CAST({text} AS DOUBLE)", pa.null())
    if kinds == {"VARCHAR"}:
        return Column(text, pa.large_string())
    if kinds == {"BOOLEAN"}:
        return Column(f"CAST({text} AS BOOLEAN)", pa.bool_())
    if kinds <= {"ARRAY", "OBJECT"}:
        return Column(text, NESTED)
    if not kinds <= WHOLE | {"DOUBLE"}:
        raise _mixture(database, raw, part)
    for kind, name in ((pa.int64(), "BIGINT"), (pa.uint64(), "UBIGINT")):
        wrong = f"{text} IS NOT NULL AND TRY_CAST({text} AS {name}) IS NULL"
        n_wrong = f"SELECT count(*) FROM {raw.relation} WHERE {wrong}"
        if kinds <= WHOLE and database.row(n_wrong)[0] == 0:
            return Column(f"CAST({text} AS {name})", kind)
    return Column(f"CAST({text} AS DOUBLE)", pa.float64())


def _mixture(database: Database, raw: Table, part: Part) -> DataError:
    """The error for a column with values of different kinds."""
    x = raw.columns[part].sql
    kind = f"regexp_replace(json_type({x}), 'U?BIGINT|DOUBLE', 'NUMBER')"
    is_there = f"{x} IS NOT NULL AND json_type({x}) <> 'NULL'"
    row, value = raw.first(database, kind, where=is_there)
    odd = f"{is_there} AND {kind} <> {literal(value[0].as_py())}"
    found_row, found = raw.first(database, x, where=odd)
    count, total = database.row(
        f"SELECT count(*) FILTER (WHERE {odd}), count(*) FROM {raw.relation}"
    )
    first, where = raw.places.of(row)
    return complaint(
        raw.places,
        part,
        "hold values of one plain type",
        found=(found_row, found[0].as_py(), count),
        n_rows=total,
        advice=f"Row {first}{where} has a {value[0].as_py().lower()}. Make them alike.",
    )
