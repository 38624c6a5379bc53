"""An LSTM language model of parts, and texts in pieces that are read side by side.

Source: the word_language_model example of PyTorch.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta, item_products
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.checks import check_choice
from exfam.embeddings import ItemEmbedding, Reflected, reflection_signs, rows_of
from exfam.language.networks.summed_nats import summed_nats
from exfam.layers import Dropout
from exfam.training.batching import digest

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
        self, words: ItemEmbedding, lstm: nn.LSTM, output: ItemEmbedding | Reflected, p: float
    ) -> None:
        super().__init__()
        self.words, self.lstm, self.output, self.dropout = words, lstm, output, Dropout(p)
        self.bias = nn.Parameter(words.table.weight.new_zeros(words.n_items))
        # Not submodules: their parameters are those of `lstm`.
        self._layers: list[nn.LSTM] = []

    def initial_state(self, n_texts: int) -> LSTMState:
        """The state before the first token: zeros."""
        shape = (self.lstm.num_layers, n_texts, self.lstm.hidden_size)
        return self.bias.new_zeros(shape), self.bias.new_zeros(shape)

    def forward(
        self, tokens: Tokens, state: LSTMState
    ) -> tuple[Float[Tensor, "length batch dim"], LSTMState]:
        """The top layer's states after each token, and the state to go on from."""
        vectors = self.dropout(rows_of(self.words.table.weight, tokens))
        drops = self.training and self.dropout.p > 0
        if self.lstm.num_layers > 1 and (drops or self._layers):
            states, after = self._layer_by_layer(vectors, state)
        else:
            states, after = self.lstm(vectors, state)
        return self.dropout(states), after

    def _layer_by_layer(
        self, states: Float[Tensor, "length batch dim"], state: LSTMState
    ) -> tuple[Float[Tensor, "length batch dim"], LSTMState]:
        """What `nn.LSTM` computes, whose own dropout takes no generator."""
        self._layers = self._layers or [one_layer(self.lstm, n) for n in range(len(state[0]))]
        after = []
        for number, (layer, *own) in enumerate(zip(self._layers, *state, strict=True)):
            given = self.dropout(states) if number else states
            before = own[0][None], own[1][None]
            states, last = layer(given, before)
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


