"""From what a user passes (a frame, a file or Groups) to Groups that a fitted model understands."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import LARGEST_WEIGHT, DataError, ExfamError, check_choice
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.frames import open_frame
from exfam.columns.label_index import LabelIndex, index_of
from exfam.columns.parts import ROWS, FrameColumns, UnknownLabels, warn_unknown
from exfam.efa.baskets import is_baskets, read_baskets
from exfam.estimator.rules import listed
from exfam.groups import Groups
from exfam.groups.arrange import keep_rows
from exfam.groups.frames import read_frame
from exfam.groups.groups import unchecked
from exfam.reading.database import ReadingOptions
from exfam.reading.folders import is_prepared
from exfam.reading.prepared import open_prepared, prepared_columns
from exfam.reading.reader import read_with_facts
from exfam.training.batching import element_weights

Vocabulary = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Groups, and where each of their own elements stands in what the user passed.

    Outputs have `n_rows` entries, one a row of the frame or file, or one an own element of Groups;
    NaN where the element was left out. `kept`: which elements of Groups, where some were left
    out. `blank`: elements of Groups that came without an item, to be filled in.
    """

    groups: Groups
    n_rows: int
    by_row: bool = False
    kept: Int64[np.ndarray, "own"] | None = None
    blank: Bool[np.ndarray, "elements"] | None = None

    def _entries(self, elements: Int64[np.ndarray, "own"]) -> Int64[np.ndarray, "own"] | slice:
        if self.by_row:
            assert self.groups.source_row is not None
            return self.groups.source_row[elements]
        return slice(None) if self.kept is None else self.kept

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """Numbers of the flat columns in the user's order."""
        elements = self.groups.elements()
        out = np.full((self.n_rows, *flat.shape[1:]), np.nan)
        out[self._entries(elements)] = flat[elements]
        return out

    def weights(self, sample_weight: Any) -> Float[np.ndarray, "elements"] | None:
        """The user's weights as one number a row of the flat columns."""
        if sample_weight is None:
            return None
        try:
            weight = np.asarray(sample_weight, dtype=np.float64)
        except (OverflowError, TypeError, ValueError) as error:
            raise ExfamError(f"`sample_weight` must be numbers, got {error}.") from error
        is_weight = (weight >= 0) & (weight <= LARGEST_WEIGHT)
        if weight.shape != (self.n_rows,) or not is_weight.all():
            raise ExfamError(
                f"`sample_weight` must be {self.n_rows} numbers from 0 to {LARGEST_WEIGHT:g}, one "
                f"an element, got shape {weight.shape} with minimum {weight.min(initial=0):g} and "
                f"maximum {weight.max(initial=0):g}."
            )
        return element_weights(self.groups, weight[self._entries(self.groups.elements())])

    def pieces(
        self, weight: Float[np.ndarray, "elements"] | None
    ) -> Iterator[tuple[Groups, Float[np.ndarray, "rows"] | None]]:
        """The groups and their weights, in pieces whose columns are their own if there are many."""
        chunks = list(self.groups.chunks())
        if len(chunks) < 2:
            yield self.groups, weight
            return
        for chunk in chunks:
            own = chunk.compact()
            own_weight = None if weight is None else np.zeros(own.n_rows)
            if weight is not None and own_weight is not None:
                own_weight[: own.n_elements] = weight[chunk.elements()]
            yield own, own_weight


