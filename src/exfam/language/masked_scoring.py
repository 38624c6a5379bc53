"""Which tokens of a text are asked for when it is scored, and each token given all others."""

import numpy as np
import torch
from jaxtyping import Bool, Float64

from exfam.catalog import ItemChoice, log_prob_of
from exfam.language.networks.masked_lm import MaskedLM

__all__ = ["masked_choices", "sentence_log_probs"]

# Of the tokens that are asked for: not a parameter, so that all models are asked for the same.
_SEED = 0
# Tokens computed at a time.
_TOKENS_AT_ONCE = 4096


def masked_choices(
    pieces: list[np.ndarray], *, share: float, n_special: int
) -> list[Bool[np.ndarray, "_"]]:
    """Of every piece, the tokens that are asked for: a share of the ordinary ones, by chance.

    At least one, if it has any. They depend on a piece's place, length and special tokens alone.

    >>> [each.tolist() for each in masked_choices([np.array([2, 9, 3])], share=1.0, n_special=5)]
    [[False, True, False]]
    """
    return [
        _choice(piece >= n_special, np.random.default_rng([_SEED, place]), share)
        for place, piece in enumerate(pieces)
    ]


def _choice(
    ordinary: Bool[np.ndarray, "tokens"], generator: np.random.Generator, share: float
) -> Bool[np.ndarray, "tokens"]:
    draw = np.where(ordinary, generator.random(len(ordinary)), np.inf)
    return ordinary & (draw <= max(share, draw.min(initial=np.inf)))


def sentence_log_probs(
    model: MaskedLM, pieces: list[np.ndarray], *, n_special: int
) -> list[Float64[np.ndarray, "_"]]:
    """Log-probability in nats of each token of a piece, given all others; special ones have none.

    >>> from exfam.language.networks.masked_lm import MaskedLMSizes, build_masked_lm
    >>> sizes = MaskedLMSizes(n_tokens=9, n_positions=5, mask=4, embed_dim=8, n_heads=2)
    >>> model = build_masked_lm(sizes, generator=torch.Generator().manual_seed(0)).eval()
    >>> [len(each) for each in sentence_log_probs(model, [np.array([2, 7, 8, 3])], n_special=5)]
    [2]
    """
    return [_log_probs(model, torch.tensor(piece, dtype=torch.long), n_special) for piece in pieces]


def _log_probs(model: MaskedLM, piece: torch.Tensor, n_special: int) -> Float64[np.ndarray, "_"]:
    device = model.bias.device
    places = torch.nonzero(piece >= n_special)[:, 0]
    told = np.empty(len(places))
    size = max(1, _TOKENS_AT_ONCE // len(piece))
    for first in range(0, len(places), size):
        some = places[first : first + size]
        rows = torch.arange(len(some))
        shown = piece.repeat(len(some), 1)
        shown[rows, some] = model.mask
        with torch.inference_mode():
            states = model(shown.to(device), torch.ones_like(shown, dtype=torch.bool).to(device))
            asked = states.states[-1][rows, some]
            log_probs = log_prob_of(ItemChoice(model.linear(asked)), piece[some].to(device))
        told[first : first + size] = log_probs.double().cpu().numpy()
    return told
