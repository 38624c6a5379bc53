"""Which tokens of a text are masked when it is scored, and each token given all others."""

import numpy as np
import torch
from jaxtyping import Bool, Float64

from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.language.networks.masked_lm import MaskedLM

# Of the choice of tokens: not a parameter, so that all models predict the same ones.
_SEED = 0
# Tokens computed at a time.
_TOKENS_AT_ONCE = 4096


def masked_choices(
    pieces: list[np.ndarray], *, share: float, n_special: int
) -> list[Bool[np.ndarray, "_"]]:
    """Of every piece, the tokens that are masked: a random share of the ordinary ones.

    At least one, if it has any. They depend on a piece's index, length and special tokens alone.

    >>> masked_choices([np.array([2, 9, 3])], share=1.0, n_special=5)[0].tolist()
    [False, True, False]
    """
    return [
        _choice(piece >= n_special, np.random.default_rng([_SEED, index]), share)
        for index, piece in enumerate(pieces)
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
    >>> [len(nats) for nats in sentence_log_probs(model, [np.array([2, 7, 8, 3])], n_special=5)]
    [2]
    """
    return [_log_probs(model, torch.tensor(piece, dtype=torch.long), n_special) for piece in pieces]


def _log_probs(model: MaskedLM, piece: torch.Tensor, n_special: int) -> Float64[np.ndarray, "_"]:
    device = model.bias.device
    positions = torch.nonzero(piece >= n_special)[:, 0]
    log_prob = np.empty(len(positions))
    size = max(1, _TOKENS_AT_ONCE // len(piece))
    for first in range(0, len(positions), size):
        some = positions[first : first + size]
        rows = torch.arange(len(some))
        shown = piece.repeat(len(some), 1)
        shown[rows, some] = model.mask
        with torch.inference_mode():
            encoded = model(shown.to(device), torch.ones_like(shown, dtype=torch.bool).to(device))
            states = encoded.states[-1][rows, some]
            own = log_prob_of(ItemChoice(model.linear(states)), piece[some].to(device))
        log_prob[first : first + size] = own.double().cpu().numpy()
    return log_prob
