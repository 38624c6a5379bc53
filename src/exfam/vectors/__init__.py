"""Word vectors: neighbors, analogies, evaluation."""

from exfam.vectors.analogies import AnalogyReport, AnalogyScore, evaluate_analogies
from exfam.vectors.maps import WordMap, word_map
from exfam.vectors.offsets import (
    OffsetAnswers,
    OffsetScore,
    answer_by_neighbors,
    answer_by_offsets,
    common_questions,
    plain_words,
    words_in_common,
)
from exfam.vectors.similarity import SimilarityScore, evaluate_similarity
from exfam.vectors.word_vectors import Neighbor, WordVectors

__all__ = [
    "AnalogyReport",
    "AnalogyScore",
    "Neighbor",
    "OffsetAnswers",
    "OffsetScore",
    "SimilarityScore",
    "WordMap",
    "WordVectors",
    "answer_by_neighbors",
    "answer_by_offsets",
    "common_questions",
    "evaluate_analogies",
    "evaluate_similarity",
    "plain_words",
    "word_map",
    "words_in_common",
]