def one_layer(lstm: nn.LSTM, number: int) -> nn.LSTM:
    """One layer of an LSTM, with the same parameters, which lie side by side on a GPU."""
    layer = nn.LSTM(
        lstm.hidden_size if number else lstm.input_size, lstm.hidden_size, device="meta"
    )
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(layer, f"{name}_l0", lstm.get_parameter(f"{name}_l{number}"))
    layer.flatten_parameters()
    return layer


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
        flipped
    """
    check_choice("tie", tie, LSTM_TIES)
    own = []
    for _ in range(1 if tie else 2):
        items = ItemEmbedding(n_words, dim, generator=generator)
        with torch.no_grad():
            items.vectors().uniform_(-0.1, 0.1, generator=generator)
        own.append(items)
    output: ItemEmbedding | Reflected = own[-1]
    if tie == "reflection":
        output = Reflected(own[0], reflection_signs(dim))
    # By way of "meta" torch draws no weights of its own, from its global generator.
    lstm = nn.LSTM(dim, dim, n_layers, device="meta").to_empty(device="cpu")
    bound = 1.0 / math.sqrt(dim)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return LSTMNetwork(own[0], lstm, output, dropout)


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
    model: LSTMNetwork, prompt: Int64[np.ndarray, "prompt"], shape: tuple[int, int], *, seed: int
) -> Int64[np.ndarray, "texts tokens"]:
    """Texts that go on after the prompt, which must have a token."""
    device = model.bias.device
    generator = torch.Generator(device).manual_seed(seed)
    drawn = np.empty(shape, dtype=np.int64)
    with torch.inference_mode():
        tokens = torch.tensor(prompt, device=device)[:, None].repeat(1, len(drawn))
        state = model.initial_state(len(drawn))
        for index in range(shape[1]):
            states, state = model(tokens, state)
            chances = model.linear(states[-1:]).dense().softmax(-1)
            tokens = torch.multinomial(chances, 1, generator=generator).T
            drawn[:, index] = tokens[0].cpu().numpy()
    return drawn


@dataclass(frozen=True, eq=False)
class Streams:
    """Columns of tokens, each with the tokens before its own as inputs; a source of batches.

    Batches are rows, some moments of all columns, always in the order of the text.
    `targets` is -1 where the last column has ended.
    `opening`: whether these rows are the first ones, before which nothing was read
    """

    inputs: Int64[Tensor, "length columns"]
    targets: Int64[Tensor, "length columns"]
    opening: bool = True

    @property
    def lengths(self) -> Int64[np.ndarray, "length"]:
        return np.full(len(self.inputs), self.inputs.shape[1], dtype=np.int64)

    def total(self, first: int, last: int) -> float:
        return float((self.targets[first:last] >= 0).sum())

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[Int64[np.ndarray, "batch"]]:
        assert max_tokens is not None and batch_size is None
        return self.sequential_batches(max_tokens=max_tokens)

    def sequential_batches(self, *, max_tokens: int) -> Iterator[Int64[np.ndarray, "batch"]]:
        n_rows, n_columns = self.inputs.shape
        size = max(1, max_tokens // n_columns)
        for first in range(0, n_rows, size):
            yield np.arange(first, min(first + size, n_rows))

    def pad(self, index: Int64[np.ndarray, "batch"]) -> "Streams":
        rows = slice(int(index[0]), int(index[-1]) + 1)
        return Streams(self.inputs[rows], self.targets[rows], opening=rows.start == 0)

    def to(self, device: torch.device) -> "Streams":
        return Streams(self.inputs.to(device), self.targets.to(device), self.opening)

    def fingerprint(self) -> dict[str, str]:
        return {"text": digest([self.inputs.numpy(), self.targets.numpy()])}

    def read_at_random(self) -> AbstractContextManager[None]:
        return nullcontext()


def cut(tokens: Int64[np.ndarray, "tokens"], n_columns: int, *, start: int, whole: bool) -> Streams:
    """`n_columns` pieces of equal length; the text begins after the token `start`.

    `whole`: whether the last piece is filled up with -1, so that no token is left out
    """
    length = -(-len(tokens) // n_columns) if whole else len(tokens) // n_columns
    size = length * n_columns
    inputs = np.full(size, start, dtype=np.int64)
    inputs[1 : len(tokens)] = tokens[: min(size, len(tokens)) - 1]
    targets = np.full(size, -1, dtype=np.int64)
    targets[: len(tokens)] = tokens[:size]
    columns = [torch.tensor(row.reshape(n_columns, -1).T) for row in (inputs, targets)]
    return Streams(columns[0], columns[1])


class CarriedNats:
    """Minus the log-probabilities of rows' tokens; the state after them is that before the next.

    Gradients flow back through the rows of a step alone.
    `factors`: what those of the outputs' products are rounded to in training; None for not at all
    """

    def __init__(self, factors: torch.dtype | None = None) -> None:
        self.precision = factors
        self._state: LSTMState | None = None

    def __call__(self, model: nn.Module, rows: Streams) -> tuple[Tensor, Tensor]:
        """Nats, and of how many tokens."""
        assert isinstance(model, LSTMNetwork)
        state = self._state
        if rows.opening or state is None:
            state = model.initial_state(rows.inputs.shape[1])
        present = rows.targets >= 0
        if model.training:
            states, after = model(rows.inputs, state)
            nats = summed_nats(model.linear(states), rows.targets.flatten(), factors=self.precision)
        else:
            log_prob, after = model.log_prob(rows.inputs, rows.targets.clamp_min(0), state)
            nats = -log_prob[present].double().sum()
        self._state = after[0].detach(), after[1].detach()
        return nats, present.sum()

    def carried(self) -> dict[str, Tensor]:
        return dict(zip(("hidden", "cell"), self._state or (), strict=bool(self._state)))

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        self._state = (tensors["hidden"], tensors["cell"]) if tensors else None
