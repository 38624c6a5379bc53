"""From what a user passes (a frame or Groups) to Groups that a fitted model understands."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError, ExfamError, UnknownItemError, check_choice
from exfam.data.batching import element_weights
from exfam.groups import Groups
from exfam.groups.frames import FrameColumns, read_frame

__all__ = ["Inputs", "read_inputs"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Groups, and where each of their own elements stands in what the user passed.

    Outputs have one entry a row of the frame, or one an own element of Groups; NaN where the
    element was left out.
    """

    groups: Groups
    elements: Int64[np.ndarray, "own"]
    rows: Int64[np.ndarray, "own"]
    n_rows: int

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """Numbers of the flat columns in the user's order."""
        out = np.full((self.n_rows, *flat.shape[1:]), np.nan)
        out[self.rows] = flat[self.elements]
        return out

    def weights(self, sample_weight: Any) -> Float[np.ndarray, "elements"] | None:
        """The user's weights as one number a row of the flat columns."""
        if sample_weight is None:
            return None
        weight = np.asarray(sample_weight, dtype=np.float64)
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
    vocabulary: dict[str, np.ndarray] | None = None,
    unknown: str = "error",
) -> Inputs:
    """Groups from a frame with these columns, or Groups recoded to a fitted vocabulary.

    Raises DataError for a frame without column names, UnknownItemError for items that the
    vocabulary does not hold if `unknown="error"`.
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    if isinstance(data, Groups):
        groups = data if vocabulary is None else _recode(data, vocabulary, unknown)
        own = groups.elements()
        rows = np.arange(len(own), dtype=np.int64)
        if len(own) == data.n_elements:
            return Inputs(groups, own, rows, len(own))
        return Inputs(groups, own, np.flatnonzero(_known(data, vocabulary)), data.n_elements)
    if columns is None:
        raise DataError(
            "`group` must name the column of groups to read a frame, got None. Pass column names "
            "to the estimator (group=…, item=…, value=…), or Groups."
        )
    groups = read_frame(data, columns, vocabulary=vocabulary, unknown=unknown)
    own = groups.elements()
    assert groups.source_row is not None
    return Inputs(groups, own, groups.source_row[own], _frame_length(data))


def _frame_length(frame: Any) -> int:
    if isinstance(frame, dict):
        return len(next(iter(frame.values())))
    return len(frame)


def _codes(labels: np.ndarray, vocabulary: np.ndarray) -> Int64[np.ndarray, "labels"]:
    """Each label's place in the vocabulary, -1 where it has none."""
    place = {label: code for code, label in enumerate(vocabulary.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def _new_codes(groups: Groups, name: str, labels: np.ndarray) -> np.ndarray | None:
    """For each code of the groups its code in the fitted vocabulary; None if they are the same."""
    own = groups.vocabulary.get(name)
    if own is None or own is labels or np.array_equal(own, labels):
        return None
    return _codes(own, labels)


def _known(groups: Groups, vocabulary: dict[str, np.ndarray] | None) -> np.ndarray:
    """Which own elements have an item that the vocabulary holds."""
    assert groups.item is not None and vocabulary is not None
    return _mapped_items(groups, vocabulary["item"])[groups.elements()] >= 0


def _mapped_items(groups: Groups, labels: np.ndarray) -> np.ndarray:
    assert groups.item is not None
    codes = _new_codes(groups, "item", labels)
    if codes is not None:
        return np.append(codes, -1)[groups.item].astype(np.int32)
    return np.where(groups.item < len(labels), groups.item, -1).astype(np.int32)


def _recode(groups: Groups, vocabulary: dict[str, np.ndarray], unknown: str) -> Groups:
    changes: dict[str, Any] = {"vocabulary": {**groups.vocabulary, **vocabulary}}
    for kind in ("attributes", "group_attributes"):
        columns = dict(getattr(groups, kind))
        for name in columns.keys() & vocabulary.keys():
            codes = _new_codes(groups, name, vocabulary[name])
            if codes is not None:
                columns[name] = np.append(codes, -1)[columns[name]]
        changes[kind] = columns
    if groups.item is None or "item" not in vocabulary:
        return groups.with_(**changes)
    item = _mapped_items(groups, vocabulary["item"])
    own = groups.elements()
    missing = own[(item[own] < 0) & (groups.item[own] >= 0)]
    if len(missing) and unknown == "error":
        raise UnknownItemError(_unknown_message(groups, int(missing[0]), len(missing)))
    recoded = groups.with_(item=item, **changes)
    return _without(recoded, item >= 0) if len(missing) and unknown == "ignore" else recoded


def _unknown_message(groups: Groups, element: int, count: int) -> str:
    assert groups.item is not None
    labels = groups.vocabulary.get("item")
    code = groups.item[element]
    label = code if labels is None else labels.tolist()[code]
    row = element if groups.source_row is None else groups.source_row[element]
    return (
        f"`item` must be one seen in training, got {label!r} at row {row} ({count} such rows). "
        "Use unknown='ignore' to leave such elements out, or unknown='unk' to keep them as unknown."
    )


def _without(groups: Groups, kept: np.ndarray) -> Groups:
    """Groups without the elements that are not `kept`."""
    compact = groups.with_(item=np.where(kept, groups.item, -1)).compact()
    assert compact.item is not None
    keep = compact.item >= 0
    before = np.concatenate([[0], np.cumsum(keep)])
    flat = {
        name: column[keep]
        for name in ("item", "position", "observed", "role", "source_row")
        if (column := getattr(compact, name)) is not None
    }
    return compact.with_(
        start=before[compact.start],
        stop=before[compact.stop],
        values={name: column[keep] for name, column in compact.values.items()},
        attributes={name: column[keep] for name, column in compact.attributes.items()},
        **flat,
    )
