"""A language model of parts: word vectors, an LSTM, and what its states are multiplied with.

How outputs are tied to inputs is a part: an `ItemEmbedding` of their own (free), that of the inputs
(tied), or a `Reflected` of it (tied by an involution).
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta, item_products
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.checks import check_choice
from exfam.embeddings import ItemEmbedding, Reflected, reflection_signs, rows_of
from exfam.language.networks.summed_nats import summed_nats
from exfam.randomness import Dropout

# Hidden and cell states of all layers.
LSTMState = tuple[Float[Tensor, "layers batch dim"], Float[Tensor, "layers batch dim"]]
Tokens = Int64[Tensor, "length batch"]

# Tokens read at a time.
_CHUNK = 512
LSTM_TIES = (None, "tied", "reflection")


class LSTMNetwork(nn.Module):
    """p(token | all tokens before it) = softmax(output vectors . state + bias).

    Time comes first in all tensors, columns are texts side by side.
    Source: Zaremba, Sutskever & Vinyals (2014); tied outputs: Press & Wolf (2017).
    """

    def __init__(
        self,
        words: ItemEmbedding,
        lstm: nn.LSTM,
        *,
        output: ItemEmbedding | Reflected,
        dropout: Dropout,
    ) -> None:
        super().__init__()
        self.words, self.lstm, self.output, self.dropout = words, lstm, output, dropout
        self.bias = nn.Parameter(words.table.weight.new_zeros(words.n_items))

    def initial_state(self, n_texts: int) -> LSTMState:
        """The state before the first token: zeros."""
        shape = (self.lstm.num_layers, n_texts, self.lstm.hidden_size)
        zeros = self.bias.new_zeros(shape)
        return zeros, zeros.clone()

    def forward(
        self, tokens: Tokens, state: LSTMState
    ) -> tuple[Float[Tensor, "length batch dim"], LSTMState]:
        """The top layer's states after each token, and the state to go on from."""
        vectors = self.dropout(rows_of(self.words.table.weight, tokens))
        if not self.training or not self.dropout.p or self.lstm.num_layers == 1:
            states, after = self.lstm(vectors, state)
        else:
            states, after = self._layer_by_layer(vectors, state)
        return self.dropout(states), after

    def _layer_by_layer(
        self, states: Float[Tensor, "length batch dim"], state: LSTMState
    ) -> tuple[Float[Tensor, "length batch dim"], LSTMState]:
        """What `nn.LSTM` computes, whose own dropout takes no generator."""
        after = []
        for number, (weights, *own) in enumerate(zip(self.lstm.all_weights, *state, strict=True)):
            given = self.dropout(states) if number else states
            # One layer with biases, in training and one direction, time first.
            options = (True, 1, 0.0, True, False, False)
            before = [part[None] for part in own]
            states, *last = torch.lstm(given, before, list[Tensor](weights), *options)
            after.append(last)
        hidden, cell = (torch.cat(parts) for parts in zip(*after, strict=True))
        return states, (hidden, cell)

    def linear(self, states: Float[Tensor, "length batch dim"]) -> LinearEta:
        """The outputs of all states, one row each, as factors."""
        return item_products(states.flatten(0, 1), self.output, self.bias)

    def log_prob(
        self, tokens: Tokens, targets: Tokens, state: LSTMState
    ) -> tuple[Float[Tensor, "length batch"], LSTMState]:
        """Log-probability in nats of each target given the tokens up to its own."""
        states, after = self(tokens, state)
        nats = log_prob_of(ItemChoice(self.linear(states)), targets.flatten())
        return nats.view(targets.shape), after

    def nats(
        self, tokens: Tokens, targets: Tokens, state: LSTMState, factors: torch.dtype | None = None
    ) -> tuple[Float[Tensor, ""], LSTMState]:
        """Minus the sum of `log_prob`, in less time where gradients are wanted.

        `factors`: what those of the outputs' products are rounded to; None for not at all
        """
        states, after = self(tokens, state)
        return summed_nats(self.linear(states), targets.flatten(), factors=factors), after


def build_lstm_lm(
    *,
    n_words: int,
    dim: int,
    generator: torch.Generator,
    n_layers: int = 2,
    tie: str | None = None,
    dropout: float = 0.2,
) -> LSTMNetwork:
    """A network with vectors of words uniform in +-0.1, LSTM weights in +-1/sqrt(dim), no bias.

    `tie`: None, "tied", or "reflection": outputs are the inputs with half of the coordinates' signs
        flipped. Source: the word_language_model example of PyTorch.
    """
    check_choice("tie", tie, LSTM_TIES)
    words = _vectors(n_words, dim, generator=generator)
    outputs: dict[str | None, ItemEmbedding | Reflected] = {
        "tied": words,
        "reflection": Reflected(words, reflection_signs(dim)),
    }
    output = outputs.get(tie) or _vectors(n_words, dim, generator=generator)
    lstm = _lstm(dim, n_layers, generator=generator)
    return LSTMNetwork(words, lstm, output=output, dropout=Dropout(dropout))


def _vectors(n_words: int, dim: int, *, generator: torch.Generator) -> ItemEmbedding:
    words = ItemEmbedding(n_words, dim, generator=generator)
    with torch.no_grad():
        words.vectors().uniform_(-0.1, 0.1, generator=generator)
    return words


def _lstm(dim: int, n_layers: int, *, generator: torch.Generator) -> nn.LSTM:
    # By way of "meta" torch draws no weights of its own, from its global generator.
    lstm = nn.LSTM(dim, dim, n_layers, device="meta").to_empty(device="cpu")
    bound = 1.0 / math.sqrt(dim)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return lstm


def token_log_probs(
    model: LSTMNetwork, tokens: Int64[np.ndarray, "tokens"], *, start: int
) -> Float64[np.ndarray, "tokens"]:
    """Log-probability in nats of each token given all before it, the first after `start`."""
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
    """Texts that go on after the prompt, which must have a token."""
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
