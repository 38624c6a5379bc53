"""Labels by a vocabulary; those that it lacks, counted and said in one warning or error."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, ExfamWarning, UnknownItemError
from exfam.columns.parts import Part


def vocabulary_key(part: Part) -> str:
    """What a vocabulary calls the labels of a part.

    >>> vocabulary_key(Part("item", "movie")), vocabulary_key(Part("attributes", "genre"))
    ('item', 'genre')
    """
    return "item" if part.argument == "item" else part.name


def look_up(
    names: np.ndarray, known: np.ndarray, *, typed: bool = True
) -> Int64[np.ndarray, "labels"]:
    """Where each name is among the known labels, -1 where it is not.

    `typed`: whether text is text; otherwise it may stand for a number (default True)

    >>> look_up(np.array(["b", "7"], dtype=object), np.array([7, 8]), typed=False)
    array([-1,  0])
    """
    lookup = {label: code for code, label in enumerate(known.tolist())}
    if not typed:
        lookup = {str(label): code for label, code in lookup.items()} | lookup
    return np.array([lookup.get(name, -1) for name in names.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class UnknownLabels:
    """Labels of a column that the vocabulary lacks: in so many rows so many, such as `example`.

    `argument`: the part that the column plays: "item", "attributes" or "group_attributes"
    `column`: its name, "item" for items
    """

    argument: str
    column: str
    rows: int
    labels: int
    example: Any

    def __str__(self) -> str:
        """In words.

        >>> print(UnknownLabels("item", "item", 2, 1, "ghost"))
        2 rows of items never seen in training (1 label, such as 'ghost')
        """
        what = "items" if self.argument == "item" else f"labels of {self.column!r}"
        rows, labels = _counted(self.rows, "row"), _counted(self.labels, "label")
        return f"{rows} of {what} never seen in training ({labels}, such as {self.example!r})"

    def error(self, where: str, *, n_known: int, n_rows: int) -> DataError:
        """The error for the first of these rows, which `where` names and has the `example`.

        >>> print(UnknownLabels("item", "item", 2, 1, "up").error("row 3", n_known=9, n_rows=8))
        `item` must be in the vocabulary (9 labels), got 'up' at row 3 (2 of 8 rows). Choose
        unknown='ignore' or unknown='unk'.
        """
        of = "" if self.argument == self.column else f" of {self.column!r}"
        kind = UnknownItemError if self.argument == "item" else DataError
        return kind(
            f"`{self.argument}` must be in the vocabulary{of} ({n_known} labels), got "
            f"{self.example!r} at {where} ({self.rows} of {n_rows} rows). Choose unknown='ignore' "
            "or unknown='unk'."
        )


def _counted(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def warn_unknown(found: Sequence[UnknownLabels], *, ignored: bool) -> None:
    """One ExfamWarning for all columns; nothing if there are none.

    `ignored`: whether rows of unknown items are left out

    >>> warn_unknown([], ignored=False)
    """
    if not found:
        return
    done = ["Such labels are taken as unknown."]
    if any(labels.argument == "item" for labels in found):
        done = [
            "Rows of unknown items are left out."
            if ignored
            else "They stay in the context as unknown; where items are predicted, a score leaves "
            "these rows out of its mean."
        ]
    message = (
        f"The data have {' and '.join(map(str, found))}. {done[0]} "
        "Choose unknown='error' to refuse them."
    )
    warnings.warn(message, ExfamWarning, stacklevel=2)
