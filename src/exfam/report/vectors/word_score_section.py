"""Scores of word vectors, as tables and as sentences."""

from collections.abc import Sequence

import numpy as np

from exfam.report.page import Facts, Part, Section, TableData, left_out
from exfam.report.vectors.word_material import WordMaterial
from exfam.report.vectors.word_scores import QuestionResult, TextResult, WordScores
from exfam.report.words import figure, listing, percent, quantity

_TITLE = "Scores"
# Shares of unknown words that are worth a word.
_MUCH_UNKNOWN, _LITTLE_COVERED = 0.02, 0.8


def word_score_section(material: WordMaterial, scores: WordScores) -> Section:
    """The text's nats, and one row for each test set."""
    parts: list[Part] = [] if scores.text is None else [Facts(_facts(scores.text))]
    if scores.pairs:
        parts.append(_pairs(scores))
    if scores.questions:
        parts.append(_questions(scores))
    if not parts:
        why = "no text was given to score, and none of the published test sets was found"
        return left_out(_TITLE, f"{why} with enough known words.")
    text = []
    if scores.text is not None:
        text.append(
            "Nats are the mean log-likelihood of a pair of words that are near each other, drawn "
            "noise among them where the model is trained so. Beside it stand frequencies of words "
            "alone, on the same pairs: what is more is what vectors know of contexts."
        )
    if scores.sparse:
        text.append(f"Too few known words in: {listing(list(scores.sparse))}.")
    return Section(_TITLE, text=text, parts=parts)


def _facts(text: TextResult) -> list[tuple[str, str]]:
    facts = [
        ("words of text", f"{text.n_words:,}"),
        ("unknown", percent(text.unknown)),
        ("nats", figure(text.nats)),
        ("by frequency alone", figure(text.by_frequency)),
    ]
    if text.ahead is not None:
        low, mean, high = map(figure, (text.ahead.low, text.ahead.mean, text.ahead.high))
        facts.append(("ahead by, 95 % interval", f"{mean} [{low}, {high}]"))
    return facts


def _pairs(scores: WordScores) -> TableData:
    rows = [
        [
            pair.score.name,
            percent(pair.score.coverage, 0),
            figure(pair.score.skipped, 2),
            figure(pair.by_letters, 2),
        ]
        for pair in scores.pairs
    ]
    return TableData(
        ["pairs of words", "known", "vectors", "letters"],
        rows,
        words=["pairs of words"],
        title="People's judgments of pairs",
        shares={"vectors": [float(np.clip(p.score.skipped, 0, 1)) for p in scores.pairs]},
        caption="Rank correlation of cosines with the judgments, over pairs of known words; 1 is "
        "perfect. Letters: by the runs of three letters that two words share.",
    )


def _questions(scores: WordScores) -> TableData:
    rows, shares = [], []
    for result in scores.questions:
        total, alone = result.score.total, result.nearest.total
        shares.append(total.accuracy_covered)
        rows.append(
            [
                result.questions.name,
                percent(total.coverage, 0),
                percent(total.accuracy_covered),
                percent(alone.accuracy_covered),
            ]
        )
    return TableData(
        ["analogies", "known", "right", "nearest"],
        rows,
        words=["analogies"],
        title="Analogies",
        shares={"right": shares},
        caption="Right answers to a : b = c : ? of those whose four words are known. Nearest: the "
        "word nearest to c, whatever a and b are.",
    )


def quality_sentence(material: WordMaterial, scores: WordScores) -> str:
    """How good the vectors are."""
    said = []
    if scores.text is not None:
        nats, n = figure(scores.text.nats), quantity(scores.text.n_words, "word")
        said.append(f"{nats} nats per pair of words, over a text of {n} (higher is better)")
    if scores.pairs:
        mean = float(np.mean([pair.score.skipped for pair in scores.pairs]))
        sets = quantity(len(scores.pairs), "set")
        said.append(f"a rank correlation of {figure(mean, 2)} with people's judgments ({sets})")
    if (share := _accuracy(scores.questions)) is not None:
        said.append(f"{percent(share, 0)} of published analogies of known words right")
    elif scores.endings is not None:
        share = scores.endings.score.total.accuracy_covered
        said.append(f"{percent(share, 0)} of analogies of endings in the vocabulary right")
    if not said:
        return "Not known: there was no text and no test set to score the vectors on."
    return _sentence(said)


def _sentence(said: list[str]) -> str:
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def against_sentence(scores: WordScores) -> str:
    """Beside what the vectors stand."""
    said = []
    if scores.text is not None:
        gap = scores.text.nats - scores.text.by_frequency
        more = f"the model has {figure(abs(gap))} {'more' if gap > 0 else 'less'}"
        if scores.text.ahead is not None and scores.text.ahead.low <= 0 <= scores.text.ahead.high:
            more += ", which may be chance"
        said.append(
            f"frequencies of words alone have {figure(scores.text.by_frequency)} nats, {more}"
        )
    if scores.pairs:
        letters = float(np.mean([pair.by_letters for pair in scores.pairs]))
        said.append(f"letters that two words share correlate by {figure(letters, 2)}")
    results = list(scores.questions) or ([] if scores.endings is None else [scores.endings])
    if results:
        nearest = _share([(r.nearest.total.n_correct, r.nearest.total.n_covered) for r in results])
        said.append(
            f"the word nearest to the third one answers {percent(nearest, 0)} of the analogies"
        )
    return _sentence(said) if said else "Nothing: there was nothing to compare on."


def _accuracy(results: Sequence[QuestionResult]) -> float | None:
    if not results:
        return None
    return _share([(r.score.total.n_correct, r.score.total.n_covered) for r in results])


def _share(counts: list[tuple[int, int]]) -> float:
    correct, covered = map(sum, zip(*counts, strict=True))
    return correct / covered if covered else float("nan")


def score_cautions(scores: WordScores) -> list[str]:
    """What scores do not say."""
    said = []
    if scores.text is not None:
        if scores.text.unknown >= _MUCH_UNKNOWN:
            left = percent(scores.text.unknown, 0)
            said.append(f"{left} of the words of the text are unknown to the model, and left out.")
        said.append("Nats are fair only if the text was not part of what the model was fitted to.")
    covered = [(pair.score.n_covered, pair.score.n_pairs) for pair in scores.pairs]
    covered += [(r.score.total.n_covered, r.score.total.n_questions) for r in scores.questions]
    if covered and (share := _share(covered)) < _LITTLE_COVERED:
        said.append(
            f"Only {percent(share, 0)} of the pairs and analogies of test sets have vectors for "
            "all their words; scores are of these."
        )
    return said
