"""Models and data that a command is given."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.data.reading import ReadingFacts, ReadingOptions, read_with_facts
from exfam.groups import Groups
from exfam.groups.frames import FrameColumns

__all__ = [
    "describe",
    "element_columns",
    "open_both",
    "open_model",
    "read_source",
    "reading_options",
    "stacked",
    "tell",
]


def open_model(chosen: Any) -> Any:
    """The saved model, with what was chosen for unknown items."""
    from exfam.estimators.saving import load

    model = load(chosen.model)
    if getattr(chosen, "unknown", None) is not None:
        model.unknown = chosen.unknown
    return model


def open_both(chosen: Any) -> tuple[Any, Groups]:
    """The model, and the file as the model reads it: with its columns and the codes it knows."""
    model = open_model(chosen)
    groups, facts = read_source(
        chosen, model._columns(), vocabulary=model.vocabulary_, unknown=model.unknown
    )
    tell(f"{chosen.file}: {describe(facts)}")
    return model, groups


def read_source(
    chosen: Any,
    columns: FrameColumns,
    *,
    file: str | None = None,
    vocabulary: Mapping[str, np.ndarray] | None = None,
    unknown: str = "error",
) -> tuple[Groups, ReadingFacts]:
    """A file, the one chosen unless it is named, as groups, and what was met in it."""
    return read_with_facts(
        file or chosen.file,
        columns,
        options=reading_options(chosen),
        vocabulary=vocabulary,
        unknown=unknown,
    )


def reading_options(chosen: Any) -> ReadingOptions:
    """How the file is to be read, as chosen."""
    return ReadingOptions(
        duplicates=chosen.duplicates,
        connection=chosen.database,
        memory_limit=chosen.memory_limit,
    )


def describe(facts: ReadingFacts) -> str:
    """What was met while reading, in words.

    >>> describe(ReadingFacts(rows=1600, groups=200, items=12, ties=1))
    '1,600 rows, 200 groups, 12 items; 1 row tied in order, in the order of the file'
    """
    counted = [(facts.rows, "rows"), (facts.groups, "groups"), (facts.items, "items")]
    told = [", ".join(f"{n:,} {word if n != 1 else word[:-1]}" for n, word in counted if n)]
    for n, words in (
        (facts.ties, "tied in order, in the order of the file"),
        (facts.duplicates, "dropped as duplicates"),
        (facts.unobserved, "without a value"),
        (facts.unknown, "with items never seen in training"),
    ):
        if n:
            told.append(f"{n:,} row{'s' if n > 1 else ''} {words}")
    return "; ".join(told)


def tell(line: str) -> None:
    """Print a line for the reader, not for programs."""
    print(line, file=sys.stderr, flush=True)


def element_columns(model: Any, groups: Groups) -> tuple[np.ndarray, dict[str, Any]]:
    """The order of the file among a group's own elements, and group and item of each in it."""
    own = groups.elements()
    rows = own if groups.source_row is None else groups.source_row[own]
    by_row = np.argsort(rows, kind="stable")
    lengths = groups.stop - groups.start
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    columns: dict[str, Any] = {
        "row": rows[by_row],
        model.group or "group": as_array(np.repeat(names, lengths)[by_row]),
    }
    if groups.item is not None:
        code = groups.item[own][by_row]
        labels = as_array(model.vocabulary_["item"])
        columns[model.item or "item"] = labels.take(pa.array(code, mask=code < 0))
    return by_row, columns


def as_array(labels: np.ndarray) -> pa.Array:
    """Labels as Arrow holds them; as text if they are of several types."""
    try:
        return pa.array(labels.tolist() if labels.dtype == object else labels)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if label is None else str(label) for label in labels.tolist()])


def stacked(pieces: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Pieces with the same columns, one below the other.

    >>> stacked([{"item": ["a"]}, {"item": ["b"]}])["item"].to_pylist()
    ['a', 'b']
    """
    return pa.concat_tables(
        pa.table({name: as_array(np.asarray(column)) for name, column in piece.items()})
        for piece in pieces
    )
