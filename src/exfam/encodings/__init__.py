"""Positional encodings as parts: the hooks that they have, and all encodings by name."""

from exfam.encodings.absolute import LearnedAbsolute, Rotary, Sinusoidal, Untied
from exfam.encodings.attenuated import Attenuated, AttenuatedBias, AttenuatedTable
from exfam.encodings.base import (
    Encoding,
    KeyPosition,
    NoEncoding,
    Position,
    QueryPosition,
    pair_scores,
)
from exfam.encodings.registry import ENCODINGS, EncodingSizes, build_encoding
from exfam.encodings.relative import ALiBi, DistanceBias, RelativeBias, RelativeKeys

__all__ = [
    "ENCODINGS",
    "ALiBi",
    "Attenuated",
    "AttenuatedBias",
    "AttenuatedTable",
    "DistanceBias",
    "Encoding",
    "EncodingSizes",
    "KeyPosition",
    "LearnedAbsolute",
    "NoEncoding",
    "Position",
    "QueryPosition",
    "RelativeBias",
    "RelativeKeys",
    "Rotary",
    "Sinusoidal",
    "Untied",
    "build_encoding",
    "pair_scores",
]
