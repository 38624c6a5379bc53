"""Attention over the past of a stream, which reshapes the waits that the base expects.

Let S be the base's survival function of a wait. It is cut at fixed levels 1 = e_0 > e_1 > ... = 0
into bins of mass m_j = e_(j-1) - e_j, and the corrected one is linear in S within each of them,

    S'(S) = (sum of q_i, i > j) + q_j (S - e_j) / m_j,    q = softmax(log m + gate * network(past)).

So it is a distribution whatever the network says, exact with cells and open ends, and the base
itself where the network is 0, as it is at the start. The log-odds of a tie are moved by another
output. The network looks at the last events: their items, how long ago they were and the waits
before them; its query has the last item, what the base expects, the hour and the weekday.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.events.event_streams import EventStreams
from exfam.efa.events.event_values import observed_values
from exfam.layers import Dropout, linear, table

_LOWER = (0.0, 0.004, 0.015, 0.04, 0.08, 0.13, 0.2, 0.28, 0.36, 0.44, 0.5)
EDGES = np.array([*_LOWER, *(1 - level for level in _LOWER[-2::-1])])
MASS = np.diff(EDGES)
N_BINS = len(MASS)
# Events that are looked at; sizes of the network.
LENGTH = 20
_DIM, _HIDDEN, _HEADS, _DROPOUT = 32, 64, 2, 0.1
N_TOKEN_NUMBERS, N_PROBES = 5, 3
N_QUERY_NUMBERS = N_PROBES + 8
_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class PastTokens:
    """What the network sees after each event.

    `token`: of each event its item and numbers; `reading`: of the clock; `query`: further numbers
    of the moment after it; `index`: the last events up to it, -1 before the stream's first
    """

    item: Int64[np.ndarray, "events"]
    token: Float[np.ndarray, "events numbers"]
    reading: Float[np.ndarray, "events"]
    query: Float[np.ndarray, "events queries"]
    index: Int64[np.ndarray, "events length"]

    def batch(self, rows: Int64[np.ndarray, "n"]) -> "TokenBatch":
        """The inputs of some events."""
        index = self.index[rows]
        there = index >= 0
        index = index.clip(0)
        age = np.where(there, self.reading[rows][:, None] - self.reading[index], 0.0).clip(0.0)
        arrays = (self.item[index], self.token[index], age, self.item[rows], self.query[rows])
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


class WaitAttention(nn.Module):
    """Logits of the bins and of a tie, from the past; all 0 at the start.

    `scales`: the mean and spread of logs of waits, by which waits and ages are standardized;
    `probes`: waits that the base is asked about; `units`: of columns of values
    """

    scales: Tensor
    probes: Tensor
    units: Tensor

    def __init__(self, n_items: int, n_values: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.items = table(n_items + 1, _DIM, scale=0.3, generator=generator)
        self.numbers = linear(N_TOKEN_NUMBERS + 2, _DIM, generator=generator)
        self.last = table(n_items + 1, _DIM, scale=0.3, generator=generator)
        self.query = linear(N_QUERY_NUMBERS, _DIM, generator=generator)
        self.to_query = linear(_DIM, _DIM, generator=generator, bias=False)
        self.to_key = linear(_DIM, _DIM, generator=generator, bias=False)
        self.to_value = linear(_DIM, _DIM, generator=generator, bias=False)
        self.hidden = linear(2 * _DIM, _HIDDEN, generator=generator)
        self.dropout = Dropout(_DROPOUT)
        self.out = linear(_HIDDEN, N_BINS + 1, generator=generator)
        nn.init.zeros_(self.out.weight)
        self.register_buffer("scales", torch.tensor([0.0, 1.0]))
        self.register_buffer("probes", torch.ones(N_PROBES, dtype=torch.float64))
        self.register_buffer("units", torch.ones(n_values, 2, dtype=torch.float64))

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
        """Logits of the bins, then of a tie."""
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
class TimeCorrection:
    """A trained network and how much of it is kept."""

    network: WaitAttention
    gate: float

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        state = self.network.state_dict()
        return {f"attention.{name}": part.numpy() for name, part in state.items()}

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        sizes = (self.network.items.num_embeddings - 1, len(self.network.units))
        return {"gate": self.gate, "sizes": list(sizes)}

    @classmethod
    def restored(
        cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> "TimeCorrection":
        """What `config` and `arrays` say."""
        n_items, n_values = config["sizes"]
        generator = torch.Generator().manual_seed(0)
        network = WaitAttention(n_items, n_values, generator=generator)
        start = "attention."
        state = {
            name[len(start) :]: torch.from_numpy(array)
            for name, array in arrays.items()
            if name.startswith(start)
        }
        network.load_state_dict(state)
        return cls(network.eval(), float(config["gate"]))

    def logits_at(
        self, past: PastTokens, rows: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n outputs"]:
        """Gated outputs after some events."""
        parts = [np.zeros((0, N_BINS + 1))]
        for first in range(0, len(rows), _AT_ONCE):
            parts.append(self.outputs(past.batch(rows[first : first + _AT_ONCE])))
        return np.concatenate(parts)

    @torch.no_grad()
    def outputs(self, batch: TokenBatch) -> Float[np.ndarray, "n outputs"]:
        """Gated outputs, 0 where there is no event to look at."""
        self.network.eval()
        logits = self.gate * self.network(batch).double().numpy()
        return np.where(batch.present.any(1).numpy()[:, None], logits, 0.0)


def bin_shares(logits: Float[np.ndarray, "n bins"]) -> Float[np.ndarray, "n bins"]:
    """q, from the shortest waits to the longest."""
    tilted = MASS * np.exp(logits - logits.max(1, keepdims=True))
    shares: np.ndarray = tilted / tilted.sum(1, keepdims=True)
    return shares


def shares_of_bins(
    early: Float[np.ndarray, "n"], late: Float[np.ndarray, "n"], is_point: Bool[np.ndarray, "n"]
) -> Float[np.ndarray, "n bins"]:
    """By how much each bin's q multiplies a probability that the base has between two survivals.

    r_j, so that the corrected probability is the base's times the sum of q_j r_j, which is 1 where
    q is the mass. `is_point`: densities at `late`.
    """
    low, high = 1 - early, 1 - late
    overlap = np.minimum(high[:, None], EDGES[1:]) - np.maximum(low[:, None], EDGES[:-1])
    overlap = overlap.clip(0.0)
    where = np.searchsorted(EDGES, high, side="left").clip(1, N_BINS) - 1
    same = is_point | (where == np.searchsorted(EDGES, low, side="right").clip(1, N_BINS) - 1)
    same |= overlap.sum(1) <= 0
    point = np.zeros_like(overlap)
    point[np.arange(len(where)), where] = 1.0
    held = np.where(same[:, None], point, overlap)
    shares: np.ndarray = held / held.sum(1, keepdims=True) / MASS
    return shares


def corrected_survival(
    survival: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """S'(S)."""
    where = np.searchsorted(EDGES, 1 - survival, side="right").clip(1, N_BINS) - 1
    row = np.arange(len(survival))
    later = shares[:, ::-1].cumsum(1)[:, ::-1] - shares
    within = (survival - (1 - EDGES[1:][where])) / MASS[where]
    return later[row, where] + shares[row, where] * within


def corrected_hazard_ratio(
    survival: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """By how much the hazard is multiplied where the base has survived so far."""
    where = np.searchsorted(EDGES, 1 - survival, side="right").clip(1, N_BINS) - 1
    denser = shares[np.arange(len(where)), where] / MASS[where]
    return denser * survival / corrected_survival(survival, shares)


def base_survival(
    corrected: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """The S of an S'(S)."""
    later = shares[:, ::-1].cumsum(1)[:, ::-1] - shares
    where = (later > corrected[:, None]).sum(1).clip(max=N_BINS - 1)
    row = np.arange(len(corrected))
    within = (corrected - later[row, where]) / shares[row, where]
    return 1 - EDGES[1:][where] + MASS[where] * within


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
    angle = 2 * np.pi * local
    log_odds = np.log(tie.clip(1e-6, 1 - 1e-6)) - np.log1p(-tie.clip(1e-6, 1 - 1e-6))
    columns = (
        *log_survival.clip(-12.0).T / 4,
        np.sin(angle),
        np.cos(angle),
        np.sin(angle / 7),
        np.cos(angle / 7),
        np.log1p(count) / 3,
        np.log1p(age) / 5,
        np.log1p(run),
        log_odds / 4,
    )
    return np.column_stack(columns)
