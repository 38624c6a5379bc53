"""Groups of frames, frames and Arrow tables of groups."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64

from exfam.checks import DataError, check_choice
from exfam.columns.columns import Columns, Labels
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.frames import open_frame
from exfam.columns.label_index import IndexedVocabulary, index_of
from exfam.columns.parts import FrameColumns, Part, UnknownLabels, varying_error
from exfam.columns.results import frame_of
from exfam.columns.rules import holds_labels
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.groups.flat import columns_of
from exfam.groups.groups import CONTEXT, Groups

KEY = b"exfam.groups"
FORMAT = 1
ELEMENT_COLUMNS = ("item", "position", "observed", "role", "source_row", "tied")
ELEMENT_MAPPINGS = ("values", "attributes")
GROUP_COLUMNS = ("group_names", "ignored", "context_start", "context_stop")

Rows = Int64[np.ndarray, "rows"]


@dataclass(frozen=True)
class _Encoder:
    """Reads columns; labels become codes by the vocabularies given, or by sorted order.

    `found`: labels that the vocabularies lack; `labels`: the labels of the codes, by column
    """

    columns: Columns
    vocabulary: Mapping[str, Any]
    unknown: str
    found: list[UnknownLabels]
    labels: dict[str, np.ndarray] = field(default_factory=dict)

    def read(self, part: Part, dialect: Dialect) -> np.ndarray:
        """A column as Groups hold it; -1 for an unknown label that is allowed."""
        if holds_labels(part, self.columns.arrays[part].type, self.vocabulary):
            return self._encoded(part)
        if part.argument == "order":
            return self.columns.order(part, dialect=dialect)
        numbers = self.columns.numbers(part, dialect=dialect)
        is_attribute = part.argument in ("attributes", "group_attributes")
        return numbers.astype(np.float64, copy=False) if is_attribute else numbers

    def _encoded(self, part: Part) -> Rows:
        labels, key = self.columns.labels(part), part.key
        index = index_of(self.vocabulary, key) if key in self.vocabulary else None
        warn_of_twins(part.argument, part.name, labels.names, () if index is None else index)
        if index is None:
            order = np.argsort(labels.names)
            self.labels[key] = labels.names[order]
            return np.argsort(order)[labels.codes]
        known = self.labels[key] = index.labels
        codes = index.look_up(labels.names)
        lost = np.flatnonzero(codes < 0)
        codes = codes[labels.codes]
        if len(lost):
            rows = np.flatnonzero(codes < 0)
            got = labels.names.tolist()[labels.codes[rows[0]]]
            unknown = UnknownLabels(part.argument, key, rows.size, len(lost), got)
            if self.unknown == "error":
                raise unknown.error(f"row {rows[0]}", n_known=len(known), n_rows=codes.size)
            self.found.append(unknown)
        return codes


def read_frame(
    frame: Any,
    columns: FrameColumns,
    *,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    dialect: Dialect = BY_LOOKING,
    found: list[UnknownLabels] | None = None,
) -> Groups:
    """The rows of `frame` as Groups; see `Groups.from_frame`.

    `found`: a list that takes what labels the vocabularies lack (default None)
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    opened = open_frame(frame)
    columns.check_rows(opened)
    held = Columns.of_frame(opened, columns.parts).without_marks(dialect)
    if not held.n_rows:
        raise DataError("`frame` must have at least one row, got none.")
    group = held.labels(columns.parts[0])
    warn_of_twins("group", columns.group, group.names)
    known = vocabulary if isinstance(vocabulary, IndexedVocabulary) else dict(vocabulary or {})
    encoder = _Encoder(held, known, unknown, [] if found is None else found)
    read = {part: encoder.read(part, dialect) for part in columns.parts[1:]}

    def named(argument: str) -> dict[str, np.ndarray]:
        return {part.name: column for part, column in read.items() if part.argument == argument}

    item, values = next(iter(named("item").values()), None), named("value")
    if dialect.missing is None:
        warn_of_stand_ins(values)
    missing = [np.isnan(column) for column in values.values()]
    observed = ~np.all(missing, axis=0) if missing else np.ones(1, dtype=bool)
    keys = list(named("order").values())
    kept, ignored = np.lexsort((*reversed(keys), group.codes)), None
    if unknown == "ignore":
        is_lost = np.zeros(len(kept), dtype=bool) if item is None else item < 0
        kept = kept[~is_lost[kept]]
        ignored = np.bincount(group.codes[is_lost], minlength=len(group.names))
    lengths = np.bincount(group.codes[kept], minlength=len(group.names))
    return Groups(
        start=np.cumsum(lengths) - lengths,
        stop=np.cumsum(lengths),
        item=None if item is None else item[kept],
        values={name: column[kept] for name, column in values.items()},
        attributes={name: column[kept] for name, column in named("attributes").items()},
        group_attributes=_by_group(named("group_attributes"), group),
        position=_stacked(list(named("position").values()), kept),
        observed=None if observed.all() else observed[kept],
        source_row=kept,
        vocabulary=encoder.labels,
        group_names=group.names,
        ignored=ignored,
        ordered=columns.ordered,
        tied=_tied([key[kept] for key in keys], group.codes[kept]) if keys else None,
    )


