"""Labels that a vocabulary lacks: counted while data are read, and said in one warning."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exfam.checks import ExfamWarning

__all__ = ["UnknownLabels", "warn_unknown"]


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
    if any(each.argument == "item" for each in found):
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
