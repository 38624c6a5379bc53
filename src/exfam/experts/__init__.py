"""Linear attention as a mixture of experts: the network's weights, and its parts that add up."""

from exfam.experts.bundle import AttentionLayer, LinearAttention, random_network
from exfam.experts.mixture import (
    Experts,
    ScoreComponents,
    SimilarityComponents,
    as_experts,
    center_weights,
    score_components,
    similarity_components,
)
from exfam.experts.paths import Path, PathExperts, path_experts
from exfam.experts.sentences import Sentences, forward

__all__ = [
    "AttentionLayer",
    "Experts",
    "LinearAttention",
    "Path",
    "PathExperts",
    "ScoreComponents",
    "Sentences",
    "SimilarityComponents",
    "as_experts",
    "center_weights",
    "forward",
    "path_experts",
    "random_network",
    "score_components",
    "similarity_components",
]
