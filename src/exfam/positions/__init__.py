"""Positions: how local and symmetric attention is, of encodings, encoders and fitted models."""

from exfam.positions.attention import PositionAttention, encoding_weights, own_weights
from exfam.positions.metrics import check_weights, locality, raw_symmetry, renormalized, symmetry
from exfam.positions.probe import (
    PositionProbe,
    PositionScores,
    RepeatingEncoder,
    identical_word_probe,
    position_scores,
)

__all__ = [
    "PositionAttention",
    "PositionProbe",
    "PositionScores",
    "RepeatingEncoder",
    "check_weights",
    "encoding_weights",
    "identical_word_probe",
    "locality",
    "own_weights",
    "position_scores",
    "raw_symmetry",
    "renormalized",
    "symmetry",
]
