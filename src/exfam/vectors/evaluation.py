"""How well word vectors answer test sets: analogies, and pairs of words that people have rated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from exfam.checks import check_choice, check_positive
from exfam.reading.public_sets.word_pairs import WordPairs
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors.neighbors import (
    ANALOGY_RULES,
    analogy_answers,
    nearest_rows,
    row_slices,
    unit_rows,
)
from exfam.vectors.word_vectors import WordVectors

# Pairs of words whose cosines are taken at once.
_PAIRS = 1 << 14


def known_rows(
    vectors: WordVectors,
    groups: Sequence[Sequence[str]],
    *,
    of: str = "center",
    among: int | None = None,
) -> Int64[np.ndarray, "groups words"]:
    """The row of each word, -1 for a word without a direction: unknown, or `of` it a vector of 0.

    A word is looked for as it is written, then in lower case: test sets write names in capitals
    that many corpora do not have. `among`: rows from here on count as unknown.
    """
    index = vectors.index
    rows = np.array(
        [[index.get(word, index.get(word.lower(), -1)) for word in words] for words in groups],
        dtype=np.int64,
    )
    known = np.unique(rows[rows >= 0])
    zero = known[~vectors.matrix(of)[known].any(axis=1)]
    out = np.isin(rows, zero) | (rows >= (len(vectors) if among is None else among))
    return np.where(out, -1, rows)


@dataclass(frozen=True)
class AnalogyScore:
    """Questions of a category: all, those whose four words have vectors, those answered rightly."""

    category: str
    kind: str
    n_questions: int
    n_covered: int
    n_correct: int

    @property
    def accuracy(self) -> float:
        """Share of all questions that are answered rightly, as hyperwords counts."""
        return _share(self.n_correct, self.n_questions)

    @property
    def accuracy_covered(self) -> float:
        """Share of the covered questions that are answered rightly, as gensim counts."""
        return _share(self.n_correct, self.n_covered)

    @property
    def coverage(self) -> float:
        """Share of questions whose four words have vectors."""
        return _share(self.n_covered, self.n_questions)


@dataclass(frozen=True, repr=False)
class AnalogyReport:
    """Scores of a set of questions by category, and their sums; None where there are none."""

    name: str
    rule: str
    categories: tuple[AnalogyScore, ...]

    @property
    def total(self) -> AnalogyScore:
        return _sum("total", "", self.categories)

    @property
    def semantic(self) -> AnalogyScore | None:
        return self._of_kind("semantic")

    @property
    def syntactic(self) -> AnalogyScore | None:
        return self._of_kind("syntactic")

    def _of_kind(self, kind: str) -> AnalogyScore | None:
        own = [score for score in self.categories if score.kind == kind]
        return _sum(kind, kind, own) if own else None

    def to_dict(self) -> dict[str, np.ndarray]:
        """A row for each category: its kind, counts of questions and shares of right answers."""
        names = ("category", "kind", "n_questions", "n_covered", "n_correct")
        shares = ("accuracy", "accuracy_covered")
        return {
            name: np.array([getattr(score, name) for score in self.categories])
            for name in (*names, *shares)
        }

    def to_frame(self, kind: str = "pyarrow") -> Any:
        """The same as a frame: "pandas", "polars", "pyarrow" or another that narwhals makes."""
        # Not before: training of vectors does without pyarrow.
        from exfam.columns.results import make_frame

        return make_frame(self.to_dict(), kind=kind)

    def __repr__(self) -> str:
        sums = (self.semantic, self.syntactic, self.total)
        lines = [f"{self.name}, {self.rule}: correct of all, of covered, covered / questions"]
        lines += [
            f"{score.category:<28} {score.accuracy:6.3f} {score.accuracy_covered:6.3f} "
            f"{score.n_covered:>6} / {score.n_questions} ({100 * score.coverage:.0f} %)"
            for score in (*self.categories, *sums)
            if score is not None
        ]
        return "\n".join(lines)


def evaluate_analogies(
    vectors: WordVectors,
    questions: WordQuestions,
    *,
    rule: str = "3cosadd",
    of: str = "center",
    among: int | None = None,
) -> AnalogyReport:
    """How many questions are answered rightly, by category.

    `rule`: "3cosadd" or "3cosmul"; `of`: "center", "context" or "both"
    `among`: the answer is looked for among the first words alone, and questions with others are
        not covered; None for all words

    The answer is the best word that is not in the question. A word is looked for as it is written,
    then in lower case; a vector of zeros is none. A question that is not covered is not right.

    >>> plane = np.array([[1, 0], [0, 1], [1, 1], [-1, 1]], dtype=np.float32)
    >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
    >>> questions = WordQuestions("x", (("one", "three", "two", "four"),), ("x",), {})
    >>> evaluate_analogies(vectors, questions).total.accuracy
    1.0
    """
    check_choice("rule", rule, ANALOGY_RULES)
    if among is not None:
        check_positive("among", among)
    rows = known_rows(vectors, questions.questions, of=of, among=among)
    covered: Bool[np.ndarray, "questions"] = np.all(rows >= 0, axis=1)
    correct = np.zeros(len(questions), dtype=bool)
    best = analogy_answers(vectors.matrix(of)[:among], rows[covered, :3], rule=rule, k=1).rows
    # Of three words or fewer none is left to be the answer.
    correct[covered] = (best == rows[covered, 3:]).any(axis=1) if best.shape[1] else False
    return _report(questions, rule, covered, correct)


def evaluate_nearest(
    vectors: WordVectors,
    questions: WordQuestions,
    *,
    of: str = "center",
    among: int | None = None,
) -> AnalogyReport:
    """How many questions the word nearest to c answers, whatever a and b are: a rival of rules.

    Questions are covered, and answers looked for, as in `evaluate_analogies`.
    Source: Linzen (2016), "only-b".

    >>> plane = np.array([[1, 0], [0, 1], [1, 1], [-1, 1]], dtype=np.float32)
    >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
    >>> questions = WordQuestions("x", (("one", "three", "two", "four"),), ("x",), {})
    >>> evaluate_nearest(vectors, questions).total.n_correct
    1
    """
    if among is not None:
        check_positive("among", among)
    rows = known_rows(vectors, questions.questions, of=of, among=among)
    covered: Bool[np.ndarray, "questions"] = np.all(rows >= 0, axis=1)
    correct = np.zeros(len(questions), dtype=bool)
    third, index = np.unique(rows[covered, 2], return_inverse=True)
    matrix = vectors.matrix(of)[:among]
    # Two of the nearest may be a and b.
    near = nearest_rows(matrix[third], matrix, k=3, excluded=third[:, None]).rows[index]
    allowed = (near != rows[covered, :1]) & (near != rows[covered, 1:2])
    first = np.where(allowed.any(axis=1), allowed.argmax(axis=1), 0) if near.shape[1] else None
    if first is not None:
        best = near[np.arange(len(near)), first]
        correct[covered] = allowed.any(axis=1) & (best == rows[covered, 3])
    return _report(questions, "nearest", covered, correct)


def _report(
    questions: WordQuestions,
    rule: str,
    covered: Bool[np.ndarray, "questions"],
    correct: Bool[np.ndarray, "questions"],
) -> AnalogyReport:
    scores, categories = [], np.array(questions.categories)
    for name in dict.fromkeys(questions.categories):
        own = categories == name
        counts = [int(which[own].sum()) for which in (own, covered, correct)]
        scores.append(AnalogyScore(name, questions.kinds.get(name, ""), *counts))
    return AnalogyReport(questions.name, rule, tuple(scores))


def _sum(category: str, kind: str, scores: Sequence[AnalogyScore]) -> AnalogyScore:
    counts = [(score.n_questions, score.n_covered, score.n_correct) for score in scores]
    return AnalogyScore(category, kind, *map(sum, zip((0, 0, 0), *counts, strict=True)))


@dataclass(frozen=True, repr=False)
class SimilarityScore:
    """Rank correlations with what people say, from -1 to 1; nan where they are not defined.

    `kept`: over all pairs, those with a word that has no vector at a cosine of 0, as hyperwords
        does and the paper's table has it
    `skipped`: over the covered pairs alone, as gensim does
    """

    name: str
    n_pairs: int
    n_covered: int
    kept: float
    skipped: float

    @property
    def coverage(self) -> float:
        """Share of pairs of which both words have a vector."""
        return _share(self.n_covered, self.n_pairs)

    def __repr__(self) -> str:
        return (
            f"{self.name}: {self.kept:.3f} of all {self.n_pairs} pairs, {self.skipped:.3f} of the "
            f"{self.n_covered} covered ({100 * self.coverage:.0f} %)"
        )


def evaluate_similarity(
    vectors: WordVectors, pairs: WordPairs, *, of: str = "center"
) -> SimilarityScore:
    """Spearman's correlation of cosines with human scores, which are ranked as numbers.

    Words are looked for as in `evaluate_analogies`.
    Source: Levy, Goldberg & Dagan (2015), and their code, hyperwords.

    >>> vectors = WordVectors(("a", "b", "c"), np.array([[1, 0], [2, 1], [0, 1]], np.float32))
    >>> pairs = WordPairs("x", (("a", "b"), ("a", "c"), ("b", "c")), np.array([9.0, 1.0, 5.0]))
    >>> evaluate_similarity(vectors, pairs).skipped
    1.0
    """
    rows = known_rows(vectors, pairs.pairs, of=of)
    covered = (rows >= 0).all(axis=1)
    cosine = np.zeros(len(pairs))
    matrix, whose = vectors.matrix(of), np.flatnonzero(covered)
    for part in row_slices(len(whose), _PAIRS):
        left, right = (unit_rows(matrix[rows[whose[part], side]]) for side in (0, 1))
        cosine[whose[part]] = np.einsum("pd,pd->p", left, right)
    return SimilarityScore(
        name=pairs.name,
        n_pairs=len(pairs),
        n_covered=int(covered.sum()),
        kept=rank_correlation(cosine, pairs.scores),
        skipped=rank_correlation(cosine[covered], pairs.scores[covered]),
    )


def rank_correlation(a: Float[np.ndarray, "values"], b: Float[np.ndarray, "values"]) -> float:
    """Spearman's correlation, ties at their mean rank; nan for fewer than 2 or all equal values."""
    # Not before: it takes half a second.
    from scipy.stats import rankdata

    return correlation(rankdata(a), rankdata(b))


def correlation(a: Float64[np.ndarray, "values"], b: Float64[np.ndarray, "values"]) -> float:
    """Pearson's correlation; nan for fewer than 2 or all equal values."""
    if len(a) < 2:
        return float("nan")
    left, right = a - a.mean(), b - b.mean()
    scale = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / scale) if scale else float("nan")


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
