"""Parquet and JSON lines files, which have types of their own; in JSON taken from all lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exfam.checks import DataError
from exfam.columns.parts import Origin, Part, check_named
from exfam.columns.rules import plain_type
from exfam.reading.database import (
    Database,
    SqlColumn,
    Table,
    explained,
    first_line,
    literal,
    staged,
)
from exfam.reading.encodings import text_files
from exfam.reading.lines import Files, bad_object, first_bad, refused
from exfam.reading.paths import check_same_columns, scanned

WHOLE = {"BIGINT", "UBIGINT"}
# A column of lists or objects: no part takes it, and the error shows it as it is written.
NESTED = pa.list_(pa.null())


def open_parquet(paths: Sequence[Path], parts: Sequence[Part]) -> Table:
    """Parquet files as one table, read again whenever it is needed."""
    files = [_parquet_file(path) for path in paths]
    schema, names = files[0].schema_arrow, files[0].schema_arrow.names
    check_named(parts, names, where=f" in {paths[0]}")
    for path, file in zip(paths, files, strict=True):
        check_same_columns(paths[0], names, path, file.schema_arrow.names)
        for part in parts:
            ours, theirs = (
                plain_type(held.field(part.name).type) for held in (schema, file.schema_arrow)
            )
            if ours != theirs:
                raise DataError(
                    f"`{part.argument}` must be of one type in all files, got {theirs} in column "
                    f"{part.name!r} of {path}, where {paths[0]} has {ours}."
                )
    columns = {
        part: SqlColumn(f"c{names.index(part.name)}", plain_type(schema.field(part.name).type))
        for part in parts
    }
    origin = Origin([str(path) for path in paths], lambda: [f.metadata.num_rows for f in files])
    # By number: DuckDB ignores upper and lower case.
    aliases = ", ".join(f"c{k}" for k in range(len(names)))
    scan = f"read_parquet({scanned(paths)}) AS t({aliases})"
    relation = f"(SELECT *, row_number() OVER () - 1 AS row FROM {scan})"
    if len(paths) == 1 and "file_row_number" not in {name.lower() for name in names}:
        # Numbering rows over several files takes one thread, a file's own numbers take none.
        numbered = f"read_parquet({scanned(paths)}, file_row_number = true)"
        relation = f"(FROM {numbered} AS t({aliases}, row))"
    return Table(relation, columns, origin)


def schema_names(path: Path) -> list[str]:
    """The names of a Parquet file's columns."""
    return _parquet_file(path).schema_arrow.names


def _parquet_file(path: Path) -> pq.ParquetFile:
    try:
        with pq.ParquetFile(path) as file:
            return file
    except (pa.ArrowException, OSError) as error:
        message = f"`source` must be a Parquet file, got {path}: {first_line(error)}."
        raise DataError(message) from error


def open_json_lines(database: Database, paths: Sequence[Path], parts: Sequence[Part]) -> Table:
    """JSON lines files as one table; a key that a line lacks is a missing value."""
    files = text_files(database, paths, unmarked=True)
    seen: dict[str, str] = {}
    for part in parts:
        # DuckDB, which ignores upper and lower case, would mix up two names.
        other = seen.setdefault(part.name.lower(), part.name)
        if other != part.name:
            raise DataError(
                f"`{part.argument}` must not be named as another column but for upper and lower "
                f"case in a JSON lines file, got {part.name!r} and {other!r}. Rename one."
            )
    with explained(lambda error: refused(error, files, bad_object, kind="JSON lines")):
        raw = _raw(database, files, parts)
        kinds = {}
        for part, column in raw.columns.items():
            distinct = f"SELECT DISTINCT json_type({column.sql}) AS kind FROM {raw.relation}"
            kinds[part] = set(database.table(distinct)["kind"].to_pylist()) - {None, "NULL"}
        absent = [part for part in parts if not kinds[part]]
        if absent and database.row(f"SELECT count(*) FROM {raw.relation}")[0]:
            check_named(absent, sorted(key_names(database, files)), where=raw.origin.where)
        columns = {part: _column(database, raw, part, kinds[part]) for part in parts}
        return staged(database, raw.relation, columns, raw.origin)


