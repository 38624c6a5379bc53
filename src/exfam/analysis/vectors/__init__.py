"""Word vectors: neighbors, analogies, evaluation."""

from exfam.analysis.vectors.word_vectors import Neighbor, WordVectors

__all__ = ["Neighbor", "WordVectors"]
