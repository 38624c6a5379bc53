"""Tables in files: read for a fit or for a model, described, and named in errors."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from exfam.checks import DataError, ExfamError
from exfam.cli.errors import reworded
from exfam.cli.output import number_of
from exfam.cli.sources import chosen_dialect
from exfam.families import family_to_config
from exfam.tables.data import UNKNOWN
from exfam.tables.data.table_files import TableFile, read_table_file

_TEXT = pa.large_string()
_ROWS = re.compile(r"at row (\d+) \((\d+) of (\d+) rows\)")
_WORDS = {
    "Unknown label type: continuous. Column 'y'": "`--response`",
    "`X`": "`FILE`",
    "`y`": "`--response`",
    "`data`": "`FILE`",
    "`value`": "`FILE`",
    "`attributes`": "`FILE`",
    "`kinds[": "`--kinds[",
    "kinds={": "--kinds {",
    "Use MaskedTableClassifier": "Use --model table-classifier",
    "Use MaskedTableRegressor": "Use --model table-regressor",
    "Use MaskedTable ": "Use --model table ",
    'unknown="unk"': "--unknown unk",
    "by MaskedTableClassifier": "by --model table-classifier",
}


def read_training_tables(estimator: Any, chosen: Any) -> tuple[TableFile, TableFile | None]:
    """The table of a fit, and the one of `--validation` or None, whose columns are read alike."""
    kinds = estimator.kinds if isinstance(estimator.kinds, Mapping) else {}
    numbers = {name for name, kind in kinds.items() if kind in ("numeric", "count")}
    if estimator.kind == "masked-table-regressor":
        numbers.add(chosen.response)
    labels = {name: kind for name, kind in kinds.items() if isinstance(kind, list)}
    ignored = [chosen.ignore] if isinstance(chosen.ignore, str) else chosen.ignore or ()
    with errors_of_files():
        dialect = chosen_dialect(estimator.dialect, chosen, dates=False)
        table = read_table_file(
            chosen.file, ignore=ignored, numbers=numbers, labels=labels, dialect=dialect
        )
    _check_response(table, chosen, file=chosen.file)
    if chosen.validation is None:
        return table, None
    types = dict(zip(table.frame.column_names, table.frame.schema.types, strict=True))
    texts = {name: labels.get(name, ()) for name, kind in types.items() if kind == _TEXT}
    numbers |= {name for name, kind in types.items() if kind in (pa.int64(), pa.float64())}
    with errors_of_files():
        held_out = read_table_file(
            chosen.validation, names=list(types), numbers=numbers, labels=texts, dialect=dialect
        )
    _check_response(held_out, chosen, file=chosen.validation)
    return table, held_out


def _check_response(table: TableFile, chosen: Any, *, file: str) -> None:
    response, names = getattr(chosen, "response", None), table.frame.column_names
    if response is not None and response not in names:
        listed = ", ".join(map(repr, names))
        raise ExfamError(
            f"`--response` must name a column of {file}, got {response!r}. Its columns: {listed}."
        )
    if response is not None and len(names) == 1:
        raise ExfamError(
            f"`FILE` must have a column besides the response {response!r}, got none in {file}."
        )


def given_of(table: TableFile, response: str | None) -> tuple[pa.Table, ...]:
    """What `fit` takes first: a table, and its response as a table of one column, if any."""
    if response is None:
        return (table.frame,)
    return table.frame.drop_columns([response]), table.frame.select([response])


def read_known_table(model: Any, chosen: Any, *, file: str) -> TableFile:
    """The columns of a file that a fitted model knows, each as in training, in its order."""
    if chosen.duplicates != "keep":
        raise ExfamError(
            f"`--duplicates` must be keep for a model of tables, got {chosen.duplicates!r}. Rows "
            "that are equal are several rows."
        )
    if getattr(chosen, "unknown", None) is not None:
        if chosen.unknown not in UNKNOWN:
            raise ExfamError(
                f"`--unknown` must be error or unk for a model of tables, got {chosen.unknown!r}. "
                "With unk an unknown label is a missing cell."
            )
        model.unknown = chosen.unknown
    numbers = [
        column.name
        for column in model.schema_.columns
        if not column.input_only and (column.labels is None or column.labels.dtype.kind in "if")
    ]
    with errors_of_files():
        table = read_table_file(
            file,
            names=model.schema_.names,
            numbers=numbers,
            labels=model.vocabulary_,
            dialect=chosen_dialect(model.dialect, chosen, dates=False),
        )
    lacking = [name for name in model.features_ if name not in table.frame.column_names]
    if lacking and not model._may_lack_columns:
        raise DataError(
            f"`FILE` must have the columns of training, got {file} without "
            f"{', '.join(map(repr, lacking))}. Add them, empty if need be, or fit with "
            "--missing-columns absent."
        )
    held = table.frame.column_names
    order = [name for name in (*model.features_, model.response_) if name in held]
    return replace(table, frame=table.frame.select(order))


@contextlib.contextmanager
def errors_of_files(*tables: TableFile) -> Iterator[None]:
    """Within it, an error names the file that its row is in, and options instead of arguments."""

    def in_file(match: re.Match[str]) -> str:
        # A table of as many rows is the one in question, unless several have as many.
        fitting = [table for table in tables if len(table) == int(match[3])]
        if len(fitting) != 1:
            return match[0]
        return f"at {fitting[0].where(int(match[1]))} ({match[2]} of {match[3]} rows)"

    try:
        with reworded(_WORDS):
            yield
    except ExfamError as error:
        raise ExfamError(_ROWS.sub(in_file, str(error))) from error


def describe_table(table: TableFile) -> str:
    """What a table holds and lacks, in one line."""
    text = f"{number_of(len(table), 'row')}, {number_of(table.frame.num_columns, 'column')}"
    if n := table.n_missing:
        text += f"; {number_of(n, 'cell')} missing"
    if table.n_unnamed:
        text += f"; {number_of(table.n_unnamed, 'column')} without a name left out"
    return text


def label_notes(model: Any, n_rows: int) -> list[str]:
    """Columns with a label in every second row or more: names or typing errors, most likely."""
    return [
        f"column {column.name!r} has {len(column.labels):,} labels in {n_rows:,} rows: "
        f"`--ignore {column.name}` leaves it out"
        for column in model.schema_.columns
        if column.kind == "categorical" and len(column.labels) > max(20, n_rows // 2)
    ]


def _base_facts(model: Any) -> dict[str, list[str]]:
    """By column, the members that its predictions are pooled from."""
    columns = model.base_.columns
    return {model.schema_.names[k]: list(columns[k].members) for k in columns}


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
        "recipe": None if model.recipe_ is None else asdict(model.recipe_),
        "base": None if model.base_ is None else _base_facts(model),
    }