def _tied(
    keys: Sequence[np.ndarray], group: Int64[np.ndarray, "rows"]
) -> Bool[np.ndarray, "rows"] | None:
    """Which of some sorted rows equal the one before them in group and keys; None if none does."""
    tied = np.zeros(len(group), dtype=bool)
    tied[1:] = np.all([key[1:] == key[:-1] for key in (*keys, group)], axis=0)
    return tied if tied.any() else None


def _by_group(columns: Mapping[str, np.ndarray], group: Labels) -> dict[str, np.ndarray]:
    """The value that each column has in a group, or DataError where it has two."""
    first = np.unique(group.codes, return_index=True)[1]
    for name, column in columns.items():
        differs = column != column[first][group.codes]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            raise varying_error(name, group.names[group.codes[row]], f"row {row}")
    return {name: column[first] for name, column in columns.items()}


def _stacked(columns: list[np.ndarray], rows: np.ndarray) -> np.ndarray | None:
    if len(columns) < 2:
        return columns[0][rows] if columns else None
    return np.stack([column[rows] for column in columns], axis=1)


def to_frame(groups: Groups, kind: str = "pandas") -> Any:
    """See `Groups.to_frame`."""
    check_choice("kind", kind, ("pandas", "polars", "arrow", "pyarrow"))
    _check_free(groups)
    table = pa.table(_frame_columns(groups))
    return frame_of(table, kind="pyarrow" if kind == "arrow" else kind)


def _frame_columns(groups: Groups) -> dict[str, pa.Array]:
    rows = groups.elements()
    own = groups.stop - groups.start
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    columns = {"group": pa.array(np.repeat(names, own))}
    if groups.item is not None:
        columns["item"] = _decoded(groups, "item", groups.item[rows])
    for name, column in groups.values.items():
        columns[name] = pa.array(column[rows], mask=~groups.has_value(name, rows))
    for name, column in groups.attributes.items():
        columns[name] = _decoded(groups, name, column[rows])
    for name, column in groups.group_attributes.items():
        columns[name] = _decoded(groups, name, np.repeat(column, own, axis=0))
    if groups.position is not None:
        columns["position"] = _decoded(groups, "position", groups.position[rows])
    if groups.role is not None:
        columns["role"] = pa.array(np.where(groups.role[rows] == CONTEXT, "context", "target"))
    return columns


def _check_free(groups: Groups) -> None:
    """Raise if a value or attribute has the name of a column that the frame needs for itself."""
    held = {"position": groups.position, "role": groups.role}
    taken = {"group", *(name for name, column in held.items() if column is not None)}
    for kind in ("values", "attributes", "group_attributes"):
        for name in taken.intersection(getattr(groups, kind)):
            raise DataError(
                f"`{kind}` must not be named {name!r} in a frame, which has a column of that name "
                "for itself. Rename it, or use to_arrow."
            )


