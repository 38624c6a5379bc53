"""Which words of a test set have a vector."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from exfam.vectors.word_vectors import WordVectors

__all__ = ["known_rows", "share"]


def known_rows(
    vectors: WordVectors,
    groups: Sequence[Sequence[str]],
    *,
    of: str = "center",
    among: int | None = None,
) -> Int64[np.ndarray, "groups words"]:
    """The row of each word, -1 for a word without a direction: unknown, or a vector of zeros.

    A word is looked for as it is written, then in lower case: test sets write names in capitals
    that many corpora do not have.

    `of`: whose zeros count, "center", "context" or "both" (default "center")
    `among`: rows from here on count as unknown; None for none (default None)

    >>> vectors = WordVectors(("athens", "greece"), np.eye(2, dtype=np.float32))
    >>> known_rows(vectors, [("Athens", "Greece"), ("greece", "Baghdad")])
    array([[ 0,  1],
           [ 1, -1]])
    """
    index = vectors.index
    rows = np.array(
        [[index.get(word, index.get(word.lower(), -1)) for word in words] for words in groups],
        dtype=np.int64,
    )
    known = np.unique(rows[rows >= 0])
    zero = known[~vectors.matrix(of)[known].any(axis=1)]
    out = np.isin(rows, zero)
    if among is not None:
        out |= rows >= among
    return np.where(out, -1, rows)


def share(part: int, whole: int) -> float:
    """`part` / `whole`, nan for none of none.

    >>> share(1, 4)
    0.25
    """
    return part / whole if whole else float("nan")
