"""Positional encodings as parts: what they are asked for, each of them, all by name."""

from exfam.encodings.absolute import LearnedAbsolute, Sinusoidal, Untied
from exfam.encodings.attenuated import Attenuated, AttenuatedBias, AttenuatedTable, attenuation
from exfam.encodings.base import (
    Encoding,
    KeyPosition,
    NoEncoding,
    Position,
    QueryPosition,
    pair_scores,
    share_positions,
)
from exfam.encodings.registry import ENCODINGS, EncodingSizes, build_encoding
from exfam.encodings.relative import ALiBi, DistanceBias, RelativeBias, RelativeKeys, alibi_slopes
from exfam.encodings.rotary import Rotary

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
    "alibi_slopes",
    "attenuation",
    "build_encoding",
    "pair_scores",
    "share_positions",
]
