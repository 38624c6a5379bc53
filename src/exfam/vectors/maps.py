"""Where chosen words lie in a plane."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from exfam.vectors.plane import principal_plane
from exfam.vectors.word_vectors import WordVectors

__all__ = ["WordMap", "word_map"]


class WordMap(NamedTuple):
    """Words, their points in the plane of largest variance, and the share of all variance in it."""

    words: tuple[str, ...]
    points: Float[np.ndarray, "words 2"]
    share: float


def word_map(
    vectors: WordVectors, words: Sequence[str], *, neighbors: int = 0, of: str = "center"
) -> WordMap:
    """The chosen words in the plane of their two leading principal components.

    `neighbors`: nearest words of each that are mapped too (default 0)
    `of`: "center", "context" or "both" (default "center")

    Vectors are scaled to length 1 before; a word that is named twice has one point.
    Raises UnknownWordError, with near spellings; DataError for fewer than 3 words.

    >>> vectors = WordVectors(("a", "b", "c"), np.eye(3, dtype=np.float32))
    >>> word_map(vectors, ["a", "b", "c"]).points.shape
    (3, 2)
    """
    chosen = list(words)
    if neighbors:
        found = vectors.neighbors(chosen, k=neighbors, of=of)
        chosen += [each.word for near in found.values() for each in near]
    unique = tuple(dict.fromkeys(chosen))
    plane = principal_plane(vectors.matrix(of)[vectors.codes(unique)])
    return WordMap(unique, plane.points, plane.share)
