"""What is learned of one column of a table: its kind, and its labels or knots."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import check_choice, with_types

COLUMN_KINDS = ("categorical", "ordinal", "boolean", "numeric", "count", "date")
LABEL_KINDS = ("categorical", "ordinal", "boolean")


@dataclass(frozen=True, eq=False)
class Column:
    """What was learned of one column from the training rows alone.

    `labels`: of a finite kind, the distinct labels in order; the code of a label is its index.
    `knots`: of numbers and counts, strictly increasing quantiles of the training values; with
        `binned`, the inner edges of bins, where a value equal to an edge lies in the lower bin
    `center`, `scale`: of numbers and counts, mean and standard deviation of the training values (a
        scale of 1 where all are equal); dates are days since 1970
    `part_of`: of a part of a date, such as its weekday, the column of the date
    """

    name: str
    kind: str
    labels: np.ndarray | None = None
    knots: Float64[np.ndarray, " knots"] | None = None
    binned: bool = False
    center: float = 0.0
    scale: float = 1.0
    part_of: str | None = None

    @property
    def input_only(self) -> bool:
        """Whether other columns are predicted from it and it never is: a date or its part."""
        return self.kind == "date" or self.part_of is not None

    @property
    def n_tokens(self) -> int:
        """How many tokens its cells are made of: labels, bins, or knots."""
        if self.labels is not None:
            return len(self.labels)
        assert self.knots is not None
        return len(self.knots) + self.binned

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": None if self.labels is None else self.labels.tolist(),
            "knots": None if self.knots is None else self.knots.tolist(),
            "binned": self.binned,
            "center": self.center,
            "scale": self.scale,
            "part_of": self.part_of,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Column":
        """The column that `to_config` wrote."""
        labels, knots = config["labels"], config["knots"]
        held = {
            "labels": None if labels is None else label_array(labels),
            "knots": None if knots is None else np.array(knots, dtype=np.float64),
        }
        check_choice("kind", config["kind"], COLUMN_KINDS)
        if labels is None and knots is None:
            raise ValueError(f"the column {config['name']!r} must have labels or knots")
        _check_held(config["name"], **held)
        return with_types(cls(**{**config, **held}))


def _check_held(name: str, labels: np.ndarray | None, knots: np.ndarray | None) -> None:
    if labels is not None and labels.ndim != 1:
        raise ValueError(f"labels of the column {name!r} must be one list, got a nested one")
    if knots is None:
        return
    if knots.ndim != 1 or not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
        raise ValueError(f"knots of the column {name!r} must be finite and increasing numbers")


def label_array(labels: Iterable[Any]) -> np.ndarray:
    """Labels of one type as an array: booleans, whole numbers, numbers, or texts as objects."""
    listed = list(labels)
    if all(isinstance(label, str) for label in listed):
        return np.array(listed, dtype=object)
    array = np.array(listed)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array
