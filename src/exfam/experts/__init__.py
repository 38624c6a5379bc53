"""Linear attention as a mixture of experts: the network's weights, and its parts that add up."""

from exfam.experts.bundle import AttentionLayer, LinearAttention
from exfam.experts.mixture import (
    Experts,
    ScoreComponents,
    SimilarityComponents,
    as_experts,
    score_components,
    similarity_components,
)
from exfam.experts.sentences import Sentences

__all__ = [
    "AttentionLayer",
    "Experts",
    "LinearAttention",
    "ScoreComponents",
    "Sentences",
    "SimilarityComponents",
    "as_experts",
    "score_components",
    "similarity_components",
]
