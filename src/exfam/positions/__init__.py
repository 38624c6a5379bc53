"""Positions: how local and symmetric attention is, of encodings, encoders and fitted models."""

from exfam.positions.attention import PositionAttention, own_weights
from exfam.positions.matrices import encoding_weights
from exfam.positions.metrics import locality, raw_symmetry, row_locality, row_symmetry, symmetry
from exfam.positions.probe import (
    PositionProbe,
    PositionScores,
    RepeatingEncoder,
    identical_word_probe,
    position_scores,
)
from exfam.positions.weights import check_weights, renormalized

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
    "row_locality",
    "row_symmetry",
    "symmetry",
]