def _decoded(groups: Groups, name: str, column: np.ndarray) -> pa.Array:
    if column.ndim == 2:
        return pa.array(list(column))
    if name not in groups.vocabulary:
        return pa.array(column)
    labels = pa.array(groups.vocabulary[name])
    return labels.take(pa.array(column, mask=column < 0))


def to_arrow(groups: Groups) -> pa.Table:
    """See `Groups.to_arrow`."""
    groups = groups.compact()
    sizes = groups.stop - groups.start
    spare = groups.context_start is not None
    if spare:
        sizes = np.append(sizes, groups.n_rows - sizes.sum())
    columns = {"size": pa.array(sizes)}
    dtypes = {}
    offsets = pa.array(np.append(0, np.cumsum(sizes)))
    for part, key, column in columns_of(vars(groups), ELEMENT_COLUMNS + ELEMENT_MAPPINGS):
        name = part if key is None else f"{part}.{key}"
        columns[name] = pa.LargeListArray.from_arrays(offsets, _as_array(column))
        dtypes[name] = column.dtype.str
    for part, key, column in columns_of(vars(groups), (*GROUP_COLUMNS, "group_attributes")):
        name = part if key is None else f"{part}.{key}"
        array = _as_array(column)
        columns[name] = pa.concat_arrays([array, pa.nulls(1, array.type)]) if spare else array
        dtypes[name] = column.dtype.str
    header = {
        "format": FORMAT,
        "n_groups": len(groups),
        "ordered": groups.ordered,
        "dtypes": dtypes,
        "vocabulary": {key: _plain(key, labels) for key, labels in groups.vocabulary.items()},
    }
    return pa.table(columns).replace_schema_metadata({KEY: json.dumps(header)})


def _as_array(column: np.ndarray) -> pa.Array:
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])


def _plain(name: str, labels: np.ndarray) -> dict[str, Any]:
    plain = labels.tolist()
    if not all(isinstance(label, (str, int, float)) for label in plain):
        raise DataError(
            f"`vocabulary` of {name!r} must hold text, numbers or booleans to be written, "
            f"got dtype {labels.dtype}. Convert the labels to text first."
        )
    return {"dtype": labels.dtype.str, "labels": plain}


def from_arrow(table: pa.Table) -> Groups:
    """See `Groups.from_arrow`."""
    header = _header(table)
    n_groups = header["n_groups"]
    sizes = table["size"].to_numpy()
    fields: dict[str, Any] = {name: {} for name in (*ELEMENT_MAPPINGS, "group_attributes")}
    for name, dtype in header["dtypes"].items():
        column = table[name].combine_chunks()
        is_list = name.partition(".")[0] in ELEMENT_COLUMNS + ELEMENT_MAPPINGS
        column = column.flatten() if is_list else column[:n_groups]
        part, dot, key = name.partition(".")
        (fields[part] if dot else fields)[key if dot else part] = _as_numpy(column, dtype)
    stop = np.cumsum(sizes[:n_groups])
    vocabulary = {
        key: np.array(labels["labels"], dtype=labels["dtype"])
        for key, labels in header["vocabulary"].items()
    }
    return Groups(
        start=stop - sizes[:n_groups],
        stop=stop,
        vocabulary=vocabulary,
        ordered=header.get("ordered", False),
        **fields,
    )


def _header(table: pa.Table) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise DataError(
            "`table` must have been made by Groups.to_arrow, got one without its metadata. "
            "Use Groups.from_frame for other tables."
        )
    header = json.loads(metadata[KEY])
    if header["format"] > FORMAT:
        raise DataError(
            f"`table` must be of format {FORMAT} or older, got {header['format']}. Update exfam."
        )
    lacking = sorted({"size", *header["dtypes"]} - set(table.column_names))
    if lacking:
        raise DataError(
            f"`table` must have all columns it was written with, got no {lacking[0]!r}."
        )
    return header


def _as_numpy(column: pa.Array, dtype: str) -> np.ndarray:
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        return column.flatten().to_numpy(zero_copy_only=False).astype(dtype).reshape(-1, width)
    return column.to_numpy(zero_copy_only=False).astype(dtype)
