"""How many analogies word vectors answer."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from exfam.checks import check_choice, check_positive
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors.covered import known_rows, share
from exfam.vectors.rules import RULES, answers
from exfam.vectors.word_vectors import WordVectors

__all__ = ["AnalogyReport", "AnalogyScore", "evaluate_analogies"]


@dataclass(frozen=True)
class AnalogyScore:
    """Questions of a category: all, those whose four words have vectors, those answered rightly.

    >>> score = AnalogyScore("family", "semantic", n_questions=506, n_covered=420, n_correct=253)
    >>> score.accuracy, round(score.accuracy_covered, 3), round(score.coverage, 2)
    (0.5, 0.602, 0.83)
    """

    category: str
    kind: str
    n_questions: int
    n_covered: int
    n_correct: int

    @property
    def accuracy(self) -> float:
        """Share of all questions that are answered rightly, as hyperwords counts."""
        return share(self.n_correct, self.n_questions)

    @property
    def accuracy_covered(self) -> float:
        """Share of the covered questions that are answered rightly, as gensim counts."""
        return share(self.n_correct, self.n_covered)

    @property
    def coverage(self) -> float:
        """Share of questions whose four words have vectors."""
        return share(self.n_covered, self.n_questions)


@dataclass(frozen=True)
class AnalogyReport:
    """Scores of a set of questions by category, and their sums.

    >>> family = AnalogyScore("family", "semantic", n_questions=506, n_covered=420, n_correct=253)
    >>> report = AnalogyReport("google", "3cosadd", (family,))
    >>> report.semantic.accuracy, report.syntactic is None
    (0.5, True)
    """

    name: str
    rule: str
    categories: tuple[AnalogyScore, ...]

    @property
    def total(self) -> AnalogyScore:
        """All questions."""
        return _sum("total", "", self.categories)

    @property
    def semantic(self) -> AnalogyScore | None:
        """All semantic questions; None if there are none."""
        return self._of_kind("semantic")

    @property
    def syntactic(self) -> AnalogyScore | None:
        """All syntactic questions; None if there are none."""
        return self._of_kind("syntactic")

    def _of_kind(self, kind: str) -> AnalogyScore | None:
        own = [each for each in self.categories if each.kind == kind]
        return _sum(kind, kind, own) if own else None

    def __str__(self) -> str:
        sums = [each for each in (self.semantic, self.syntactic, self.total) if each is not None]
        lines = [f"{self.name}, {self.rule}: correct of all, of covered, covered / questions"]
        lines += [
            f"{each.category:<28} {each.accuracy:6.3f} {each.accuracy_covered:6.3f} "
            f"{each.n_covered:>6} / {each.n_questions} ({100 * each.coverage:.0f} %)"
            for each in (*self.categories, *sums)
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

    `rule`: "3cosadd" or "3cosmul" (default "3cosadd")
    `of`: "center", "context" or "both" (default "center")
    `among`: the answer is looked for among the first words alone, and questions with others are
        not covered; None for all words (default None)

    The answer is the best word that is not asked with. A word is looked for as it is written,
    then in lower case; a vector of zeros is none. A question that is not covered is not right.
    Raises ExfamError or DataError for other choices.

    >>> plane = np.array([[1, 0], [0, 1], [1, 1], [-1, 1]], dtype=np.float32)
    >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
    >>> asked = WordQuestions("x", (("one", "three", "two", "four"),), ("x",), {})
    >>> evaluate_analogies(vectors, asked).total.accuracy
    1.0
    """
    check_choice("rule", rule, RULES)
    if among is not None:
        check_positive("among", among)
    rows = known_rows(vectors, questions.questions, of=of, among=among)
    covered: Bool[np.ndarray, "questions"] = np.all(rows >= 0, axis=1)
    correct = np.zeros(len(questions), dtype=bool)
    found = answers(vectors.matrix(of)[:among], rows[covered, :3], rule=rule, k=1).rows
    # Of three words or fewer none is left to be the answer.
    correct[covered] = (found == rows[covered, 3:]).any(axis=1) if found.shape[1] else False
    scores = _by_category(questions, covered, correct)
    return AnalogyReport(questions.name, rule, tuple(scores))


def _by_category(
    questions: WordQuestions,
    covered: Bool[np.ndarray, "questions"],
    correct: Bool[np.ndarray, "questions"],
) -> Iterable[AnalogyScore]:
    categories = np.array(questions.categories)
    for name in dict.fromkeys(questions.categories):
        own = categories == name
        yield AnalogyScore(
            category=name,
            kind=questions.kinds.get(name, ""),
            n_questions=int(own.sum()),
            n_covered=int(covered[own].sum()),
            n_correct=int(correct[own].sum()),
        )


def _sum(category: str, kind: str, scores: Iterable[AnalogyScore]) -> AnalogyScore:
    listed = list(scores)
    return AnalogyScore(
        category,
        kind,
        n_questions=sum(each.n_questions for each in listed),
        n_covered=sum(each.n_covered for each in listed),
        n_correct=sum(each.n_correct for each in listed),
    )