def read_group_inputs(
    data: Any,
    columns: FrameColumns | None,
    *,
    vocabulary: Vocabulary | None = None,
    unknown: str = "error",
    ordered: bool = False,
    in_order: bool = False,
    dialect: Dialect = BY_LOOKING,
) -> Inputs:
    """Groups from a frame or file with these columns, or Groups recoded to a fitted vocabulary.

    Items in lists are baskets, as `read_baskets` has them; `in_order`: whether their order means
    something. `ordered`: whether the order of rows or elements means something even where the data
    do not say so. A path is that of a prepared folder, which is as good as its Groups, or of
    whatever `exfam.read` reads. Rows of files are all kept, as those of frames are, exact
    duplicates too: each has an entry in the outputs. Labels that the vocabulary lacks are counted
    in one warning.
    Raises DataError for a frame or file without column names, or a folder prepared with others;
    UnknownItemError for items that the vocabulary does not hold if `unknown="error"`.
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    missing: list[UnknownLabels] = []
    coding: dict[str, Any] = {"vocabulary": vocabulary, "unknown": unknown, "found": missing}
    if is_baskets(data):
        values = () if columns is None else listed(columns.value)
        data = read_baskets(data, value=values[0] if len(values) == 1 else None, ordered=in_order)
    if is_prepared(data) or isinstance(data, Groups):
        groups = data if isinstance(data, Groups) else _open(data, columns)
        if ordered:
            groups = unchecked(groups.__dict__ | {"ordered": True, "tied": None})
        inputs = _from_groups(groups, vocabulary, unknown, missing)
    elif isinstance(data, str) and _is_item(data, vocabulary):
        raise DataError(
            f"`X` must be a list of items, a frame or a file, got one item, {data!r}. Put it into "
            "a list."
        )
    elif columns is None:
        raise DataError(
            "`group` must name the column of groups to read a frame or file, got None. Pass column "
            "names to the estimator (group=…, item=…, value=…), or Groups."
        )
    elif isinstance(data, str | os.PathLike):
        options = ReadingOptions(duplicates="keep", dialect=dialect)
        groups, facts = read_with_facts(data, columns, options=options, **coding)
        inputs = Inputs(groups, facts.rows, by_row=True)
    else:
        table = open_frame(data, argument="X")
        groups = read_frame(table, columns, dialect=dialect, **coding)
        inputs = Inputs(groups, len(table[columns.group]), by_row=True)
    warn_unknown(missing, ignored=unknown == "ignore")
    return inputs


def _is_item(name: str, vocabulary: Vocabulary | None) -> bool:
    """Whether a text is an item of a fitted model, and no path."""
    labels = (vocabulary or {}).get("item", np.array([]))
    return not os.path.exists(name) and bool((labels == name).any())


def _open(folder: Any, columns: FrameColumns | None) -> Groups:
    """The groups of a prepared folder, unless it was prepared with other columns than named."""
    held = prepared_columns(folder)
    for argument in () if columns is None or held is None else fields(FrameColumns):
        named, there = (list(listed(getattr(names, argument.name))) for names in (columns, held))
        order = None if columns is None else columns.order
        # A folder without positions may have an order.
        is_position = argument.name == "position" and named == list(listed(order)) and not there
        if named != there and (argument.name, order) != ("order", ROWS) and not is_position:
            shown = [", ".join(map(repr, names)) or "none" for names in (there, named)]
            raise DataError(
                f"`{argument.name}` must be as {os.fspath(folder)} was prepared with, "
                f"{shown[0]}, got {shown[1]}. Pass the same column names, or none at all "
                "to take the folder as it is, or prepare the data again."
            )
    return open_prepared(folder)


def _from_groups(
    data: Groups, vocabulary: Vocabulary | None, unknown: str, found: list[UnknownLabels]
) -> Inputs:
    if _share_elements(data):
        # Draws with replacement need rows of their own.
        data = data.compact()
    n_rows = data.n_elements
    if vocabulary is None:
        return Inputs(data, n_rows)
    recoded = _with_fitted_attributes(data, vocabulary, unknown, found)
    if data.item is None or "item" not in vocabulary:
        return Inputs(recoded.with_(item=data.item), n_rows)
    item, lost = _recoded(data, "item", data.item, index_of(vocabulary, "item"))
    recoded = unchecked(recoded.__dict__ | {"item": item.astype(np.int32, copy=False)})
    rows = np.zeros(0, dtype=np.int64)
    if lost is not None:
        visible = _visible(data)
        rows = visible[lost[visible]]
    if lost is not None and len(rows):
        missing = _unknown_labels(data, "item", "item", data.item, rows)
        if unknown == "error":
            row = rows[0] if data.source_row is None else data.source_row[rows[0]]
            n_labels = len(vocabulary["item"])
            raise missing.error(f"row {row}", n_known=n_labels, n_rows=data.n_rows)
        found.append(missing)
        if unknown == "ignore":
            kept = np.flatnonzero(~lost[data.elements()])
            recoded, blank = _without(recoded, lost, data.item < 0)
            return Inputs(recoded, n_rows, kept=kept, blank=blank)
    has_blanks = any((data.item[chunk.elements()] < 0).any() for chunk in data.chunks())
    return Inputs(recoded, n_rows, blank=data.item < 0 if has_blanks else None)


def _share_elements(groups: Groups) -> bool:
    held = groups.stop > groups.start
    order = np.argsort(groups.start[held], kind="stable")
    start, stop = groups.start[held][order], groups.stop[held][order]
    return bool((start[1:] < stop[:-1]).any())


def _visible(groups: Groups) -> Int64[np.ndarray, "visible"]:
    """Elements that the groups own, then those of their context ranges."""
    own = groups.elements()
    if groups.context_start is None or groups.context_stop is None:
        return own
    ranges = Groups(start=groups.context_start.ravel(), stop=groups.context_stop.ravel())
    return np.concatenate([own, ranges.elements()])


def _recoded(
    groups: Groups, name: str, codes: np.ndarray, index: LabelIndex
) -> tuple[np.ndarray, Bool[np.ndarray, "codes"] | None]:
    """Codes in the fitted vocabulary, -1 where it has none, and which ones lost theirs so."""
    own, labels = groups.vocabulary.get(name), index.labels
    if own is labels or (own is None and int(codes.max(initial=-1)) < len(labels)):
        return codes, None  # no copy: the column may be a mapped file
    if own is None:
        new = np.where(codes < len(labels), codes.astype(np.int64), -1)
    elif len(codes) < len(own) and index.is_distinct:
        # Few elements of a large catalog: their own labels alone are looked up.
        held, number = np.unique(codes, return_inverse=True)
        known = index.look_up(own[held])
        new = np.where(held >= 0, known, -1)[number]
        if np.array_equal(new, codes):
            return codes, None
    elif np.array_equal(own, labels):
        return codes, None
    else:
        new = np.append(index.look_up(own), -1)[codes]
    return new, (new < 0) & (codes >= 0)


def _unknown_labels(
    groups: Groups, argument: str, name: str, codes: np.ndarray, rows: np.ndarray
) -> UnknownLabels:
    """What is said of the labels in these rows, which the fitted vocabulary lacks."""
    code, labels = int(codes[rows[0]]), groups.vocabulary.get(name)
    example = code if labels is None else labels.tolist()[code]
    return UnknownLabels(argument, name, len(rows), len(np.unique(codes[rows])), example)


def _with_fitted_attributes(
    groups: Groups, vocabulary: Vocabulary, unknown: str, found: list[UnknownLabels]
) -> Groups:
    """Groups with the fitted vocabulary, codes of attributes recoded to it."""
    changes: dict[str, Any] = {"vocabulary": {**groups.vocabulary, **vocabulary}}
    for kind in ("attributes", "group_attributes"):
        columns = dict(getattr(groups, kind))
        for name, codes in columns.items():
            if name not in vocabulary or codes.dtype.kind not in "iu" or codes.ndim > 1:
                continue
            columns[name], lost = _recoded(groups, name, codes, index_of(vocabulary, name))
            rows = np.flatnonzero(lost is not None and lost)
            if len(rows):
                missing = _unknown_labels(groups, kind, name, codes, rows)
                if unknown == "error":
                    where = f"{'row' if kind == 'attributes' else 'group'} {rows[0]}"
                    n_labels = len(vocabulary[name])
                    raise missing.error(where, n_known=n_labels, n_rows=len(codes))
                found.append(missing)
        changes[kind] = columns
    # The item column still has its own codes, which the new vocabulary may not know.
    return unchecked(groups.__dict__ | changes | {"item": None})


def _without(
    groups: Groups, lost: Bool[np.ndarray, "elements"], blank: Bool[np.ndarray, "elements"]
) -> tuple[Groups, Bool[np.ndarray, "kept"] | None]:
    """Groups without their `lost` elements, over columns of their own; and which are blank."""
    # `compact` reorders rows: the two masks travel as one more column.
    marked = groups.with_(values={**groups.values, "\0": lost + 2 * blank}).compact()
    mark = marked.values["\0"]
    keep = mark % 2 == 0
    values = {name: marked.values[name] for name in groups.values}
    without = keep_rows(marked.with_(values=values), keep)
    lengths, left = without.stop - without.start, mark[keep] >= 2
    without = without.with_(ignored=marked.stop - marked.start - lengths)
    return without, left if left[without.elements()].any() else None


def check_no_repeats(groups: Groups) -> None:
    """Raise ExfamError naming the first item that occurs twice in a group, and its rows."""
    repeat = None if groups.item is None else groups.first_repeat()
    if repeat is None:
        return
    group, item, elements = repeat
    name = group if groups.group_names is None else groups.group_names.tolist()[group]
    labels = groups.vocabulary.get("item")
    label = item if labels is None else labels.tolist()[item]
    rows = elements if groups.source_row is None else groups.source_row[elements]
    raise ExfamError(
        f"`item` must not repeat in a group with support='hard', got {label!r} again in group "
        f"{name!r} at rows {np.asarray(rows).tolist()}. Fit with support='none' or 'penalty' to "
        "allow repeats."
    )


def data_counts(parts: Sequence[Groups]) -> dict[str, int]:
    """How many groups, elements and items there are in all parts, which share a vocabulary."""
    counts = {
        "groups": sum(map(len, parts)),
        "elements": sum(part.n_elements for part in parts),
    }
    items = parts[0].vocabulary.get("item")
    return counts if items is None else counts | {"items": len(items)}
