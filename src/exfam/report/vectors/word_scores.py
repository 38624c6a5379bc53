"""How good word vectors are, and beside what: text, pairs of words, analogies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exfam.reading.public_sets.word_pairs import WordPairs
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.public_sets.word_sets import published_word_sets
from exfam.report.vectors.word_material import WordMaterial
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam.vectors import (
    AnalogyReport,
    SimilarityScore,
    evaluate_analogies,
    evaluate_nearest,
    evaluate_similarity,
)
from exfam.vectors.endings import ending_questions, letter_cosines
from exfam.vectors.evaluation import known_rows, rank_correlation

# Answers are looked for among so many words, as papers do; fewer covered entries say nothing.
_AMONG, FEWEST = 30_000, 30
# Pieces of a text below which there is no interval.
_FEWEST_PIECES = 5


@dataclass(frozen=True)
class TextResult:
    """Mean nats of a text by the model and by word frequencies, and how far these are behind."""

    nats: float
    by_frequency: float
    ahead: Interval | None
    n_words: int
    unknown: float


@dataclass(frozen=True)
class PairResult:
    """A set of pairs: the vectors' score, and the correlation of shared letters alone."""

    score: SimilarityScore
    by_letters: float


@dataclass(frozen=True)
class QuestionResult:
    """A set of analogies: right answers by the rule, and by the nearest word alone."""

    questions: WordQuestions
    score: AnalogyReport
    nearest: AnalogyReport


@dataclass(frozen=True)
class WordScores:
    """Everything that vectors are scored by; sets with too few known words are left out.

    `endings`: analogies that the vocabulary holds itself, None if there are few
    `sparse`: names of sets of which too few words are known; `missing`: of those not on the machine
    """

    text: TextResult | None
    pairs: Sequence[PairResult]
    questions: Sequence[QuestionResult]
    endings: QuestionResult | None
    sparse: Sequence[str]
    missing: Sequence[str]


def score_words(material: WordMaterial) -> WordScores:
    """Score the vectors by all that is there."""
    sets, missing = published_word_sets()
    pairs, questions, sparse = [], [], []
    for test in sets:
        if isinstance(test, WordPairs):
            result = _pair_result(material, test)
            few = result.score.n_covered < FEWEST
            sparse += [test.name] if few else []
            pairs += [] if few else [result]
        else:
            asked = _question_result(material, test)
            few = asked.score.total.n_covered < FEWEST
            sparse += [test.name] if few else []
            questions += [] if few else [asked]
    words = [material.vectors.words[row] for row in material.rows]
    of_endings = ending_questions(words)
    endings = _question_result(material, of_endings) if len(of_endings) >= FEWEST else None
    return WordScores(_text_result(material), pairs, questions, endings, sparse, missing)


def _text_result(material: WordMaterial) -> TextResult | None:
    if material.model is None or material.text is None:
        return None
    # Not before: vectors of a file do without it.
    from exfam.words.by_frequency import score_text

    scores = score_text(material.model, material.text)
    n = len(scores.model)
    ahead = None
    if n >= _FEWEST_PIECES:
        difference = scores.model - scores.frequency
        ahead = paired_bootstrap(difference, np.arange(n), seed=material.seed)
    means = float(scores.model.mean()), float(scores.frequency.mean())
    return TextResult(*means, ahead, scores.n_tokens, scores.unknown)


def _pair_result(material: WordMaterial, pairs: WordPairs) -> PairResult:
    score = evaluate_similarity(material.vectors, pairs)
    covered = np.flatnonzero((known_rows(material.vectors, pairs.pairs) >= 0).all(axis=1))
    letters = letter_cosines([pairs.pairs[row] for row in covered])
    return PairResult(score, rank_correlation(letters, pairs.scores[covered]))


def _question_result(material: WordMaterial, questions: WordQuestions) -> QuestionResult:
    score = evaluate_analogies(material.vectors, questions, among=_AMONG)
    return QuestionResult(
        questions, score, evaluate_nearest(material.vectors, questions, among=_AMONG)
    )
