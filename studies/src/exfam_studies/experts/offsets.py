"""Analogies by sums of vectors as they are, and the questions that several sets can answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64

from exfam.checks import DataError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors.evaluation import known_rows
from exfam.vectors.neighbors import nearest_rows
from exfam.vectors.word_vectors import WordVectors


@dataclass(frozen=True)
class OffsetScore:
    """Questions of a category: how many, the share answered rightly, mean cosines.

    `cosine`: of b + c - a and the right answer; `cosine_others`: with the right answers of all
        questions, near `cosine` where all vectors point one way and `cosine` means little
    """

    category: str
    n_questions: int
    accuracy: float
    cosine: float
    cosine_others: float


@dataclass(frozen=True, eq=False)
class OffsetAnswers:
    """What b + c - a, or c alone, is nearest to, question by question: "" if there is none."""

    questions: WordQuestions
    answer: tuple[str, ...]
    correct: Bool[np.ndarray, "questions"]
    cosine: Float64[np.ndarray, "questions"]
    cosine_others: Float64[np.ndarray, "questions"]

    @property
    def totals(self) -> list[OffsetScore]:
        """Semantic and syntactic questions, of which there are any, then all."""
        kinds = [self.questions.kinds.get(name, "") for name in self.questions.categories]
        scores = self._scores(kinds, sorted({*kinds} - {""}))
        return [*scores, *self._scores(["overall"] * len(kinds), ["overall"])]

    @property
    def by_category(self) -> list[OffsetScore]:
        """Every category, in the order of the questions."""
        categories = self.questions.categories
        return self._scores(categories, list(dict.fromkeys(categories)))

    def _scores(self, own: Sequence[str], names: Sequence[str]) -> list[OffsetScore]:
        figures = self.correct, self.cosine, self.cosine_others
        chosen = {name: np.array(own) == name for name in names}
        return [
            OffsetScore(name, int(rows.sum()), *(float(figure[rows].mean()) for figure in figures))
            for name, rows in chosen.items()
        ]


def answer_by_offsets(
    vectors: WordVectors, questions: WordQuestions, *, c_alone: bool = False
) -> OffsetAnswers:
    """For "a is to b as c is to d": the word nearest to b + c - a by cosine, never a, b or c.

    Vectors are added as they are, of any length. `c_alone`: the word nearest to c instead.
    Raises DataError for a question with a word that has no vector.
    Source: "Bidirectional attention as a mixture of continuous word experts", appendix F.
    """
    rows, matrix = known_rows(vectors, questions.questions), vectors.matrix()
    if (rows < 0).any():
        question, column = np.argwhere(rows < 0)[0]
        raise DataError(
            "`questions` must be of words that have vectors, got "
            f"{questions.questions[question][column]!r} in question {question}. Take "
            "`common_questions` of them."
        )
    a, b, c = (matrix[rows[:, column]] for column in range(3))
    queries = c if c_alone else b + c - a
    nearest = nearest_rows(queries, matrix, k=1, excluded=rows[:, :3]).rows
    # Of three words or fewer none is left to be the answer.
    answer = nearest[:, 0] if nearest.shape[1] else np.full(len(rows), -1, dtype=np.int64)
    unit, right = _unit(queries), _unit(matrix[rows[:, 3]])
    return OffsetAnswers(
        questions,
        tuple(vectors.words[row] if row >= 0 else "" for row in answer.tolist()),
        answer == rows[:, 3],
        np.einsum("qd,qd->q", unit, right),
        unit @ _unit(matrix[np.unique(rows[:, 3])]).mean(axis=0),
    )


def _unit(matrix: Float32[np.ndarray, "rows dim"]) -> Float64[np.ndarray, "rows dim"]:
    """Rows of length 1 in double precision; those of length 0 stay."""
    rows = matrix.astype(np.float64)
    length = np.sqrt(np.einsum("rd,rd->r", rows, rows))[:, None]
    return rows / np.where(length == 0, 1.0, length)


def common_questions(sets: Sequence[WordVectors], questions: WordQuestions) -> WordQuestions:
    """The questions, in lower case, whose four words all sets have; raises DataError for none."""
    lower = [(a.lower(), b.lower(), c.lower(), d.lower()) for a, b, c, d in questions.questions]
    known = [(known_rows(vectors, lower) >= 0).all(axis=1) for vectors in sets]
    kept = np.flatnonzero(np.all(known, axis=0))
    if not len(kept):
        raise DataError(
            f"`sets` must have the four words of a question in common, got none of "
            f"{len(questions)} questions. Leave out the smallest set."
        )
    return replace(
        questions,
        questions=tuple(lower[number] for number in kept),
        categories=tuple(questions.categories[number] for number in kept),
    )


def single_words(vectors: WordVectors) -> WordVectors:
    """Without what is not a single word in lower case: phrases, names, signs, digits, pieces."""
    return _chosen(vectors, [word.isalpha() and word == word.lower() for word in vectors.words])


def words_in_common(sets: Sequence[WordVectors]) -> list[WordVectors]:
    """Each set with the words alone that all of them have."""
    common = set.intersection(*(set(vectors.words) for vectors in sets))
    return [_chosen(vectors, [word in common for word in vectors.words]) for vectors in sets]


def _chosen(vectors: WordVectors, keep: Sequence[bool]) -> WordVectors:
    rows = np.flatnonzero(keep)
    context = None if vectors.context is None else vectors.context[rows]
    words = tuple(vectors.words[row] for row in rows)
    return WordVectors(words, vectors.center[rows], context, vectors.signs)
