"""Analogies by category, with an example of each."""

from collections.abc import Sequence

from exfam.report.page import Part, Section, SideBySide, TableData, left_out
from exfam.report.vectors.word_material import WordMaterial
from exfam.report.vectors.word_scores import QuestionResult, WordScores
from exfam.report.words import clean, percent
from exfam.vectors.evaluation import AnalogyScore, known_rows

_TITLE = "Analogies"
_MOST_CATEGORIES = 24


def analogy_section(material: WordMaterial, scores: WordScores) -> Section:
    """One table of the published sets, one of the endings of the vocabulary."""
    parts: list[Part] = [
        _tables(material, result, f"Published analogies: {result.questions.name}")
        for result in scores.questions
    ]
    if scores.endings is not None:
        parts.append(_tables(material, scores.endings, "Endings in the vocabulary"))
    if not parts:
        why = "no published set was found with enough known words"
        return left_out(
            _TITLE, f"{why}, and few words of the vocabulary differ by an ending alone."
        )
    text = [
        "a is to b as c is to which word? The answer is the word whose vector is nearest to "
        "b − a + c, other than these three. It counts only as far as it is better than the word "
        "nearest to c, which knows nothing of a and b."
    ]
    return Section(_TITLE, text=text, parts=parts)


def _tables(material: WordMaterial, result: QuestionResult, title: str) -> Part:
    pairs = list(zip(result.score.categories, result.nearest.categories, strict=True))
    covered = [(score, alone) for score, alone in pairs if score.n_covered][:_MOST_CATEGORIES]
    rows = [
        [
            clean(score.category, most=32),
            f"{score.n_covered:,}",
            percent(score.accuracy_covered, 0),
            percent(alone.accuracy_covered, 0),
        ]
        for score, alone in covered
    ]
    shares = [score.accuracy_covered for score, _ in covered]
    table = TableData(
        ["category", "known", "right", "nearest"],
        rows,
        words=["category"],
        title=title,
        shares={"right": shares},
    )
    examples = TableData(
        ["for example", "answer", "should be"],
        [_example(material, result, score) for score, _ in covered],
        words=["for example", "answer", "should be"],
        title="The first of each category",
    )
    return SideBySide([table, examples])


def _example(material: WordMaterial, result: QuestionResult, score: AnalogyScore) -> list[str]:
    """The first question of a category that has vectors, the answer, and the right one."""
    questions = result.questions
    of = [
        question
        for question, category in zip(questions.questions, questions.categories, strict=True)
        if category == score.category
    ]
    rows = known_rows(material.vectors, of)
    a, b, c, d = rows[int((rows >= 0).all(axis=1).argmax())].tolist()
    (answer,) = material.vectors.analogy(*_words(material, (a, b, c)), k=1)
    given = [material.name(row, most=20) for row in (a, b, c)]
    right = material.vectors.words[d]
    said = "✓" if answer.word == right else clean(right, most=20)
    return [f"{given[0]} : {given[1]} = {given[2]}", clean(answer.word, most=20), said]


def _words(material: WordMaterial, rows: Sequence[int]) -> list[str]:
    return [material.vectors.words[row] for row in rows]
