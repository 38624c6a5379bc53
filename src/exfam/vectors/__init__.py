"""Word vectors: neighbors, analogies, evaluation."""

from exfam.vectors.analogies import AnalogyReport, AnalogyScore, evaluate_analogies
from exfam.vectors.similarity import SimilarityScore, evaluate_similarity
from exfam.vectors.word_vectors import Neighbor, WordVectors

__all__ = [
    "AnalogyReport",
    "AnalogyScore",
    "Neighbor",
    "SimilarityScore",
    "WordVectors",
    "evaluate_analogies",
    "evaluate_similarity",
]
