"""Tying an LSTM's outputs by a reflection is plain tying, written in other coordinates.

The top layer's state is h = o * tanh(c), c = f * c + i * g, and tanh is odd: with the signs of the
rows of g flipped, c and h flip, and with the columns that read h flipped, no gate notices. Initial
weights are symmetric about 0, and steps of gradient descent commute with flips of signs: the two
are equal in distribution before, during and after training.
"""

import copy

import torch

from exfam.checks import ExfamError
from exfam.embeddings import Reflected
from exfam.language.networks.lstm_network import LSTMNetwork


def plain_from_reflected(network: LSTMNetwork) -> LSTMNetwork:
    """The plainly tied network of the same probabilities as one tied by a reflection.

    Shares nothing with `network`. Raises ExfamError if its outputs are not reflected inputs.
    """
    if not isinstance(network.output, Reflected) or network.output.items is not network.words:
        raise ExfamError(
            "`network` must have outputs that are its inputs, reflected, got "
            f"{type(network.output).__name__}. Build it with tie='reflection'."
        )
    other, signs = copy.deepcopy(network), network.output.signs
    other.output = other.words
    lstm, top = other.lstm, other.lstm.num_layers - 1
    # Of the four blocks of rows, those of the gates i, f, g, o, that of g.
    candidate = slice(2 * lstm.hidden_size, 3 * lstm.hidden_size)
    with torch.no_grad():
        lstm.get_parameter(f"weight_hh_l{top}").mul_(signs)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            rows = lstm.get_parameter(f"{name}_l{top}")[candidate]
            rows.mul_(signs if rows.ndim == 1 else signs[:, None])
    return other
