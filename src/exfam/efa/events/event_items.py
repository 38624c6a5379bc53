"""Which item the next event has, given its time and the past.

    p(i | time, past) = (C[j, b, i] + kappa p(i | past)) / (C[j, b] + kappa)

where p(i | past) are the transitions of `TransitionItems`, j is the last item, b the range that the
wait falls in, ties being one of their own, and C counts what came then in training. Validation
chooses kappa; where it is infinite, time says nothing about the item.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64
from scipy.special import logsumexp, softmax

from exfam.efa.base.fit_transitions import fit_transition_items
from exfam.efa.base.transitions import TransitionItems
from exfam.efa.events.event_attention import (
    AttentionCorrection,
    correction_arrays,
    correction_config,
    mark_tokens,
    restored_correction,
)
from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_streams import EventStreams
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches

_FIRMNESS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_N_RANGES = 6
_MOST_NUMBERS = 8_000_000
_ARRAYS = ("edges", "key", "count", "firmness")
# Transitions look at so many of the last items at most.
HISTORY = 48


@dataclass(frozen=True, eq=False)
class TimedCounts:
    """What came after an item within a range of waits: sorted keys, and how often.

    `edges`: of ranges, in days; `firmness`: kappa, infinite where counts are not looked at
    """

    edges: Float[np.ndarray, "edges"]
    key: Int64[np.ndarray, "keys"]
    count: Float[np.ndarray, "keys"]
    firmness: float
    n_items: int

    @property
    def n_ranges(self) -> int:
        """Ties, ranges of waits, and the opening of a stream."""
        return len(self.edges) + 3

    def cell(
        self, last: Int64[np.ndarray, "n"], wait: Float[np.ndarray, "n"]
    ) -> Int64[np.ndarray, "n"]:
        """Which context it is; waits are NaN for a first event, and 0 for ties."""
        ranged = np.searchsorted(self.edges, wait, side="right") + 1
        ranged = np.where(wait == 0, 0, ranged)
        ranged = np.where(np.isnan(wait), self.n_ranges - 1, ranged)
        return (last % (self.n_items + 1)) * self.n_ranges + ranged

    @classmethod
    def of(
        cls,
        edges: Float[np.ndarray, "edges"],
        events: tuple[np.ndarray, np.ndarray, np.ndarray],
        n_items: int,
        *,
        firmness: float = np.inf,
    ) -> "TimedCounts":
        """Counts of events: last items, waits, and items."""
        empty = cls(edges, np.zeros(0, dtype=np.int64), np.zeros(0), firmness, n_items)
        last, wait, item = events
        known = item >= 0
        key = empty.cell(last[known], wait[known]) * n_items + item[known]
        distinct, count = np.unique(key, return_counts=True)
        return cls(edges, distinct, count.astype(float), firmness, n_items)

    def sizes(self) -> Float[np.ndarray, "cells"]:
        """How many events each context has."""
        n_cells = (self.n_items + 1) * self.n_ranges
        return np.bincount(self.key // self.n_items, weights=self.count, minlength=n_cells)

    def of_item(
        self, cell: Int64[np.ndarray, "n"], item: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """How often an item came in a context."""
        wanted = cell * self.n_items + item
        index = np.minimum(np.searchsorted(self.key, wanted), max(0, len(self.key) - 1))
        if not len(self.key):
            return np.zeros(len(wanted))
        return np.where(self.key[index] == wanted, self.count[index], 0.0)

    def log_mixed(
        self, cell: Int64[np.ndarray, "n"], base: Float[np.ndarray, "n items"]
    ) -> Float[np.ndarray, "n items"]:
        """Nats of each item in contexts, by counts backed off to those of a base."""
        if not np.isfinite(self.firmness):
            return base
        n_cells = (self.n_items + 1) * self.n_ranges
        pointer = np.searchsorted(self.key, np.arange(n_cells + 1) * self.n_items)
        counts = scipy.sparse.csr_array(
            (self.count, self.key % self.n_items, pointer), shape=(n_cells, self.n_items)
        )
        own, kappa = counts[cell].toarray(), self.firmness
        mixed: np.ndarray = np.log(own + kappa * np.exp(base))
        return mixed - np.log(self.sizes()[cell] + kappa)[:, None]


@dataclass(frozen=True, eq=False)
class ItemPart:
    """p(item | time, past)."""

    base: TransitionItems
    timed: TimedCounts
    correction: AttentionCorrection | None = None

    def log_probs(self, streams: EventStreams, clock: EventClock) -> Float[np.ndarray, "events"]:
        """Nats of each event's item, NaN of unknown ones."""
        if self.correction is None:
            return timed_log_probs(self.timed, streams, base_log_probs(self.base, streams))
        past = mark_tokens(streams, clock, self.correction.network)
        nats = np.full(len(streams.time), np.nan)
        for rows, base in self.log_rows(streams):
            moved = base + self.correction.logits_at(past, rows)
            own = np.take_along_axis(moved, streams.item[rows].clip(0)[:, None], 1)[:, 0]
            nats[rows] = np.where(streams.item[rows] < 0, np.nan, own - logsumexp(moved, axis=1))
        return nats

    def log_rows(
        self, streams: EventStreams, chosen: Bool[np.ndarray, "events"] | None = None
    ) -> Iterator[tuple[Int64[np.ndarray, "n"], Float[np.ndarray, "n items"]]]:
        """Some events after the other, all or chosen ones, with the base's nats of every item."""
        cell, every = self.timed.cell(*waits_of(streams)), torch.arange(self.base.n_items)
        for batch, (row, column) in _batches(streams.groups, self.base.n_items):
            rows = batch.element[row, column].numpy()
            kept = np.ones(len(rows), dtype=bool) if chosen is None else chosen[rows]
            if kept.any():
                where = (row[kept], column[kept])
                eta = self.base.outputs(batch, where, every).double()
                base = eta.log_softmax(1).numpy()
                yield rows[kept], self.timed.log_mixed(cell[rows[kept]], base)

    def probabilities(
        self,
        histories: Sequence[Int64[np.ndarray, "_"]],
        wait: Float[np.ndarray, "n"],
        attend: Callable[[AttentionCorrection], Float[np.ndarray, "n items"]],
    ) -> Float[np.ndarray, "n items"]:
        """Of all items next, after the items of each history and a wait; NaN for a first event.

        `attend`: what a correction adds
        """
        last = np.array([history[-1] if len(history) else -1 for history in histories])
        logs = self.timed.log_mixed(
            self.timed.cell(last, wait), next_log_probs(self.base, histories)
        )
        if self.correction is not None:
            logs = logs + attend(self.correction)
        return softmax(logs, axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        held = {f"base.{name}": part.numpy() for name, part in self.base.state_dict().items()}
        held |= correction_arrays(self.correction)
        return held | {
            "timed.edges": self.timed.edges,
            "timed.key": self.timed.key,
            "timed.count": self.timed.count,
            "timed.firmness": np.array([self.timed.firmness]),
        }

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        attention = correction_config(self.correction)
        return {"n_items": self.base.n_items, "shape": self.base.shape(), "attention": attention}

    @classmethod
    def restored(cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "ItemPart":
        """What `config` and `arrays` say."""
        base = TransitionItems(config["n_items"])
        base.allocate(**config["shape"])
        named = {name: array for name, array in arrays.items() if name.startswith("base.")}
        base.load_state_dict({name[5:]: torch.from_numpy(array) for name, array in named.items()})
        edges, key, count, firmness = (arrays[f"timed.{name}"] for name in _ARRAYS)
        timed = TimedCounts(edges, key, count, float(firmness[0]), config["n_items"])
        return cls(base.eval(), timed, restored_correction(config, arrays))


def waits_of(streams: EventStreams) -> tuple[np.ndarray, np.ndarray]:
    """The item of the event before each one, and the elapsed wait; -1 and NaN for a first one."""
    first, stream = streams.is_first, streams.stream
    wait = np.append(np.nan, np.diff(streams.time))[: len(first)]
    last = np.append(-1, streams.item[:-1])[: len(first)]
    opened = streams.time - streams.begin[stream]
    return np.where(first, -1, last), np.where(first, opened, wait)


def base_log_probs(base: TransitionItems, streams: EventStreams) -> Float[np.ndarray, "events"]:
    """Nats of each item by the transitions, NaN of unknown ones."""
    out = np.full(len(streams.time), np.nan)
    every = torch.arange(base.n_items)
    for batch, where in _batches(streams.groups, base.n_items):
        eta = base.outputs(batch, where, every).double()
        assert batch.item is not None
        item = batch.item[where].long()
        own = eta.gather(1, item.clamp_min(0)[:, None])[:, 0] - eta.logsumexp(1)
        own = torch.where(item >= 0, own, torch.nan)
        out[batch.element[where].numpy()] = own.numpy()
    return out


def _batches(groups: Groups, n_items: int) -> Iterator[tuple[Any, tuple[Any, Any]]]:
    plain = Groups(start=groups.start, stop=groups.stop, item=groups.item, ordered=True)
    most = max(1, _MOST_NUMBERS // max(1, n_items))
    for index in sequential_batches(plain, max_tokens=min(most, 100_000)):
        batch = plain.pad(index)
        row, column = batch.present.nonzero(as_tuple=True)
        for some in torch.arange(len(row)).split(most):
            yield batch, (row[some], column[some])


def next_log_probs(
    base: TransitionItems, histories: Sequence[Int64[np.ndarray, "_"]]
) -> Float[np.ndarray, "n items"]:
    """Nats of every item next, by the transitions."""
    recent = [np.append(history[-HISTORY:], -1) for history in histories]
    stop = np.cumsum([len(history) for history in recent])
    start = np.append(0, stop[:-1])
    groups = Groups(start=start, stop=stop, item=np.concatenate(recent), ordered=True)
    batch = groups.pad(np.arange(len(recent)))
    where = (torch.arange(len(recent)), torch.from_numpy(stop - start - 1))
    eta = base.outputs(batch, where, torch.arange(base.n_items)).double()
    log_probs: np.ndarray = eta.log_softmax(1).numpy()
    return log_probs


def timed_log_probs(
    timed: TimedCounts, streams: EventStreams, base: Float[np.ndarray, "events"]
) -> Float[np.ndarray, "events"]:
    """Nats of items by counts, backed off to those of a base."""
    if not np.isfinite(timed.firmness):
        return base
    last, wait = waits_of(streams)
    cell = timed.cell(last, wait)
    own, size = timed.of_item(cell, streams.item), timed.sizes()[cell]
    kappa = timed.firmness
    return np.log((own + kappa * np.exp(base)) / (size + kappa))


@dataclass(frozen=True, eq=False)
class FittedItems:
    """The part, the one of training events alone, if some were held out, and nats of those."""

    part: ItemPart
    of_training: ItemPart | None
    nats: dict[str, float]


def fit_item_part(
    streams: EventStreams,
    is_training: Bool[np.ndarray, "events"],
    *,
    n_items: int,
    seed: int,
) -> FittedItems:
    """Counts of all events; how far they are believed is chosen by those held out."""
    last, wait = waits_of(streams)
    positive = wait[(wait > 0) & is_training]
    quantiles = np.arange(1, _N_RANGES) / _N_RANGES
    edges = np.unique(np.quantile(positive, quantiles)) if len(positive) else np.zeros(0)
    events = (last, wait, streams.item)
    nats: dict[str, float] = {}
    firmness, own = np.inf, None
    if not is_training.all():
        base = _fit_base(streams, is_training, n_items=n_items, seed=seed)
        transitions = base_log_probs(base, streams)
        judged = ~is_training & ~np.isnan(transitions)
        of_training = (last[is_training], wait[is_training], streams.item[is_training])
        counts = TimedCounts.of(edges, of_training, n_items)
        tried = {}
        for kappa in (np.inf, *_FIRMNESS):
            timed = replace(counts, firmness=kappa)
            tried[kappa] = float(timed_log_probs(timed, streams, transitions)[judged].mean())
        firmness = max(tried, key=tried.__getitem__)
        nats = {"transitions": tried[np.inf], "transitions in time": tried[firmness]}
        own = ItemPart(base, replace(counts, firmness=firmness))
    everything = np.ones(len(is_training), dtype=bool)
    base = _fit_base(streams, everything, n_items=n_items, seed=seed)
    part = ItemPart(base, TimedCounts.of(edges, events, n_items, firmness=firmness))
    return FittedItems(part, own, nats)


def _fit_base(
    streams: EventStreams, chosen: Bool[np.ndarray, "events"], *, n_items: int, seed: int
) -> TransitionItems:
    """Transitions of the chosen events, which are the first ones of each stream that has any."""
    size = np.bincount(streams.stream[chosen], minlength=len(streams.groups))
    assert streams.groups.item is not None
    groups = Groups(
        start=streams.start, stop=streams.start + size, item=streams.groups.item, ordered=True
    )[size > 0]
    return fit_transition_items(groups, n_items, support="none", seed=seed)
