"""Models and data that a command is given."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from exfam.checks import ExfamError
from exfam.cli.output import number_of
from exfam.columns.dialect import Dialect
from exfam.columns.parts import FrameColumns, UnknownLabels, warn_unknown
from exfam.columns.results import arrow_column
from exfam.efa.inputs import read_group_inputs
from exfam.groups import Groups
from exfam.reading.database import ReadingFacts, ReadingOptions
from exfam.reading.folders import is_prepared
from exfam.reading.prepared import prepared_facts
from exfam.reading.reader import open_columns, read_with_facts

# Models have encodings of their own, of positions.
_OPTIONS = {"encoding": "file_encoding"}


def open_model(chosen: Any) -> Any:
    """The saved model, with what was chosen for unknown items."""
    from exfam.estimator.saving import load

    model = load(chosen.model)
    if getattr(chosen, "unknown", None) is not None:
        model.unknown = chosen.unknown
    return model


def read_source(
    file: str,
    columns: FrameColumns | None,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, np.ndarray] | None = None,
    unknown: str = "error",
) -> tuple[Groups, ReadingFacts]:
    """A file as groups, and what was met in it. A prepared folder needs no columns.

    Labels that the vocabulary lacks are counted in one warning.
    """
    if options.database is None and is_prepared(file):
        groups = read_group_inputs(file, columns).groups
        facts = ReadingFacts(rows=groups.n_elements, groups=len(groups), items=groups.n_items)
        return groups, prepared_facts(file) or facts
    if columns is None:
        raise ExfamError(
            f"`--group` must name the column of groups to read {file}, got none. Only prepared "
            "folders need none."
        )
    found: list[UnknownLabels] = []
    groups, facts = read_with_facts(
        file, columns, options=options, vocabulary=vocabulary, unknown=unknown, found=found
    )
    warn_unknown(found, ignored=unknown == "ignore")
    return groups, facts


def chosen_dialect(dialect: Dialect, chosen: Any, *, dates: bool = True) -> Dialect:
    """How the file is written, as chosen; where nothing is, as `dialect` says.

    `dates`: whether that includes their format, which models of tables have by column
    """
    names = [own.name for own in fields(Dialect) if dates or own.name != "date_format"]
    given = {name: getattr(chosen, _OPTIONS.get(name, name), None) for name in names}
    return replace(dialect, **{name: value for name, value in given.items() if value is not None})


def read_as_fitted(model: Any, chosen: Any, *, file: str) -> tuple[Groups, str]:
    """A file as the model's groups, and what reading it came across, in words."""
    groups, facts = read_source(
        file,
        model._columns(),
        options=reading_options(chosen, dialect=model.dialect),
        vocabulary=model.vocabulary_,
        unknown=model.unknown,
    )
    return groups, f"{file}: {describe_rows(facts)}"


def reading_options(chosen: Any, *, dialect: Dialect) -> ReadingOptions:
    """How the file is to be read, as chosen; where nothing is, as `dialect` says."""
    return ReadingOptions(
        duplicates=chosen.duplicates,
        database=chosen.database,
        memory_limit=chosen.memory_limit,
        dialect=chosen_dialect(dialect, chosen),
    )


def describe_rows(facts: ReadingFacts) -> str:
    """What was met while reading, in words."""
    numbers = {"row": facts.rows, "group": facts.groups, "item": facts.items}
    words = [", ".join(number_of(n, word) for word, n in numbers.items() if n)]
    for n, what in (
        (facts.ties, "tied in order"),
        (facts.duplicates, "dropped as duplicates"),
        (facts.unobserved, "without a value"),
    ):
        if n:
            words.append(f"{number_of(n, 'row')} {what}")
    return "; ".join(words)


@dataclass(frozen=True, eq=False)
class FileRows:
    """The rows of a file: the columns that identify them, and which one each element is.

    Elements are those that the groups own, in their order.
    """

    columns: dict[str, Any]
    n_rows: int
    row: Int64[np.ndarray, "elements"]

    def spread(self, values: np.ndarray) -> pa.Array:
        """Values of the elements, by row; none for rows that are no element."""
        missing = None if values.dtype == object else np.nan
        out = np.full(self.n_rows, missing, dtype=object if missing is None else np.float64)
        out[self.row] = values
        return arrow_column(out)


def file_rows(model: Any, groups: Groups, chosen: Any) -> FileRows:
    """The rows of the chosen file, with its columns of groups, order and items.

    Of a prepared folder, only what it keeps: one row an element, without order.
    """
    own = groups.elements()
    source_row = own if groups.source_row is None else groups.source_row[own]
    if chosen.database is None and is_prepared(chosen.file):
        by_row = np.argsort(source_row, kind="stable")
        row = np.empty(len(own), dtype=np.int64)
        row[by_row] = np.arange(len(own))
        kept = _kept_columns(model, groups, by_row)
        return FileRows({"row": source_row[by_row]} | kept, len(own), row)
    parts = [part for part in model._columns().parts if part.argument in ("group", "order", "item")]
    raw = open_columns(
        chosen.file,
        parts,
        vocabulary=model.vocabulary_,
        options=reading_options(chosen, dialect=model.dialect),
    )
    named = {part.name: array for part, array in raw.arrays.items()}
    return FileRows({"row": np.arange(raw.n_rows)} | named, raw.n_rows, source_row)


def _kept_columns(model: Any, groups: Groups, by_row: np.ndarray) -> dict[str, Any]:
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    group = np.repeat(names, groups.stop - groups.start)[by_row]
    columns = {model.group or "group": arrow_column(group)}
    if groups.item is not None and "item" in groups.vocabulary:
        code = groups.item[groups.elements()][by_row]
        labels = arrow_column(groups.vocabulary["item"])
        columns[model.item or "item"] = labels.take(pa.array(code, mask=code < 0))
    return columns
