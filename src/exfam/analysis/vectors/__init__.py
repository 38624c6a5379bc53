"""Word vectors: neighbors, analogies, evaluation."""

from exfam.analysis.vectors.word_vectors import WordVectors

__all__ = ["WordVectors"]
