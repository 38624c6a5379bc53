"""What attention heads and encoders know of language."""

from exfam.analysis.probes.dependencies import (
    DependencyHits,
    DependencyScore,
    attention_hits,
    best_predictors,
    distance_accuracy,
    offset_hits,
    score_predictors,
)

__all__ = [
    "DependencyHits",
    "DependencyScore",
    "attention_hits",
    "best_predictors",
    "distance_accuracy",
    "offset_hits",
    "score_predictors",
]