def _raw(database: Database, files: Files, parts: Sequence[Part]) -> Table:
    names = list(dict.fromkeys(part.name for part in parts))

    def counts() -> Iterator[int]:
        for file in files:
            yield database.row(f"SELECT count(*) FROM {_scan([file], names)}")[0]

    scan = _scan(files, names)
    aliases = ", ".join(f"c{k}" for k in range(len(names)))
    columns = {part: SqlColumn(f"c{names.index(part.name)}", pa.large_string()) for part in parts}
    relation = f"(SELECT *, row_number() OVER () - 1 AS row FROM {scan} AS t({aliases}))"
    return Table(relation, columns, Origin([name for name, _ in files], counts))


def _format(files: Files) -> str:
    """What DuckDB calls an array of objects, or an object a line. Raises DataError for both."""
    formats = {name: _begins_array(path) for name, path in files}
    if len(set(formats.values())) > 1:
        (first, is_array), *others = formats.items()
        other = next(name for name, own in others if own != is_array)
        raise DataError(
            f"`source` must be of JSON files of one form, got an array in one of {first} and "
            f"{other}, and an object a line in the other. Convert one."
        )
    return "array" if any(formats.values()) else "newline_delimited"


def _begins_array(path: Path) -> bool:
    """Whether a file begins with a bracket and then an object, an end or nothing but a line's."""
    with open(path, encoding="utf-8-sig") as file:
        head = file.read(1 << 12).split()
    text = "".join(head[:2])[:2]
    return text[:1] == "[" and text[1:] in ("", "{", "]")


def _scan(files: Files, names: Sequence[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    return (
        f"read_json({scanned([path for _, path in files])}, format = '{_format(files)}', "
        "records = true, "
        f"columns = {{{columns}}})"
    )


def key_names(database: Database, files: Files) -> list[str]:
    """The keys of all lines, in the order in which they first appear; `files` are (name, path)."""
    paths = scanned([path for _, path in files])
    objects = f"read_json_objects({paths}, format = '{_format(files)}')"
    lines = f"(SELECT json_keys(json) AS keys, row_number() OVER () AS line FROM {objects})"
    keys = f"(SELECT unnest(keys) AS k, unnest(range(len(keys))) AS nth, line FROM {lines})"
    with explained(lambda error: refused(error, files, bad_object, kind="JSON lines")):
        names = database.table(f"SELECT k FROM {keys} GROUP BY k ORDER BY min((line, nth))")[
            "k"
        ].to_pylist()
    # DuckDB takes a lone bracket for no line at all.
    if not names and (wrong := first_bad(files, bad_object)):
        raise wrong
    return names


def _column(database: Database, raw: Table, part: Part, kinds: set[str]) -> SqlColumn:
    text = f"({raw.columns[part].sql} ->> '$')"
    if not kinds:
        return SqlColumn(f"CAST({text} AS DOUBLE)", pa.null())
    if kinds == {"VARCHAR"}:
        return SqlColumn(text, pa.large_string())
    if kinds == {"BOOLEAN"}:
        return SqlColumn(f"CAST({text} AS BOOLEAN)", pa.bool_())
    if kinds <= {"ARRAY", "OBJECT"}:
        return SqlColumn(text, NESTED)
    if not kinds <= WHOLE | {"DOUBLE"}:
        raise _mixture(database, raw, part)
    for kind, name in ((pa.int64(), "BIGINT"), (pa.uint64(), "UBIGINT")):
        wrong = f"{text} IS NOT NULL AND TRY_CAST({text} AS {name}) IS NULL"
        n_wrong = f"SELECT count(*) FROM {raw.relation} WHERE {wrong}"
        if kinds <= WHOLE and database.row(n_wrong)[0] == 0:
            return SqlColumn(f"CAST({text} AS {name})", kind)
    return SqlColumn(f"CAST({text} AS DOUBLE)", pa.float64())


def _mixture(database: Database, raw: Table, part: Part) -> DataError:
    x = raw.columns[part].sql
    kind = f"regexp_replace(json_type({x}), 'U?BIGINT|DOUBLE', 'NUMBER')"
    is_there = f"{x} IS NOT NULL AND json_type({x}) <> 'NULL'"
    row, value = raw.first(database, kind, where=is_there)
    odd = f"{is_there} AND {kind} <> {literal(value[0].as_py())}"
    odd_row, cell = raw.first(database, x, where=odd)
    count, total = database.row(
        f"SELECT count(*) FILTER (WHERE {odd}), count(*) FROM {raw.relation}"
    )
    first, where = raw.origin.of(row)
    rule, found = "hold values of one plain type", (odd_row, cell[0].as_py(), count)
    advice = f"Row {first}{where} has a {value[0].as_py().lower()}. Make them alike."
    return raw.origin.error(part, rule, found=found, n_rows=total, advice=advice)
