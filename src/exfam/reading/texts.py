"""Text in `order` and `position` as what it writes: numbers, dates, numbered names."""

from dataclasses import replace

import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.ordering import dates_in_text, sortable_text
from exfam.columns.parts import Part, complaint
from exfam.reading.database import Database
from exfam.reading.table import Column, Table


def with_sorted_text(database: Database, table: Table, *, date_format: str | None) -> Table:
    """The table with text of `order` and `position` as numbers or times that sort as it should.

    The distinct texts of a column are held in memory.
    Raises DataError naming the first row of a text that has no order, or of an ambiguous date.
    """
    for k, (part, column) in enumerate(table.columns.items()):
        if part.argument in ("order", "position") and types.is_large_string(column.type):
            table = _sorted(database, table, part, date_format=date_format, name=f"texts{k}")
    return table


def _sorted(
    database: Database, table: Table, part: Part, *, date_format: str | None, name: str
) -> Table:
    x = table.columns[part].sql
    query = f"SELECT {x} AS text, {{row}} AS row FROM {table.relation} WHERE {x} IS NOT NULL"
    distinct = database.table(f"{query.format(row='min(row)')} GROUP BY ALL ORDER BY row")
    try:
        keys = _keys(distinct, table, part, date_format=date_format)
    except DataError:
        # Once more with all rows, so that the error counts them.
        keys = _keys(
            database.table(f"{query.format(row='row')} ORDER BY row"), table, part, date_format
        )
    stored = keys.view(pa.int64()) if types.is_timestamp(keys.type) else keys
    database.con.register(name, pa.table({"text": distinct["text"], f"{name}_key": stored}))
    relation = (
        f"(SELECT s.*, t.{name}_key FROM {table.relation} AS s LEFT JOIN {name} AS t "
        f"ON s.{x} = t.text)"
    )
    columns = {**table.columns, part: Column(f"{name}_key", keys.type)}
    return replace(table, relation=relation, columns=columns)


def _keys(found: pa.Table, table: Table, part: Part, date_format: str | None) -> pa.Array:
    """The numbers or times of some texts and their rows, in this order."""
    texts = found["text"].combine_chunks().cast(pa.large_string())
    rows = found["row"].to_numpy()

    def where(index: int) -> str:
        return table.places.row(int(rows[index]))

    if part.argument == "order":
        if not len(texts):
            return pa.nulls(0, pa.float64())
        return sortable_text(texts, name=part.name, date_format=date_format, where=where)
    dates = dates_in_text(texts, name=part.name, date_format=date_format, where=where)
    if dates is not None or not len(texts):
        return pa.nulls(0, pa.float64()) if dates is None else dates
    raise complaint(
        table.places,
        part,
        "be numeric",
        found=(int(rows[0]), texts[0].as_py(), len(texts)),
        n_rows=len(texts),
        advice="Convert the column to numbers or dates first.",
    )
