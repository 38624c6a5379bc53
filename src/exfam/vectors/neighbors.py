"""Nearest rows and analogies (Levy & Goldberg, 2014), block by block within bounded memory."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from exfam.checks import check_choice, check_positive

# Rows of the matrix and queries that are compared at once: 16 MB of cosines.
_ROWS, _QUERIES = 1 << 14, 1 << 8
_SHORTEST, _LONGEST = 1e-12, 1e12
ANALOGY_RULES = ("3cosadd", "3cosmul")
_EPSILON, _TINY = np.float32(0.01), np.float32(1e-30)
# Cosines of the questions' words with a block of rows: 32 MB at most; questions whose scores stay
# in cache.
_ENTRIES, _ANALOGY_ROWS, _QUESTIONS = 1 << 23, 1 << 12, 1 << 6


class Nearest(NamedTuple):
    """For each query the best rows, best first, and their scores."""

    rows: Int64[np.ndarray, "queries k"]
    score: Float32[np.ndarray, "queries k"]

    @classmethod
    def none(cls, n_queries: int, k: int) -> "Nearest":
        shape = n_queries, max(0, k)
        return cls(np.full(shape, -1, dtype=np.int64), np.full(shape, -np.inf, dtype=np.float32))


def nearest_rows(
    queries: Float32[np.ndarray, "queries dim"],
    matrix: Float32[np.ndarray, "rows dim"],
    *,
    k: int,
    excluded: Int64[np.ndarray, "queries left_out"] | None = None,
) -> Nearest:
    """The `k` rows with the largest cosine to each query; of equal ones the first comes first.

    `excluded`: rows that are no answer to the query, -1 for none

    Fewer than `k` where fewer rows are left. A row of zeros has cosine 0 to everything.
    """
    check_positive("k", k)
    if excluded is None:
        excluded = np.empty((len(queries), 0), dtype=np.int64)
    best = Nearest.none(len(queries), min(k, len(matrix) - excluded.shape[1]))
    unit = unit_rows(queries)
    for rows in row_slices(len(matrix), _ROWS):
        against = unit_rows(matrix[rows])
        for part in row_slices(len(queries), _QUERIES):
            cosine = unit[part] @ against.T
            _leave_out(cosine, excluded[part], first=rows.start)
            _merge_best(best, cosine, part, first=rows.start)
    return best


def nearest_to(
    query: Float32[np.ndarray, "dim"],
    matrix: Float32[np.ndarray, "rows dim"],
    *,
    lengths: Float32[np.ndarray, "rows"],
    k: int,
    excluded: Int64[np.ndarray, "left_out"],
) -> Nearest:
    """The same for one query, a unit vector, where the lengths of the rows are known: one product.

    Lengths so large or small that products of float32 would fail are left to `nearest_rows`.
    """
    if not _SHORTEST < lengths.min() <= lengths.max() < _LONGEST:
        return nearest_rows(query[None], matrix, k=k, excluded=excluded[None])
    check_positive("k", k)
    best = Nearest.none(1, min(k, len(matrix) - len(excluded)))
    cosine = (matrix @ query / lengths)[None]
    _leave_out(cosine, excluded[None], first=0)
    _merge_best(best, cosine, slice(0, 1), first=0)
    return best


def row_slices(n: int, at_once: int) -> Iterator[slice]:
    """Slices of `at_once` that cover `n` rows."""
    for first in range(0, n, at_once):
        yield slice(first, min(n, first + at_once))


def unit_rows(matrix: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Rows of length 1; those of length 0 stay."""
    # The largest entry first: squares of very large or very small ones leave float32.
    scale = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = matrix / np.where(scale == 0, np.float32(1), scale)
    length = np.sqrt(np.einsum("rd,rd->r", scaled, scaled))[:, None]
    return scaled / np.where(length == 0, np.float32(1), length)


def _leave_out(scores: np.ndarray, excluded: np.ndarray, *, first: int) -> None:
    """Set the scores of excluded rows to -inf, in place; the block's rows begin at `first`."""
    query, column = np.nonzero((excluded >= first) & (excluded < first + scores.shape[1]))
    scores[query, excluded[query, column] - first] = -np.inf


def _merge_best(best: Nearest, scores: np.ndarray, queries: slice, *, first: int) -> None:
    """Take into the best of those queries, in place, what is better among the rows from `first` on.

    Blocks must come in the order of their rows: of equal scores the first row stays.
    """
    k = best.rows.shape[1]
    if k <= 1:
        if k:
            _merge_one(best, scores, queries, first=first)
        return
    last = best.score[queries, -1]
    floor = np.partition(scores, -k, axis=1)[:, -k] if k < scores.shape[1] else -np.inf
    query, row = np.nonzero((scores >= np.reshape(floor, (-1, 1))) & (scores > last[:, None]))
    n = len(scores)
    whose = np.concatenate([np.repeat(np.arange(n), k), query])
    rows = np.concatenate([best.rows[queries].ravel(), row + first])
    score = np.concatenate([best.score[queries].ravel(), scores[query, row]])
    order = np.lexsort((rows, -score, whose))
    starts = np.searchsorted(whose[order], np.arange(n))
    kept = order[starts[:, None] + np.arange(k)]
    best.rows[queries], best.score[queries] = rows[kept], score[kept]


def _merge_one(best: Nearest, scores: np.ndarray, queries: slice, *, first: int) -> None:
    row = scores.argmax(axis=1)
    score = scores[np.arange(len(scores)), row]
    better = score > best.score[queries, 0]
    best.rows[queries, 0] = np.where(better, row + first, best.rows[queries, 0])
    best.score[queries, 0] = np.where(better, score, best.score[queries, 0])


def analogy_answers(
    matrix: Float32[np.ndarray, "rows dim"],
    questions: Int64[np.ndarray, "questions 3"],
    *,
    rule: str,
    k: int = 1,
) -> Nearest:
    """The `k` best rows d for each question a : b = c : d, never a, b or c, and their scores.

    `rule`: "3cosadd", cos(d, b) - cos(d, a) + cos(d, c), or "3cosmul", s(d, b) s(d, c) /
        (s(d, a) + 0.01) of s = (cos + 1) / 2

    Cosines are those of the questions' words alone, a block of rows at a time: memory does not
    grow with the number of questions.
    """
    check_choice("rule", rule, ANALOGY_RULES)
    check_positive("k", k)
    words, index = np.unique(questions, return_inverse=True)
    index = index.reshape(questions.shape)
    unit_words = unit_rows(matrix[words])
    best = Nearest.none(len(questions), min(k, len(matrix) - 3))
    at_once = max(64, min(_ANALOGY_ROWS, _ENTRIES // max(1, len(words))))
    for rows in row_slices(len(matrix), at_once):
        plus, minus = _terms(unit_words @ unit_rows(matrix[rows]).T, rule)
        for part in row_slices(len(questions), _QUESTIONS):
            a, b, c = index[part].T
            scores = plus[b]
            scores += plus[c]
            scores -= minus[a]
            _leave_out(scores, questions[part], first=rows.start)
            _merge_best(best, scores, part, first=rows.start)
    return best if rule == "3cosadd" else Nearest(best.rows, np.exp(best.score))


def _terms(cosine: np.ndarray, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """What is added for b and c, and what is taken off for a: of 3CosMul logarithms."""
    if rule == "3cosadd":
        return cosine, cosine
    shifted = np.maximum((cosine + 1) / 2, _TINY)
    return np.log(shifted), np.log(shifted + _EPSILON)
