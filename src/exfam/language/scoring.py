"""Log-probabilities of texts, and texts drawn from a model, token by token."""

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.language.networks.lstm_network import LSTMNetwork

# Tokens read at a time.
_CHUNK = 512


def token_log_probs(
    model: LSTMNetwork, tokens: Int64[np.ndarray, "tokens"], *, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probability in nats of each token given all before it, the first after `start`.

    >>> from exfam.language.networks.lstm_network import build_lstm_lm
    >>> model = build_lstm_lm(n_words=3, dim=2, generator=torch.Generator().manual_seed(0)).eval()
    >>> token_log_probs(model, np.array([1, 2]), start=0).shape
    (2,)
    """
    device = model.bias.device
    targets = torch.tensor(tokens, device=device)[:, None]
    inputs = torch.cat([targets.new_tensor([[start]]), targets[:-1]])[: len(targets)]
    log_prob = np.empty(len(tokens))
    with torch.inference_mode():
        state = model.initial_state(1)
        for first in range(0, len(tokens), _CHUNK):
            rows = slice(first, first + _CHUNK)
            own, state = model.log_prob(inputs[rows], targets[rows], state)
            log_prob[rows] = own[:, 0].double().cpu().numpy()
    return log_prob


def draw_tokens(
    model: LSTMNetwork,
    prompt: Int64[np.ndarray, "prompt"],
    *,
    n_texts: int,
    n_tokens: int,
    seed: int,
) -> Int64[np.ndarray, "texts tokens"]:
    """Texts that go on after the prompt, which must have a token.

    >>> from exfam.language.networks.lstm_network import build_lstm_lm
    >>> model = build_lstm_lm(n_words=3, dim=2, generator=torch.Generator().manual_seed(0)).eval()
    >>> draw_tokens(model, np.array([0]), n_texts=2, n_tokens=4, seed=0).shape
    (2, 4)
    """
    device = model.bias.device
    generator = torch.Generator(device).manual_seed(seed)
    drawn = np.empty((n_texts, n_tokens), dtype=np.int64)
    with torch.inference_mode():
        tokens = torch.tensor(prompt, device=device)[:, None].repeat(1, n_texts)
        state = model.initial_state(n_texts)
        for index in range(n_tokens):
            states, state = model(tokens, state)
            chances = model.linear(states[-1:]).dense().softmax(-1)
            tokens = torch.multinomial(chances, 1, generator=generator).T
            drawn[:, index] = tokens[0].cpu().numpy()
    return drawn
