"""Positions: how local and symmetric attention is, of encodings, encoders and fitted models."""

from exfam.analysis.positions.fitted import (
    PositionAttention,
    group_attention,
    own_weights,
    table_attention,
)
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
    "PositionAttention",
    "PositionProbe",
    "PositionScores",
    "RepeatingEncoder",
    "check_weights",
    "encoding_weights",
    "group_attention",
    "identical_word_probe",
    "locality",
    "own_weights",
    "position_scores",
    "raw_symmetry",
    "renormalized",
    "row_locality",
    "row_symmetry",
    "symmetry",
    "table_attention",
]
