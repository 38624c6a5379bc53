"""Tables and their models in words."""

from dataclasses import asdict
from typing import Any

from exfam.families import family_to_config
from exfam.tables.data.table_files import TableFile


def describe_table(table: TableFile) -> str:
    """What a table holds and lacks, in one line."""
    text = f"{_count(len(table), 'row')}, {_count(table.frame.num_columns, 'column')}"
    if n := table.n_missing:
        text += f"; {_count(n, 'cell')} missing"
    if table.n_unnamed:
        text += f"; {_count(table.n_unnamed, 'column')} without a name left out"
    return text


def label_notes(model: Any, n_rows: int) -> list[str]:
    """Columns with a label in every second row or more: names or typing errors, most likely."""
    return [
        f"column {column.name!r} has {len(column.labels):,} labels in {n_rows:,} rows: "
        f"`--ignore {column.name}` leaves it out"
        for column in model.schema_.columns
        if column.kind == "categorical" and len(column.labels) > max(20, n_rows // 2)
    ]


def table_facts(model: Any) -> dict[str, Any]:
    """What a fitted model of a table was fitted to, as plain values."""
    columns = list(zip(model.schema_.columns, model.families_, strict=True))
    return {
        "response": model.response_,
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "labels": None if column.labels is None else len(column.labels),
                "family": family.name,
            }
            for column, family in columns
        ],
        "families": {
            column.name: family_to_config(family)
            for column, family in columns
            if column.labels is None and not column.binned
        },
        "recipe": asdict(model.recipe_),
    }


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' if n != 1 else ''}"
