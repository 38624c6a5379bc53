"""The attention that an encoder pays to positions: sentences of one word repeated have no other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.positions.metrics import locality, raw_symmetry, renormalized, symmetry

# What becomes of an encoder's special tokens: none are there; their rows and columns are scored;
# they are there, and their rows and columns left out.
SPECIAL_TOKENS = ("none", "kept", "cut")
# The positions that these leave something of.
_LEAST = {"none": 1, "kept": 2, "cut": 3}

_WORDS_AT_ONCE = 10

# How many words, or which.
Words = int | np.integer[Any] | Sequence[str]


@dataclass(frozen=True, eq=False)
class PositionScores:
    """Locality, and symmetry three ways: see `exfam.positions.metrics`."""

    locality: Float64[Tensor, "*batch"]
    symmetry: Float64[Tensor, "*batch"]
    macro_symmetry: Float64[Tensor, "*batch"]
    raw_symmetry: Float64[Tensor, "*batch"]


def position_scores(weights: Float[Tensor, "*batch query key"]) -> PositionScores:
    """All scores of attention matrices. Raises as `symmetry`."""
    return PositionScores(
        locality=locality(weights),
        symmetry=symmetry(weights),
        macro_symmetry=symmetry(weights, average="macro"),
        raw_symmetry=raw_symmetry(weights),
    )


@dataclass(frozen=True, eq=False)
class PositionProbe:
    """Attention between positions in each head, averaged over sentences.

    `words`: those that were repeated, a sentence each
    """

    weights: Float64[Tensor, "layers heads length length"]
    words: tuple[str, ...]

    @property
    def mean(self) -> Float64[Tensor, "length length"]:
        """Over layers and heads."""
        return self.weights.mean((0, 1))

    def model_scores(self) -> PositionScores:
        """Of the mean matrix, as the paper has it."""
        return position_scores(self.mean)

    def layer_scores(self) -> PositionScores:
        """Of each layer's mean matrix."""
        return position_scores(self.weights.mean(1))

    def head_scores(self) -> PositionScores:
        """Of each head's matrix; the mean of symmetries is not that of the mean matrix."""
        return position_scores(self.weights)


@runtime_checkable
class RepeatingEncoder(Protocol):
    """What a probe needs of an encoder."""

    def probe_words(self) -> Sequence[str]:
        """Words of one token each, in a fixed order."""

    def repeated(
        self, words: Sequence[str], length: int, *, special_tokens: bool
    ) -> Float[Tensor, "words layers heads length length"]:
        """Attention of sentences that are one word over and over, special tokens included."""


def identical_word_probe(
    encoder: RepeatingEncoder,
    *,
    words: Words = 100,
    length: int = 128,
    special_tokens: str = "none",
    seed: int = 0,
) -> PositionProbe:
    """Attention of an encoder to positions alone.

    `words`: how many of the encoder's words, drawn without replacement by
        `numpy.random.default_rng(seed)`, or which
    `length`: positions, special tokens included where they are
    `special_tokens`: "none" for bare words; "kept" for sentences that begin and end as the encoder
        is used to; "cut" for these without the rows and columns of special tokens, rows
        renormalized

    Raises ExfamError for more words than the encoder has, and for a length that it does not take or
    that special tokens leave nothing of.
    Source: Chen, Varoquaux & Suchanek (2023), section 3.2.2.
    """
    check_choice("special_tokens", special_tokens, SPECIAL_TOKENS)
    _check_length(length, special_tokens)
    check_whole("seed", seed, least=0)
    chosen = _chosen(encoder, words, seed)
    total: Tensor | None = None
    for first in range(0, len(chosen), _WORDS_AT_ONCE):
        some = chosen[first : first + _WORDS_AT_ONCE]
        attention = encoder.repeated(some, length, special_tokens=special_tokens != "none")
        summed = attention.sum(0, dtype=torch.float64)
        total = summed if total is None else total + summed
    assert total is not None
    weights = total / len(chosen)
    if special_tokens == "cut":
        weights = renormalized(weights[..., 1:-1, 1:-1])
    return PositionProbe(weights, chosen)


def _check_length(length: int, special_tokens: str) -> None:
    check_whole("length", length)
    if length < _LEAST[special_tokens]:
        raise ExfamError(
            f"`length` must be at least {_LEAST[special_tokens]} with special_tokens="
            f"{special_tokens!r}, which are two of the positions, got {length}. Take a longer "
            "sentence, or special_tokens='none'."
        )


def _chosen(encoder: RepeatingEncoder, words: Words, seed: int) -> tuple[str, ...]:
    if not isinstance(words, int | np.integer):
        if isinstance(words, str) or not len(words):
            raise ExfamError(f"`words` must be a number or a list of words, got {words!r}.")
        return tuple(words)
    check_whole("words", words)
    candidates = list(encoder.probe_words())
    if words > len(candidates):
        raise ExfamError(
            f"`words` must be at most the {len(candidates)} words of one token that the encoder "
            f"has, got {words}. Pass fewer."
        )
    drawn = np.random.default_rng(seed).choice(candidates, words, replace=False)
    return tuple(drawn.tolist())
