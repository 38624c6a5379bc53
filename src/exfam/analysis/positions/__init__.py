"""Positions: how local and symmetric attention is, of encodings and of encoders."""

from exfam.analysis.positions.matrices import encoding_weights
from exfam.analysis.positions.metrics import (
    locality,
    raw_symmetry,
    row_locality,
    row_symmetry,
    symmetry,
)
from exfam.analysis.positions.probe import (
    PositionProbe,
    PositionScores,
    RepeatingEncoder,
    identical_word_probe,
    position_scores,
)
from exfam.analysis.positions.weights import check_weights, renormalized

__all__ = [
    "PositionProbe",
    "PositionScores",
    "RepeatingEncoder",
    "check_weights",
    "encoding_weights",
    "identical_word_probe",
    "locality",
    "position_scores",
    "raw_symmetry",
    "renormalized",
    "row_locality",
    "row_symmetry",
    "symmetry",
]
