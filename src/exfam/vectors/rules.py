"""Rules that answer "a is to b as c is to ?", for many questions at once.

Source: Levy & Goldberg (2014), "Linguistic regularities in sparse and explicit word
representations".
"""

import numpy as np
from jaxtyping import Float32, Int64

from exfam.checks import check_choice, check_positive
from exfam.vectors.neighbors import (
    Nearest,
    empty_best,
    leave_out,
    merge_best,
    row_slices,
    unit_rows,
)

ANALOGY_RULES = ("3cosadd", "3cosmul")
_EPSILON = 0.01
# Cosines of the questions' words with a block of rows: 32 MB at most; questions whose scores stay
# in cache.
_ENTRIES, _ROWS, _QUESTIONS = 1 << 23, 1 << 12, 1 << 6
_TINY = np.float32(1e-30)


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
    `k`: answers to each (default 1)

    Cosines are those of the questions' words alone, a block of rows at a time: memory does not
    grow with the number of questions. Raises ExfamError for another rule or a `k` below 1.

    >>> plane = np.array([[1, 0], [0, 1], [1, 1], [-1, 1]], dtype=np.float32)
    >>> analogy_answers(plane, np.array([[0, 2, 1]]), rule="3cosadd").rows
    array([[3]])
    """
    check_choice("rule", rule, ANALOGY_RULES)
    check_positive("k", k)
    words, index = np.unique(questions, return_inverse=True)
    index = index.reshape(questions.shape)
    unit_words = unit_rows(matrix[words])
    best = empty_best(len(questions), min(k, len(matrix) - 3))
    at_once = max(64, min(_ROWS, _ENTRIES // max(1, len(words))))
    for rows in row_slices(len(matrix), at_once):
        plus, minus = _terms(unit_words @ unit_rows(matrix[rows]).T, rule)
        for part in row_slices(len(questions), _QUESTIONS):
            a, b, c = index[part].T
            scores = plus[b]
            scores += plus[c]
            scores -= minus[a]
            leave_out(scores, questions[part], first=rows.start)
            merge_best(best, scores, part, first=rows.start)
    return best if rule == "3cosadd" else Nearest(best.rows, np.exp(best.score))


def _terms(
    cosine: Float32[np.ndarray, "words rows"], rule: str
) -> tuple[Float32[np.ndarray, "words rows"], Float32[np.ndarray, "words rows"]]:
    """What adds up to the score for b and c, and what is taken off for a: of 3CosMul logarithms."""
    if rule == "3cosadd":
        return cosine, cosine
    shifted = np.maximum((cosine + 1) / 2, _TINY)
    return np.log(shifted), np.log(shifted + np.float32(_EPSILON))
