"""Which columns lie close to each other, by the vectors that encode them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from exfam.checks import DataError, check_positive
from exfam.columns.results import PlottedResult, in_rows


@dataclass(frozen=True, eq=False, repr=False)
class ColumnSimilarity(PlottedResult):
    """Cosines between the encodings of columns, of one table or of several fitted together.

    `cosine`: in [-1, 1], 1 of a column with itself; 0 with a vector of length 0

    >>> vectors = np.array([[[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]])
    >>> column_similarity(vectors, ["a", "b", "c"]).nearest("a", k=1)
    [('b', 0.998...)]
    """

    names: tuple[str, ...]
    cosine: Float64[np.ndarray, "columns columns"]

    picture = "similarity_map"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `column`, `other`, `cosine`, for all pairs."""
        return in_rows({"column": self.names, "other": self.names}, {"cosine": self.cosine})

    def nearest(
        self, name: str, *, k: int, among: Collection[str] | None = None
    ) -> list[tuple[str, float]]:
        """The `k` other columns with the largest cosine, and their cosines; all if there are fewer.

        `among`: the columns to choose from, such as those of another table
        """
        check_positive("k", k)
        own = self.cosine[self._index(name)]
        others = [self._index(other) for other in (self.names if among is None else among)]
        others = [other for other in others if self.names[other] != name]
        others.sort(key=lambda j: -own[j])
        return [(self.names[other], float(own[other])) for other in others[:k]]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Plain JSON: by column, its cosine to each column."""
        rows = zip(self.names, self.cosine.tolist(), strict=True)
        return {name: dict(zip(self.names, row, strict=True)) for name, row in rows}

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.names)}, got {name!r}."
            )
        return self.names.index(name)


def column_similarity(
    vectors: Float[np.ndarray, "members columns embed"], names: Sequence[str]
) -> ColumnSimilarity:
    """The cosines between all pairs of columns' vectors, the mean over members of an ensemble."""
    exact = vectors.astype(np.float64)
    length = np.linalg.norm(exact, axis=-1, keepdims=True)
    unit = exact / np.where(length == 0, 1.0, length)
    # Rounding may carry the cosine of equal vectors just beyond 1. Adding 0 makes -0 plain.
    cosine = (unit @ unit.transpose(0, 2, 1)).clip(-1.0, 1.0) + 0.0
    return ColumnSimilarity(tuple(names), cosine.mean(axis=0))
