"""Tying an LSTM's outputs by a reflection is plain tying, written in other coordinates.

The top layer's state is h = o * tanh(c), c = f * c + i * g, and tanh is odd: with the signs of the
rows of g flipped, c and h flip, and with the columns that read h flipped, no gate notices. So every
network with reflected outputs is a plainly tied one with other weights, and the reverse. Initial
weights are symmetric about 0, and steps of gradient descent commute with flips of signs (dropout
and the norm of the gradient do not see them): the two are equal in law before, during and after
training. What differs between fits of the two is the seed.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.embeddings import Reflected
from exfam.language.networks.lstm_network import LSTMNetwork, LSTMState

# Of the four blocks of rows, those of the gates i, f, g, o.
_G = 2


def plain_from_reflected(network: LSTMNetwork) -> LSTMNetwork:
    """The plainly tied network of the same probabilities as one tied by a reflection.

    Its states, but for `flipped_state`, are the same. Shares nothing with `network`.
    Raises ExfamError if the outputs of `network` are not reflected inputs.

    >>> from exfam.language.networks.lstm_network import build_lstm_lm
    >>> reflected = build_lstm_lm(
    ...     n_words=5, dim=4, tie="reflection", generator=torch.Generator().manual_seed(0)
    ... ).eval()
    >>> plain = plain_from_reflected(reflected)
    >>> tokens, state = torch.tensor([[0], [3], [1]]), reflected.initial_state(1)
    >>> nats, same = (net.log_prob(tokens, tokens, state)[0] for net in (reflected, plain))
    >>> bool((nats - same).abs().max() < 1e-6)
    True
    """
    if not isinstance(network.output, Reflected) or network.output.items is not network.words:
        raise ExfamError(
            "`network` must have outputs that are its inputs, reflected, got "
            f"{type(network.output).__name__}. Build it with tie='reflection'."
        )
    other = copy.deepcopy(network)
    other.output = other.words
    _flip_top(other.lstm, network.output.signs)
    return other


def reflected_from_plain(network: LSTMNetwork, signs: Float[Tensor, "dim"]) -> LSTMNetwork:
    """The network tied by the reflection `signs` of the same probabilities as a plainly tied one.

    Raises ExfamError if the outputs of `network` are not its inputs.
    """
    if network.output is not network.words:
        raise ExfamError(
            "`network` must have outputs that are its inputs, got "
            f"{type(network.output).__name__}. Build it with tie='tied'."
        )
    other = copy.deepcopy(network)
    other.output = Reflected(other.words, signs.to(network.bias))
    _flip_top(other.lstm, other.output.signs)
    return other


def flipped_state(state: LSTMState, signs: Float[Tensor, "dim"]) -> LSTMState:
    """A state of the one network as the other has it: the top layer's signs flip.

    >>> state = torch.ones(2, 1, 3), torch.ones(2, 1, 3)
    >>> flipped_state(state, torch.tensor([1.0, -1.0, 1.0]))[0][:, 0].tolist()
    [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]
    """
    hidden, cell = (each.clone() for each in state)
    for each in (hidden, cell):
        each[-1] *= signs
    return hidden, cell


def _flip_top(lstm: nn.LSTM, signs: Float[Tensor, "dim"]) -> None:
    dim, top = lstm.hidden_size, lstm.num_layers - 1
    candidate = slice(_G * dim, (_G + 1) * dim)
    with torch.no_grad():
        lstm.get_parameter(f"weight_hh_l{top}").mul_(signs)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            rows = lstm.get_parameter(f"{name}_l{top}")[candidate]
            rows.mul_(signs if rows.ndim == 1 else signs[:, None])
