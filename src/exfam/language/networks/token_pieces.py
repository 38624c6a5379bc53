"""Pieces of text that a masked language model learns from, and what it minimizes on them."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int32, Int64, Real, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.groups.batch import on_device
from exfam.language.networks.masked_lm import MaskedLM
from exfam.language.networks.summed_nats import summed_nats

# Of the chosen tokens: replaced by the mask, by a random token; the rest stay as they are.
_MASKED, _REPLACED = 0.8, 0.1
# Batches whose pieces are sorted by length together.
_STRETCH = 32
# Of the tokens that scores are of: not a parameter, so that all models predict the same ones.
_SEED = 0
# Tokens computed at a time.
_TOKENS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class PieceBatch:
    """Pieces side by side.

    `present`: tokens, not padding; `chosen`: the tokens to predict, None to draw them
    `target`: the label or number of each piece, where these are predicted
    `padded`: whether there may be padding
    """

    tokens: Int64[Tensor, "batch length"]
    present: Bool[Tensor, "batch length"]
    chosen: Bool[Tensor, "batch length"] | None = None
    target: Shaped[Tensor, "batch"] | None = None
    padded: bool = True

    def to(self, device: torch.device) -> "PieceBatch":
        parts = (self.tokens, self.present, self.chosen, self.target)
        tokens, present, chosen, target = on_device(parts, device)
        return PieceBatch(tokens, present, chosen, target, padded=self.padded)

    @property
    def visible(self) -> Bool[Tensor, "batch length"] | None:
        """`present`, or None without padding: then there is nothing to hide."""
        return self.present if self.padded else None


@dataclass(frozen=True, eq=False)
class TokenPieces:
    """A text cut into pieces, as a source of batches.

    `share`: of tokens to predict, on average
    `n_special`: the codes below it are of special tokens, which are never predicted
    `chosen`: which tokens of every piece to predict; None to draw them anew each time
    `target`: labels' codes or numbers, one per piece, that are predicted instead of tokens
    """

    pieces: list[Int32[np.ndarray, "_"]] | list[Int64[np.ndarray, "_"]]
    share: float
    n_special: int
    chosen: list[Bool[np.ndarray, "_"]] | None = None
    target: Real[np.ndarray, "pieces"] | None = None

    @property
    def lengths(self) -> Int64[np.ndarray, "pieces"]:
        return np.array([len(piece) for piece in self.pieces], dtype=np.int64)

    def total(self, first: int, last: int) -> float:
        """How many targets, or tokens to predict, on average where they are drawn."""
        if self.target is not None:
            return float(last - first)
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
        """Every piece once, by length, in batches of `max_tokens` once padded, or a longer one."""
        stop = np.cumsum(self.lengths)
        groups = Groups(start=stop - self.lengths, stop=stop)
        return sequential_batches(groups, max_tokens=max_tokens)

    def pad(self, index: Int64[np.ndarray, "batch"]) -> PieceBatch:
        chosen = target = None
        if self.chosen is not None:
            chosen = _padded([self.chosen[row] for row in index]).bool()
        if self.target is not None:
            target = torch.from_numpy(self.target[index])
        tokens = _padded([self.pieces[row] for row in index])
        lengths = np.array([len(self.pieces[row]) for row in index], dtype=np.int64)
        present = torch.arange(tokens.shape[1]) < torch.from_numpy(lengths)[:, None]
        return PieceBatch(tokens, present, chosen, target, padded=bool(np.ptp(lengths)))

    def fingerprint(self) -> dict[str, str]:
        total = sha256(f"{self.share} {self.n_special}".encode())
        for some in (self.pieces, self.chosen or []):
            for piece in some:
                total.update(len(piece).to_bytes(8, "little"))
                total.update(np.ascontiguousarray(piece).data)
        digests = {"pieces": total.hexdigest()[:16]}
        if self.target is not None:
            digests["targets"] = ",".join(map(str, self.target.tolist()))
        return digests

    def read_at_random(self) -> AbstractContextManager[None]:
        return nullcontext()


def _padded(rows: list[np.ndarray]) -> Int64[Tensor, "batch length"]:
    return pad_sequence([torch.from_numpy(row.astype(np.int64)) for row in rows], batch_first=True)


def masked_choices(
    pieces: list[np.ndarray], *, share: float, n_special: int
) -> list[Bool[np.ndarray, "_"]]:
    """Of every piece, the tokens that are masked when it is scored: a share of the ordinary ones.

    At least one, if it has any. They depend on a piece's index, length and special tokens alone.
    """
    choices = []
    for index, piece in enumerate(pieces):
        ordinary = piece >= n_special
        draw = np.random.default_rng([_SEED, index]).random(len(piece))
        draw[~ordinary] = np.inf
        choices.append(ordinary & (draw <= max(share, draw.min(initial=np.inf))))
    return choices


def sentence_log_probs(
    model: MaskedLM, piece: Int32[np.ndarray, "tokens"], *, n_special: int
) -> Float64[np.ndarray, "_"]:
    """Log-probability in nats of each token of a piece but special ones, given all others."""
    device, tokens = model.bias.device, torch.tensor(piece, dtype=torch.long)
    positions = torch.nonzero(tokens >= n_special)[:, 0]
    log_prob = np.empty(len(positions))
    size = max(1, _TOKENS_AT_ONCE // len(tokens))
    for first in range(0, len(positions), size):
        some = positions[first : first + size]
        rows = torch.arange(len(some))
        shown = tokens.repeat(len(some), 1)
        shown[rows, some] = model.mask
        with torch.inference_mode():
            encoded = model(shown.to(device), torch.ones_like(shown, dtype=torch.bool).to(device))
            states = encoded.states[-1][rows, some]
            own = log_prob_of(ItemChoice(model.linear(states)), tokens[some].to(device))
        log_prob[first : first + size] = own.double().cpu().numpy()
    return log_prob


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
        assert isinstance(model, MaskedLM)
        chosen = batch.chosen
        if chosen is None:
            chosen, shown = self._drawn(batch.tokens, model)
        else:
            shown = batch.tokens.masked_fill(chosen, model.mask)
        device = batch.tokens.device
        rounded = self.precision is not None and model.training
        with torch.autocast(device.type, dtype=self.precision, enabled=rounded):
            where = chosen.nonzero(as_tuple=True)
            states = model(shown, batch.visible).states[-1][where]
            eta = model.linear(states)
        eta = eta._replace(state=eta.state.float())
        factors = self.precision if rounded else None
        return summed_nats(eta, batch.tokens[where], factors=factors), chosen.sum()

    def _drawn(self, tokens: Tensor, model: MaskedLM) -> tuple[Tensor, Tensor]:
        """Which tokens to predict, one at least, and the tokens that the network sees."""
        mask, generator = model.mask, model.dropout.generator
        draw = torch.rand(tokens.shape, generator=generator, device=tokens.device)
        draw = draw.masked_fill(tokens < self.n_special, math.inf)
        chosen = draw < self.share
        # A step without anything to learn would end the fit of a text that is all one step.
        least = draw.min() if draw.numel() else draw.new_tensor(math.inf)
        alone = (draw == least) & (least >= self.share) & least.isfinite()
        # Given that a token is chosen, its draw is uniform below the share.
        other = torch.empty_like(tokens).random_(
            self.n_special, model.words.n_items, generator=generator
        )
        shown = torch.where(draw < (_MASKED + _REPLACED) * self.share, other, tokens)
        return chosen | alone, shown.masked_fill((draw < _MASKED * self.share) | alone, mask)
