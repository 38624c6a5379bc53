"""Rows as sentences of tokens, and the network's own computation on them, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.experts.bundle import AttentionLayer, LinearAttention


@dataclass(frozen=True, eq=False)
class Sentences:
    """Rows of tokens, one a position.

    `code` + `first` of the position is the row of the network's `tokens` (`first` is zero where all
    positions share them); -1 is an absent cell, which nothing attends to. With `fraction` f in
    [0, 1) a cell stands between two tokens: (1 - f) c_code + f c_(code + 1). A MASK token stands
    where `masked` is true, whatever the code. Raises ExfamError for shapes that do not fit, a code
    below -1 or a fraction outside [0, 1).
    """

    code: Int64[Tensor, "rows positions"]
    fraction: Float[Tensor, "rows positions"] | None = None
    first: Int64[Tensor, "positions"] | None = None
    masked: Bool[Tensor, "rows positions"] | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.code.shape)
        fits = {"fraction": shape, "first": shape[1:], "masked": shape}
        for name, expected in fits.items():
            part = getattr(self, name)
            if part is not None and tuple(part.shape) != expected:
                raise ExfamError(
                    f"`{name}` must have shape {expected}, as `code` says, got {tuple(part.shape)}."
                )
        if bool((self.code < -1).any()):
            raise ExfamError(f"`code` must be -1 or more, got {int(self.code.min())}.")
        if self.fraction is not None:
            wrong = self.fraction[~((self.fraction >= 0) & (self.fraction < 1))]
            if wrong.numel():
                raise ExfamError(f"`fraction` must be in [0, 1), got {float(wrong[0]):g}.")

    @property
    def shown(self) -> Bool[Tensor, "rows positions"]:
        """Where anything stands: a token or MASK."""
        present = self.code >= 0
        return present if self.masked is None else present | self.masked

    @property
    def is_mask(self) -> Bool[Tensor, "rows positions"]:
        """Where MASK stands."""
        return torch.zeros_like(self.code, dtype=torch.bool) if self.masked is None else self.masked

    @property
    def token(self) -> Int64[Tensor, "rows positions"]:
        """Row of the network's `tokens`; 0 where no token stands."""
        first = 0 if self.first is None else self.first
        return torch.where((self.code >= 0) & ~self.is_mask, self.code + first, 0)

    @property
    def share_of_next(self) -> Float[Tensor, "rows positions"]:
        """How much of the next token each cell takes; 0 where no token stands."""
        if self.fraction is None:
            return torch.zeros(self.code.shape)
        return torch.where((self.code >= 0) & ~self.is_mask, self.fraction, 0.0)


def check_sentences(network: LinearAttention, sentences: Sentences, targets: Sequence[int]) -> None:
    """Raise ExfamError where sentences or targets are not the network's."""
    n_tokens, n_positions = network.tokens.shape[0], network.n_positions
    if sentences.code.shape[1] != n_positions:
        raise ExfamError(
            f"`sentences` must have {n_positions} positions as the network, got "
            f"{sentences.code.shape[1]}."
        )
    last = sentences.token + (sentences.share_of_next > 0)
    if last.numel() and int(last.max()) >= n_tokens:
        raise ExfamError(
            f"`code` must name one of the network's {n_tokens} tokens, got token "
            f"{int(last.max())}. Give `first` where each position has its own tokens."
        )
    wrong = [m for m in targets if not 0 <= m < n_positions]
    if wrong:
        raise ExfamError(f"`targets` must be in 0 .. {n_positions - 1}, got {wrong[0]}.")


def forward(
    network: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> Float[Tensor, "rows targets params"]:
    """Logits of each target, computed as the network is written: one masked copy for each target.

    X = Xbar C + P with MASK at the target; for each layer softmax(X W_Q^T W_K X^T scale) X W_V^T,
    W_O, residual, W' with residual; W'' at the target. Slow: the witness of the expert view.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 2.1.
    """
    check_sentences(network, sentences, targets)
    # Xbar: rows, positions, tokens + 1, the last being MASK.
    n_tokens = network.tokens.shape[0]
    eye = torch.eye(n_tokens + 1, dtype=network.tokens.dtype)
    f = sentences.share_of_next.to(eye.dtype)[..., None]
    following = (sentences.token + 1).clamp(max=n_tokens)
    one_hot = (1 - f) * eye[sentences.token] + f * eye[following]
    one_hot = torch.where(sentences.is_mask[..., None], eye[-1], one_hot)
    logits = [_masked_copy(network, one_hot, sentences.shown, m) for m in targets]
    return torch.stack(logits, dim=1)


def _masked_copy(network: LinearAttention, one_hot: Tensor, shown: Tensor, m: int) -> Tensor:
    one_hot, shown = one_hot.clone(), shown.clone()
    one_hot[:, m] = 0.0
    one_hot[:, m, -1] = 1.0
    shown[:, m] = True
    x = one_hot @ torch.cat([network.tokens, network.mask[None]]) + network.positions
    for layer in network.layers:
        x = _layer(layer, x, shown)
    return x[:, m] @ network.readout[m].T + network.readout_bias[m]


def _layer(layer: AttentionLayer, x: Tensor, shown: Tensor) -> Tensor:
    z = layer.out_bias.expand_as(x)
    for h in range(layer.n_heads):
        query = x @ layer.query[h].T + layer.query_bias[h]
        key = x @ layer.key[h].T
        value = x @ layer.value[h].T + layer.value_bias[h]
        scores = layer.scale * query @ key.mT
        weights = scores.masked_fill(~shown[:, None], -torch.inf).softmax(-1)
        z = z + weights @ value @ layer.out[h].T
    z = x + z
    return z + z @ layer.hidden.T + layer.hidden_bias
