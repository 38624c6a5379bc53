"""Which columns lie close to each other, by the vectors that encode them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from exfam.checks import DataError, check_positive

__all__ = ["ColumnSimilarity", "column_similarity"]


@dataclass(frozen=True, eq=False)
class ColumnSimilarity:
    """Cosines between the encodings of columns, of one table or of several fitted together.

    `cosine`: in [-1, 1], 1 of a column with itself; 0 with a vector of length 0

    >>> told = column_similarity(np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), ["a", "b", "c"])
    >>> told.nearest("a", k=1)
    [('b', 0.998...)]
    """

    names: tuple[str, ...]
    cosine: Float64[np.ndarray, "columns columns"]

    def nearest(
        self, name: str, *, k: int, among: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """The `k` other columns with the largest cosine, and their cosines; all if there are fewer.

        `among`: the columns to choose from, such as those of another table; None is all
            (default None)

        Raises DataError for an unknown name.
        """
        check_positive("k", k)
        own = self.names.index(self._known(name))
        others = self.names if among is None else [self._known(other) for other in among]
        places = [self.names.index(other) for other in others if other != name]
        places.sort(key=lambda place: -self.cosine[own, place])
        return [(self.names[place], float(self.cosine[own, place])) for place in places[:k]]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Plain JSON: by column, its cosine to each column."""
        return {
            name: dict(zip(self.names, row, strict=True))
            for name, row in zip(self.names, self.cosine.tolist(), strict=True)
        }

    def _known(self, name: str) -> str:
        if name not in self.names:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.names)}, got {name!r}."
            )
        return name


def column_similarity(
    positions: Float[np.ndarray, "columns embed"], names: Sequence[str]
) -> ColumnSimilarity:
    """The cosines between all pairs of columns' encodings.

    `positions`: the vector p_j of each column
    `names`: of the columns, in the same order

    Raises DataError for another number of names.

    >>> column_similarity(np.array([[1.0, 0.0], [0.0, -2.0]]), ["a", "b"]).as_dict()["a"]
    {'a': 1.0, 'b': 0.0}
    """
    if len(names) != len(positions):
        raise DataError(
            f"`names` must be as many as `positions` has rows, {len(positions)}, got {len(names)}."
        )
    exact = positions.astype(np.float64)
    length = np.linalg.norm(exact, axis=1, keepdims=True)
    unit = exact / np.where(length == 0, 1.0, length)
    # Rounding may carry the cosine of equal vectors just beyond 1. Adding 0 makes -0 plain.
    return ColumnSimilarity(tuple(names), (unit @ unit.T).clip(-1.0, 1.0) + 0.0)
