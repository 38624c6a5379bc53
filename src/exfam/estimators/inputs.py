"""From what a user passes (a frame or Groups) to Groups that a fitted model understands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, ExfamError, UnknownItemError, check_choice
from exfam.data.batching import element_weights
from exfam.groups import Groups
from exfam.groups.columns import open_frame
from exfam.groups.frames import FrameColumns, read_frame

__all__ = ["Inputs", "read_inputs"]

Vocabulary = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Groups, and where each of their own elements stands in what the user passed.

    Outputs have one entry a row of the frame, or one an own element of Groups; NaN where the
    element was left out. `blank`: elements of Groups that came without an item, to be filled in;
    None if there are none.
    """

    groups: Groups
    elements: Int64[np.ndarray, "own"]
    rows: Int64[np.ndarray, "own"]
    n_rows: int
    blank: Bool[np.ndarray, "elements"] | None = None

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """Numbers of the flat columns in the user's order."""
        out = np.full((self.n_rows, *flat.shape[1:]), np.nan)
        out[self.rows] = flat[self.elements]
        return out

    def weights(self, sample_weight: Any) -> Float[np.ndarray, "elements"] | None:
        """The user's weights as one number a row of the flat columns."""
        if sample_weight is None:
            return None
        try:
            weight = np.asarray(sample_weight, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ExfamError(f"`sample_weight` must be numbers, got {error}.") from error
        if weight.shape != (self.n_rows,) or not np.isfinite(weight).all() or (weight < 0).any():
            raise ExfamError(
                f"`sample_weight` must be {self.n_rows} finite numbers >= 0, one an element, got "
                f"shape {weight.shape} with minimum {weight.min(initial=0):g}."
            )
        return element_weights(self.groups, weight[self.rows])


def read_inputs(
    data: Any,
    columns: FrameColumns | None,
    *,
    vocabulary: Vocabulary | None = None,
    unknown: str = "error",
) -> Inputs:
    """Groups from a frame with these columns, or Groups recoded to a fitted vocabulary.

    Raises DataError for a frame without column names, UnknownItemError for items that the
    vocabulary does not hold if `unknown="error"`.
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    if isinstance(data, Groups):
        return _from_groups(data, vocabulary, unknown)
    if columns is None:
        raise DataError(
            "`group` must name the column of groups to read a frame, got None. Pass column names "
            "to the estimator (group=…, item=…, value=…), or Groups."
        )
    table = open_frame(data)
    groups = read_frame(table, columns, vocabulary=vocabulary, unknown=unknown)
    own = groups.elements()
    assert groups.source_row is not None
    return Inputs(groups, own, groups.source_row[own], len(table[columns.group]))


def _from_groups(data: Groups, vocabulary: Vocabulary | None, unknown: str) -> Inputs:
    if _share_elements(data):
        # Draws with replacement need rows of their own.
        data = data.compact()
    own = data.elements()
    rows = np.arange(len(own), dtype=np.int64)
    if vocabulary is None:
        return Inputs(data, own, rows, len(own))
    recoded = _with_known_attributes(data, vocabulary, unknown)
    if data.item is None or "item" not in vocabulary:
        return Inputs(recoded.with_(item=data.item), own, rows, len(own))
    item, lost = _recoded(data, "item", data.item, vocabulary["item"])
    visible = _visible(data)
    if unknown == "error" and lost[visible].any():
        raise UnknownItemError(_unknown_item(data, visible[lost[visible]]))
    recoded = recoded.with_(item=item)
    if unknown == "ignore" and lost[visible].any():
        rows = rows[~lost[own]]
        recoded, blank = _without(recoded, lost, data.item < 0)
        own, n_rows = recoded.elements(), len(own)
        return Inputs(recoded, own, rows, n_rows, blank)
    blank = data.item < 0
    return Inputs(recoded, own, rows, len(own), blank if blank[own].any() else None)


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
    groups: Groups, name: str, codes: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, Bool[np.ndarray, "codes"]]:
    """Codes in the fitted vocabulary, -1 where it has none, and which ones lost theirs so."""
    own = groups.vocabulary.get(name)
    if own is None or own is labels or np.array_equal(own, labels):
        new = np.where(codes < len(labels), codes, -1)
    else:
        place = {label: code for code, label in enumerate(labels.tolist())}
        known = np.array([place.get(label, -1) for label in own.tolist()] + [-1], dtype=np.int64)
        new = known[codes]
    return new.astype(codes.dtype), (new < 0) & (codes >= 0)


def _with_known_attributes(groups: Groups, vocabulary: Vocabulary, unknown: str) -> Groups:
    """Groups with the fitted vocabulary, codes of attributes recoded to it."""
    changes: dict[str, Any] = {"vocabulary": {**groups.vocabulary, **vocabulary}}
    for kind in ("attributes", "group_attributes"):
        columns = dict(getattr(groups, kind))
        for name, codes in columns.items():
            if name not in vocabulary or codes.dtype.kind not in "iu" or codes.ndim > 1:
                continue
            signed = codes.astype(np.int64)
            columns[name], lost = _recoded(groups, name, signed, vocabulary[name])
            if unknown == "error" and lost.any():
                raise DataError(_unknown_category(groups, kind, name, codes, lost))
        changes[kind] = columns
    # The item column still has its own codes, which the new vocabulary may not know.
    return groups.with_(**changes, item=None)


def _label(groups: Groups, name: str, code: int) -> Any:
    labels = groups.vocabulary.get(name)
    return int(code) if labels is None else labels.tolist()[code]


def _unknown_category(
    groups: Groups, kind: str, name: str, codes: np.ndarray, lost: np.ndarray
) -> str:
    at = int(np.flatnonzero(lost)[0])
    return (
        f"`{kind}` must be in the vocabulary of {name!r} known from training, got "
        f"{_label(groups, name, int(codes[at]))!r} at {at} ({lost.sum()} of {lost.size}). "
        "Choose unknown='ignore' or unknown='unk'."
    )


def _unknown_item(groups: Groups, lost: Int64[np.ndarray, "lost"]) -> str:
    assert groups.item is not None
    element = int(lost[0])
    row = element if groups.source_row is None else groups.source_row[element]
    label = _label(groups, "item", int(groups.item[element]))
    return (
        f"`item` must be one seen in training, got {label!r} at row {row} ({len(lost)} such rows). "
        "Use unknown='ignore' to leave such elements out, or unknown='unk' to keep them as unknown."
    )


def _without(
    groups: Groups, lost: Bool[np.ndarray, "elements"], blank: Bool[np.ndarray, "elements"]
) -> tuple[Groups, Bool[np.ndarray, "kept"] | None]:
    """Groups without their `lost` elements, over columns of their own; and which are blank."""
    # `compact` reorders rows: the two masks travel as one more column.
    marked = groups.with_(values={**groups.values, "\0": lost + 2 * blank}).compact()
    mark = marked.values["\0"]
    keep = mark % 2 == 0
    before = np.concatenate([[0], np.cumsum(keep)])
    flat = {
        name: column[keep]
        for name in ("item", "position", "observed", "role", "source_row")
        if (column := getattr(marked, name)) is not None
    }
    bounds = {
        name: before[bound]
        for name in ("start", "stop", "context_start", "context_stop")
        if (bound := getattr(marked, name)) is not None
    }
    without = marked.with_(
        values={name: marked.values[name][keep] for name in groups.values},
        attributes={name: column[keep] for name, column in marked.attributes.items()},
        ignored=(marked.stop - marked.start) - (bounds["stop"] - bounds["start"]),
        **flat,
        **bounds,
    )
    left = mark[keep] >= 2
    return without, left if left[without.elements()].any() else None
