"""Word vectors: neighbors, analogies, evaluation, files.

Nothing here needs torch or scikit-learn.
"""

from exfam.vectors.evaluation import (
    AnalogyReport,
    AnalogyScore,
    SimilarityScore,
    evaluate_analogies,
    evaluate_nearest,
    evaluate_similarity,
)
from exfam.vectors.word_vectors import Neighbor, WordVectors

__all__ = [
    "AnalogyReport",
    "AnalogyScore",
    "Neighbor",
    "SimilarityScore",
    "WordVectors",
    "evaluate_analogies",
    "evaluate_nearest",
    "evaluate_similarity",
]
