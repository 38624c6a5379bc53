"""Attention over the past of a stream, which corrects what a base says of the next event.

The network looks at the last events: their items, how long ago they were and the waits before them;
its query has an item and further numbers of the moment. Its outputs are 0 at the start, so that the
correction begins as the base itself: they reshape waits (see `event_bins`) and move the log-odds of
a tie, or the logits of items, or the parameters of a value.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.events.event_bins import N_BINS
from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_streams import EventStreams, observed_values
from exfam.layers import Dropout, linear, table

# Events that are looked at; sizes of the network.
LENGTH = 20
_DIM, _HIDDEN, _HEADS, _DROPOUT = 32, 64, 2, 0.1
N_TOKEN_NUMBERS, N_PROBES = 5, 3
N_QUERY_NUMBERS, N_MARK_NUMBERS = N_PROBES + 8, 8
_AT_ONCE, _STORED = 8192, "attention."


@dataclass(frozen=True, eq=False)
class PastTokens:
    """What the network sees at each event: right after it, or when it comes.

    `token`: of each event its item and numbers; `reading`: of the clock; `shown`, `query`: an item
    and numbers of the moment; `index`: the last events, -1 before the stream's first
    """

    item: Int64[np.ndarray, "events"]
    token: Float[np.ndarray, "events numbers"]
    reading: Float[np.ndarray, "events"]
    shown: Int64[np.ndarray, "events"]
    query: Float[np.ndarray, "events queries"]
    index: Int64[np.ndarray, "events length"]

    def batch(self, rows: Int64[np.ndarray, "n"]) -> "TokenBatch":
        """The inputs of some events."""
        index = self.index[rows]
        there = index >= 0
        index = index.clip(0)
        age = np.where(there, self.reading[rows][:, None] - self.reading[index], 0.0).clip(0.0)
        arrays = (self.item[index], self.token[index], age, self.shown[rows], self.query[rows])
        item, token, ages, last, query = (torch.from_numpy(array) for array in arrays)
        present = torch.from_numpy(there)
        return TokenBatch(item, token.float(), ages.float(), last, query.float(), present)


class TokenBatch(NamedTuple):
    """Past events side by side, and what is known of the moment."""

    item: Int64[Tensor, "n length"]
    token: Float[Tensor, "n length numbers"]
    age: Float[Tensor, "n length"]
    last: Int64[Tensor, "n"]
    query: Float[Tensor, "n queries"]
    present: Bool[Tensor, "n length"]


def last_events(streams: EventStreams) -> Int64[np.ndarray, "events length"]:
    """The last events of its stream up to each event, itself first, -1 for none."""
    number = np.arange(len(streams.time))
    index = number[:, None] - np.arange(LENGTH)
    first = np.repeat(streams.start, streams.stop - streams.start)
    return np.where(index >= first[:, None], index, -1)


def token_numbers(
    streams: EventStreams, units: Float[np.ndarray, "columns 2"]
) -> Float[np.ndarray, "events numbers"]:
    """The wait before each event, whether it ties, whether it is the first, its value, if any.

    `units`: the center and the spread of each column of values
    """
    wait = np.diff(streams.time, prepend=streams.time[:1])
    values = {
        name: np.where(observed_values(streams, name), column.astype(np.float64), np.nan)
        for name, column in streams.groups.values.items()
    }
    return event_numbers(wait, streams.is_first, values, units)


def event_numbers(
    wait: Float[np.ndarray, "n"],
    first: Bool[np.ndarray, "n"],
    values: Mapping[str, Float[np.ndarray, "n"]],
    units: Float[np.ndarray, "columns 2"],
) -> Float[np.ndarray, "n numbers"]:
    """Numbers of events that came so long after the one before."""
    value, has = np.zeros(len(wait)), np.zeros(len(wait))
    for (center, spread), numbers in zip(units, values.values(), strict=True):
        observed = ~np.isnan(numbers)
        value[observed] = (numbers[observed] - center) / spread
        has[observed] = 1.0
    log_wait = np.where(first, 0.0, np.log(np.where(wait > 0, wait, 1.0)))
    columns = (log_wait, (wait == 0) & ~first, first, 0.3 * value.clip(-8, 8), has)
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def value_units(streams: EventStreams) -> Float[np.ndarray, "columns 2"]:
    """The mean and the standard deviation of each column of values."""
    units = np.zeros((len(streams.groups.values), 2))
    for number, (name, column) in enumerate(streams.groups.values.items()):
        own = column.astype(np.float64)[observed_values(streams, name)]
        spread = float(own.std()) if len(own) else 0.0
        units[number] = (float(own.mean()) if len(own) else 0.0, max(spread, 1e-12))
    return units


class AttentionSizes(NamedTuple):
    """Of what is looked at and of what is put out; unless given, those of waits."""

    n_items: int
    n_values: int
    n_queries: int = N_QUERY_NUMBERS
    n_outputs: int = N_BINS + 1


class PastAttention(nn.Module):
    """Outputs from the past, all 0 at the start.

    `scales`: the mean and spread of logs of waits, by which waits and ages are standardized;
    `probes`: waits that the base is asked about; `units`: of columns of values
    """

    scales: Tensor
    probes: Tensor
    units: Tensor

    def __init__(self, sizes: AttentionSizes, *, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes = sizes
        n_items = sizes.n_items
        self.items = table(n_items + 1, _DIM, scale=0.3, generator=generator)
        self.numbers = linear(N_TOKEN_NUMBERS + 2, _DIM, generator=generator)
        self.last = table(n_items + 1, _DIM, scale=0.3, generator=generator)
        self.query = linear(sizes.n_queries, _DIM, generator=generator)
        self.to_query = linear(_DIM, _DIM, generator=generator, bias=False)
        self.to_key = linear(_DIM, _DIM, generator=generator, bias=False)
        self.to_value = linear(_DIM, _DIM, generator=generator, bias=False)
        self.hidden = linear(2 * _DIM, _HIDDEN, generator=generator)
        self.dropout = Dropout(_DROPOUT)
        self.out = linear(_HIDDEN, sizes.n_outputs, generator=generator)
        nn.init.zeros_(self.out.weight)
        self.register_buffer("scales", torch.tensor([0.0, 1.0]))
        self.register_buffer("probes", torch.ones(N_PROBES, dtype=torch.float64))
        self.register_buffer("units", torch.ones(sizes.n_values, 2, dtype=torch.float64))

    def set_scales(
        self,
        center: float,
        spread: float,
        probes: Float[np.ndarray, "probes"],
        units: Float[np.ndarray, "columns 2"],
    ) -> None:
        """What numbers are measured by."""
        self.scales.copy_(torch.tensor([center, spread]))
        self.probes.copy_(torch.from_numpy(probes))
        self.units.copy_(torch.from_numpy(units))

    def forward(self, batch: TokenBatch) -> Float[Tensor, "n outputs"]:
        """Of waits, logits of the bins, then of a tie."""
        n_items = self.items.num_embeddings
        center, spread = self.scales
        age = ((batch.age + torch.exp(center - 4 * spread)).log() - center) / spread
        token = batch.token.clone()
        token[..., 0] = (
            ((token[..., 0] - center) / spread) * (1 - token[..., 1]) * (1 - token[..., 2])
        )
        numbers = torch.cat([token, age[..., None], torch.exp(-age.abs())[..., None]], -1)
        tokens = torch.relu(self.items(batch.item % n_items) + self.numbers(numbers))
        query = torch.relu(self.last(batch.last % n_items) + self.query(batch.query))
        read = self._attend(query, tokens, batch.present)
        hidden = self.dropout(torch.relu(self.hidden(torch.cat([query, read], -1))))
        logits: Tensor = self.out(hidden)
        return logits

    def _attend(self, query: Tensor, tokens: Tensor, present: Tensor) -> Float[Tensor, "n embed"]:
        size = _DIM // _HEADS
        n, length = present.shape
        asked = self.to_query(query).reshape(n, _HEADS, 1, size)
        key = self.to_key(tokens).reshape(n, length, _HEADS, size).transpose(1, 2)
        value = self.to_value(tokens).reshape(n, length, _HEADS, size).transpose(1, 2)
        score = (asked * key).sum(-1) / math.sqrt(size)
        weight = score.masked_fill(~present[:, None], -torch.inf).softmax(-1)
        return (weight[..., None] * value).sum(2).reshape(n, _DIM)


@dataclass(frozen=True, eq=False)
class AttentionCorrection:
    """A trained network and how much of it is kept."""

    network: PastAttention
    gate: float

    def logits_at(
        self, past: PastTokens, rows: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n outputs"]:
        """Gated outputs after some events."""
        parts = [np.zeros((0, self.network.sizes.n_outputs))]
        for first in range(0, len(rows), _AT_ONCE):
            parts.append(self.outputs(past.batch(rows[first : first + _AT_ONCE])))
        return np.concatenate(parts)

    @torch.no_grad()
    def outputs(self, batch: TokenBatch) -> Float[np.ndarray, "n outputs"]:
        """Gated outputs, 0 where there is no event to look at."""
        self.network.eval()
        logits = self.gate * self.network(batch).double().numpy()
        return np.where(batch.present.any(1).numpy()[:, None], logits, 0.0)


def correction_arrays(correction: AttentionCorrection | None) -> dict[str, np.ndarray]:
    """All numbers of a correction, if there is one, by name."""
    state = {} if correction is None else correction.network.state_dict()
    return {f"{_STORED}{name}": part.numpy() for name, part in state.items()}


def correction_config(correction: AttentionCorrection | None) -> dict[str, Any] | None:
    """What else a saved correction needs."""
    if correction is None:
        return None
    return {"gate": correction.gate, "sizes": list(correction.network.sizes)}


def restored_correction(
    config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> AttentionCorrection | None:
    """The correction of a part, of which this is all that was saved; None without."""
    own = config.get("attention")
    if own is None:
        return None
    sizes = AttentionSizes(*own["sizes"])
    network = PastAttention(sizes, generator=torch.Generator().manual_seed(0))
    state = {
        name.removeprefix(_STORED): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith(_STORED)
    }
    network.load_state_dict(state)
    return AttentionCorrection(network.eval(), float(own["gate"]))


def query_numbers(
    log_survival: Float[np.ndarray, "n probes"],
    local: Float[np.ndarray, "n"],
    others: tuple[np.ndarray, ...],
) -> Float[np.ndarray, "n queries"]:
    """What the base expects, the hour and the weekday, and four other numbers.

    `local`: days since 1970 on the local clock; `others`: stamps so far, the time of observation in
    typical waits, how many events the stamp has, and the chance of a tie
    """
    count, age, run, tie = others
    log_odds = np.log(tie.clip(1e-6, 1 - 1e-6)) - np.log1p(-tie.clip(1e-6, 1 - 1e-6))
    columns = (
        *log_survival.clip(-12.0).T / 4,
        *hour_numbers(local),
        np.log1p(count) / 3,
        np.log1p(age) / 5,
        np.log1p(run),
        log_odds / 4,
    )
    return np.column_stack(columns)


def hour_numbers(local: Float[np.ndarray, "n"]) -> tuple[np.ndarray, ...]:
    """The hour of the day and the weekday, each on a circle."""
    angle = 2 * np.pi * local
    return np.sin(angle), np.cos(angle), np.sin(angle / 7), np.cos(angle / 7)


def mark_numbers(
    wait: Float[np.ndarray, "n"],
    past: tuple[np.ndarray, np.ndarray],
    local: Float[np.ndarray, "n"],
    network: PastAttention,
) -> Float[np.ndarray, "n numbers"]:
    """What is known of a moment at which an event comes; `past`: its run, and events looked at."""
    run, count = past
    center, spread = network.scales.tolist()
    positive = wait > 0
    log_wait = np.where(positive, (np.log(np.where(positive, wait, 1.0)) - center) / spread, 0.0)
    columns = (log_wait, ~positive, np.log1p(run), count / LENGTH, *hour_numbers(local))
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def mark_tokens(
    streams: EventStreams,
    clock: EventClock,
    network: PastAttention,
    *,
    shown: Int64[np.ndarray, "events"] | None = None,
    further: Float[np.ndarray, "events numbers"] | None = None,
) -> PastTokens:
    """What attention sees when an event comes: the events before it, and its time.

    `shown`: the item beside the query, the last one unless given; `further`: numbers beside
    """
    n, first = len(streams.time), streams.is_first
    index = np.full((n, LENGTH), -1)
    index[1:] = last_events(streams)[:-1]
    index[first] = -1
    wait = np.diff(streams.time, prepend=streams.time[:1])
    past = (streams.run, (index >= 0).sum(1))
    query = mark_numbers(wait, past, clock.local(streams.time), network)
    query = query if further is None else np.column_stack([query, further])
    last = np.append(-1, streams.item[:-1])[:n] if shown is None else shown
    tokens = token_numbers(streams, network.units.numpy())
    return PastTokens(streams.item, tokens, clock.reading(streams.time), last, query, index)
