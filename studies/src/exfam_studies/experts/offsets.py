"""Analogies by sums of vectors as they are, and the questions that several sets can be asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from exfam.checks import DataError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors.evaluation import known_rows
from exfam.vectors.neighbors import nearest_rows
from exfam.vectors.word_vectors import WordVectors


@dataclass(frozen=True)
class OffsetScore:
    """Questions of a category: how many, the share answered rightly, mean cosines.

    `cosine`: of b + c - a and the right answer, mean over questions, from -1 to 1; it does not
        depend on how many other words there are, as `accuracy` does
    `cosine_others`: the same with the right answers of all questions of the set in place of its
        own: near `cosine` where all vectors point one way, and `cosine` then means little

    >>> score = OffsetScore(
    ...     "family", "semantic", n_questions=2, accuracy=0.5, cosine=0.6, cosine_others=0.1
    ... )
    >>> score.accuracy
    0.5
    """

    category: str
    kind: str
    n_questions: int
    accuracy: float
    cosine: float
    cosine_others: float


@dataclass(frozen=True, eq=False)
class OffsetAnswers:
    """What b + c - a, or c alone, is nearest to, question by question.

    `answer`: the word found, "" where there was none to choose
    `correct`: whether it is the right one
    `cosine`: of b + c - a and the right answer; 0 where the sum is zero
    `cosine_others`: of b + c - a and the right answers of all questions, each word once, mean
    """

    questions: WordQuestions
    answer: tuple[str, ...]
    correct: Bool[np.ndarray, "questions"]
    cosine: Float64[np.ndarray, "questions"]
    cosine_others: Float64[np.ndarray, "questions"]

    @property
    def overall(self) -> OffsetScore:
        """All questions."""
        return self._score("overall", "", np.ones(len(self.correct), dtype=bool))

    def by_kind(self) -> list[OffsetScore]:
        """Semantic and syntactic questions, of which there are any."""
        own = np.array([self.questions.kinds.get(each, "") for each in self.questions.categories])
        kinds = [kind for kind in dict.fromkeys(own.tolist()) if kind]
        return [self._score(kind, kind, own == kind) for kind in sorted(kinds)]

    def by_category(self) -> list[OffsetScore]:
        """Every category, in the order of the questions."""
        own = np.array(self.questions.categories)
        return [
            self._score(each, self.questions.kinds.get(each, ""), own == each)
            for each in dict.fromkeys(self.questions.categories)
        ]

    def _score(
        self, category: str, kind: str, chosen: Bool[np.ndarray, "questions"]
    ) -> OffsetScore:
        return OffsetScore(
            category,
            kind,
            n_questions=int(chosen.sum()),
            accuracy=float(self.correct[chosen].mean()),
            cosine=float(self.cosine[chosen].mean()),
            cosine_others=float(self.cosine_others[chosen].mean()),
        )


def answer_by_offsets(
    vectors: WordVectors, questions: WordQuestions, *, of: str = "center"
) -> OffsetAnswers:
    """For "a is to b as c is to d": the word nearest to b + c - a by cosine, never a, b or c.

    Vectors are added as they are, of any length, whereas the rule "3cosadd" of `evaluate_analogies`
    first makes all of length 1. A word is looked for as it is written, then in lower case.

    `of`: "center", "context" or "both" (default "center")

    Raises DataError for a question with a word that has no vector, or one of zeros: see
    `common_questions`. Source: "Bidirectional attention as a mixture of continuous word experts",
    appendix F.

    >>> plane = np.array([[1, 0], [0, 1], [1, 2], [0, 3]], dtype=np.float32)
    >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
    >>> asked = WordQuestions("x", (("one", "two", "three", "four"),), ("x",), {})
    >>> answer_by_offsets(vectors, asked).answer
    ('four',)
    """
    rows = _rows(vectors, questions, of=of)
    matrix = vectors.matrix(of)
    a, b, c = (matrix[rows[:, place]] for place in range(3))
    return _answers(vectors, questions, rows, queries=b + c - a, of=of)


def answer_by_neighbors(
    vectors: WordVectors, questions: WordQuestions, *, of: str = "center"
) -> OffsetAnswers:
    """The same with the word nearest to c alone: what of `answer_by_offsets` owes nothing to a, b.

    >>> plane = np.array([[1, 0], [0, 1], [1, 2], [0, 3]], dtype=np.float32)
    >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
    >>> asked = WordQuestions("x", (("one", "two", "three", "four"),), ("x",), {})
    >>> round(answer_by_neighbors(vectors, asked).overall.cosine, 4)
    0.8944
    """
    rows = _rows(vectors, questions, of=of)
    return _answers(vectors, questions, rows, queries=vectors.matrix(of)[rows[:, 2]], of=of)


def common_questions(sets: Sequence[WordVectors], questions: WordQuestions) -> WordQuestions:
    """The questions, in lower case, all four words of which have a vector in each of the sets.

    Raises DataError where there is none.

    >>> sets = [WordVectors(words, np.eye(4, dtype="f4")) for words in (("a", "b", "c", "d"),) * 2]
    >>> asked = WordQuestions("x", (("A", "b", "C", "d"), ("a", "b", "c", "e")), ("x", "x"), {})
    >>> common_questions(sets, asked).questions
    (('a', 'b', 'c', 'd'),)
    """
    lower = [(a.lower(), b.lower(), c.lower(), d.lower()) for a, b, c, d in questions.questions]
    known = np.ones(len(lower), dtype=bool)
    for vectors in sets:
        known &= (known_rows(vectors, lower) >= 0).all(axis=1)
    kept: Int64[np.ndarray, "kept"] = np.flatnonzero(known)
    if not len(kept):
        raise DataError(
            f"`sets` must have the four words of a question in common, got none of "
            f"{len(questions)} questions. Leave out the smallest set."
        )
    return replace(
        questions,
        questions=tuple(lower[place] for place in kept),
        categories=tuple(questions.categories[place] for place in kept),
    )


def single_words(vectors: WordVectors) -> WordVectors:
    """Without what is not a single word in lower case: phrases, names, signs, digits, pieces.

    >>> words = ("[mask]", "##ing", "cat", "New_York", "café", "2014", "Paris")
    >>> single_words(WordVectors(words, np.eye(7, dtype=np.float32))).words
    ('cat', 'café')
    """
    return _chosen(vectors, [each.isalpha() and each == each.lower() for each in vectors.words])


def words_in_common(sets: Sequence[WordVectors]) -> list[WordVectors]:
    """Each set with the words alone that all of them have.

    >>> one, two = (WordVectors(words, np.eye(2, dtype="f4")) for words in (("a", "b"), ("b", "c")))
    >>> [each.words for each in words_in_common([one, two])]
    [('b',), ('b',)]
    """
    common = set.intersection(*(set(each.words) for each in sets))
    return [_chosen(each, [word in common for word in each.words]) for each in sets]


def _chosen(vectors: WordVectors, keep: Sequence[bool]) -> WordVectors:
    rows = np.flatnonzero(keep)
    context = None if vectors.context is None else vectors.context[rows]
    words = tuple(vectors.words[row] for row in rows)
    return WordVectors(words, vectors.center[rows], context, vectors.signs)


def _rows(
    vectors: WordVectors, questions: WordQuestions, *, of: str
) -> Int64[np.ndarray, "questions 4"]:
    rows = known_rows(vectors, questions.questions, of=of)
    if (rows < 0).any():
        question, place = np.argwhere(rows < 0)[0]
        raise DataError(
            "`questions` must be of words that have vectors, got "
            f"{questions.questions[question][place]!r} in question {question}. Take "
            "`common_questions` of them."
        )
    return rows


def _answers(
    vectors: WordVectors,
    questions: WordQuestions,
    rows: Int64[np.ndarray, "questions 4"],
    *,
    queries: Float32[np.ndarray, "questions dim"],
    of: str,
) -> OffsetAnswers:
    matrix = vectors.matrix(of)
    found = nearest_rows(queries, matrix, k=1, excluded=rows[:, :3]).rows
    # Of three words or fewer none is left to be the answer.
    answer = found[:, 0] if found.shape[1] else np.full(len(rows), -1, dtype=np.int64)
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
