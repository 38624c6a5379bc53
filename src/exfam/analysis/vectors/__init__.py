"""Word vectors: neighbors, analogies, evaluation."""

from exfam.analysis.vectors.analogies import AnalogyReport, AnalogyScore, evaluate_analogies
from exfam.analysis.vectors.maps import WordMap, word_map
from exfam.analysis.vectors.similarity import SimilarityScore, evaluate_similarity
from exfam.analysis.vectors.word_vectors import Neighbor, WordVectors

__all__ = [
    "AnalogyReport",
    "AnalogyScore",
    "Neighbor",
    "SimilarityScore",
    "WordMap",
    "WordVectors",
    "evaluate_analogies",
    "evaluate_similarity",
    "word_map",
]
