"""Pieces of text that a masked language model learns from, and what it minimizes on them."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from jaxtyping import Bool, Int32, Int64
from torch import Tensor, nn

from exfam.language.networks.masked_lm import MaskedLM
from exfam.language.networks.summed_nats import summed_nats

# Of the chosen tokens: replaced by the mask, by a random token; the rest stay as they are.
_MASKED, _REPLACED = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class PieceBatch:
    """Pieces side by side.

    `present`: tokens, not padding; `chosen`: the tokens to predict, None to draw them
    """

    tokens: Int64[Tensor, "batch length"]
    present: Bool[Tensor, "batch length"]
    chosen: Bool[Tensor, "batch length"] | None = None

    def to(self, device: torch.device) -> "PieceBatch":
        """The same on another device."""
        chosen = None if self.chosen is None else self.chosen.to(device)
        return PieceBatch(self.tokens.to(device), self.present.to(device), chosen)


@dataclass(frozen=True, eq=False)
class TokenPieces:
    """A text cut into pieces, which come in batches.

    `share`: of tokens to predict, on average
    `n_special`: the codes below it are of special tokens, which are never predicted
    `chosen`: which tokens of every piece to predict; None to draw them anew each time

    >>> pieces = TokenPieces([np.array([2, 7, 3]), np.array([2, 8, 9, 3])], share=0.15, n_special=5)
    >>> pieces.pad(np.array([0, 1])).present.int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """

    pieces: list[Int32[np.ndarray, "_"]] | list[Int64[np.ndarray, "_"]]
    share: float
    n_special: int
    chosen: list[Bool[np.ndarray, "_"]] | None = None

    @property
    def lengths(self) -> Int64[np.ndarray, "pieces"]:
        """Tokens of every piece, special ones included."""
        return np.array([len(piece) for piece in self.pieces], dtype=np.int64)

    def total(self, first: int, last: int) -> float:
        """How many tokens of these pieces are to predict, or are so on average."""
        if self.chosen is not None:
            return float(sum(chosen.sum() for chosen in self.chosen[first:last]))
        ordinary = sum((piece >= self.n_special).sum() for piece in self.pieces[first:last])
        return self.share * float(ordinary)

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        """Every piece once, in random batches of pieces of like length."""
        lengths = self.lengths
        size = batch_size or max(1, (max_tokens or 1) // max(1, int(lengths.max(initial=1))))
        order = generator.permutation(len(lengths))
        stretch = np.arange(len(order)) // (_STRETCH * size)
        order = order[np.lexsort((lengths[order], stretch))]
        batches = np.split(order, np.arange(size, len(order), size))
        for number in generator.permutation(len(batches)):
            yield batches[number]

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        """Every piece once, by length."""
        return sequential_rows(self.lengths, max_tokens=max_tokens)

    def pad(self, index: Int64[np.ndarray, "batch"]) -> PieceBatch:
        """These pieces side by side."""
        tokens, present = padded([self.pieces[row] for row in index])
        chosen = None
        if self.chosen is not None:
            chosen = padded([self.chosen[row] for row in index])[0].bool()
        return PieceBatch(tokens, present, chosen)

    def fingerprint(self) -> dict[str, str]:
        """A digest of the pieces and of the chosen tokens."""
        total = sha256(f"{self.share} {self.n_special}".encode())
        for some in (self.pieces, self.chosen or []):
            for piece in some:
                total.update(len(piece).to_bytes(8, "little"))
                total.update(np.ascontiguousarray(piece).data)
        return {"pieces": total.hexdigest()[:16]}

    def read_at_random(self) -> AbstractContextManager[None]:
        """Pieces are in memory: nothing to prepare."""
        return nullcontext()


# Batches whose pieces are sorted by length together.
_STRETCH = 32


def padded(
    rows: list[np.ndarray],
) -> tuple[Int64[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Rows side by side, filled up with 0, and where they are.

    >>> padded([np.array([5]), np.array([6, 7])])[0].tolist()
    [[5, 0], [6, 7]]
    """
    longest = max((len(row) for row in rows), default=0)
    tokens = np.zeros((len(rows), longest), dtype=np.int64)
    present = np.zeros((len(rows), longest), dtype=bool)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = row
        present[index, : len(row)] = True
    return torch.from_numpy(tokens), torch.from_numpy(present)


def sequential_rows(
    lengths: Int64[np.ndarray, "rows"], *, max_tokens: int
) -> Iterator[Int64[np.ndarray, "batch"]]:
    """All rows by length, in batches of at most `max_tokens` once padded; a longer row alone.

    >>> [batch.tolist() for batch in sequential_rows(np.array([4, 1, 2]), max_tokens=4)]
    [[1, 2], [0]]
    """
    order = np.argsort(lengths, kind="stable")
    first = 0
    for last in range(1, len(order) + 1):
        fits = last < len(order) and (last + 1 - first) * lengths[order[last]] <= max_tokens
        if not fits:
            yield order[first:last]
            first = last


@dataclass(frozen=True)
class MaskedTokens:
    """Minus the sum of log-probabilities of the chosen tokens, each given all others.

    In training, 80 % of them are replaced by the mask, 10 % by a random token, and the rest
    stay; where pieces bring their own, all are masked. `precision`: what products are rounded to in
    training, None for not at all. Source: Devlin et al. (2019), section 3.1.
    """

    share: float
    n_special: int
    precision: torch.dtype | None = None

    def __call__(self, model: nn.Module, batch: PieceBatch) -> tuple[Tensor, Tensor]:
        """Nats, and of how many tokens."""
        assert isinstance(model, MaskedLM)
        chosen = batch.chosen
        if chosen is None:
            chosen, shown = self._drawn(batch.tokens, model)
        else:
            shown = batch.tokens.masked_fill(chosen, model.mask)
        device = batch.tokens.device
        rounded = self.precision is not None and model.training
        with torch.autocast(device.type, dtype=self.precision, enabled=rounded):
            states = model(shown, batch.present).states[-1][chosen]
            eta = model.linear(states)
        eta = eta._replace(state=eta.state.float())
        factors = self.precision if rounded else None
        nats = summed_nats(eta, batch.tokens[chosen], factors=factors)
        return nats, chosen.sum()

    def _drawn(self, tokens: Tensor, model: MaskedLM) -> tuple[Tensor, Tensor]:
        """Which tokens to predict, one at least, and the tokens that the network sees."""
        mask, generator = model.mask, model.dropout.generator
        draw = torch.rand(tokens.shape, generator=generator, device=tokens.device)
        draw = draw.masked_fill(tokens < self.n_special, math.inf)
        if draw.numel() and math.isfinite(least := draw.min().item()) and least >= self.share:
            # A step without anything to learn would end the fit of a text that is all one step.
            chosen = draw == least
            return chosen, tokens.masked_fill(chosen, mask)
        chosen = draw < self.share
        # Given that a token is chosen, its draw is uniform below the share.
        other = torch.empty_like(tokens).random_(
            self.n_special, model.words.n_items, generator=generator
        )
        shown = torch.where(draw < (_MASKED + _REPLACED) * self.share, other, tokens)
        return chosen, shown.masked_fill(draw < _MASKED * self.share, mask)
