"""Trains attention on times, items and values; validation says how much of it is kept."""

import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.events.event_attention import (
    N_MARK_NUMBERS,
    AttentionCorrection,
    AttentionSizes,
    PastAttention,
    PastTokens,
    mark_tokens,
)
from exfam.efa.events.event_bins import MASS, N_BINS
from exfam.efa.events.event_items import ItemPart
from exfam.efa.events.event_streams import (
    N_STRETCHES,
    EventStreams,
    Spells,
    blocks_of,
    observed_values,
    spells_of,
)
from exfam.efa.events.event_values import N_INPUTS, ValuePart
from exfam.efa.events.time_part import TimePart, bins_of_spells, past_tokens, scales_of
from exfam.estimator.gain import Gain, gain_of_sums
from exfam.families import Family
from exfam.layers import lend_generator
from exfam.training.adamw import AdamW
from exfam.training.progress import StepProgress

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
_RATE, _DECAY, _CLIP, _AVERAGE = 3e-3, 0.01, 1.0, 0.98
_BATCHES, _STEPS = (32, 256), 40
_PATIENCE, _MOST_EPOCHS, _MOST_QUERIES = 3, 25, 1_500_000
# Training queries below which there is nothing to learn from, and held-out ones to judge by.
_LEAST_QUERIES, _LEAST_JUDGED = 400, 100
# Logits of items that are held at once, of training events.
_MOST_LOGITS = 30_000_000
_LOG_MASS = torch.from_numpy(np.log(MASS)).float()


@dataclass(frozen=True, eq=False)
class WaitTargets:
    """What came after each event: a wait, by `shares_of_bins`, and whether the next one tied.

    `has_wait`, `has_tie`: whether either was seen; `log_odds`: of a tie, by the base
    """

    shares: Float[Tensor, "events bins"]
    has_wait: Bool[Tensor, "events"]
    tie: Float[Tensor, "events"]
    has_tie: Bool[Tensor, "events"]
    log_odds: Float[Tensor, "events"]

    def gains(self, logits: Tensor, rows: Tensor) -> Float[Tensor, "n"]:
        """Nats that outputs add to the base at some events."""
        q = (logits[:, :-1] + _LOG_MASS.to(logits)).softmax(-1)
        wait = (q * self.shares[rows]).sum(-1).clamp_min(1e-30).log()
        odds, tie = self.log_odds[rows], self.tie[rows]

        def nats(log_odds: Tensor) -> Tensor:
            return tie * log_odds - torch.nn.functional.softplus(log_odds)

        tied = nats(odds + logits[:, -1]) - nats(odds)
        zero = torch.zeros_like(wait)
        return torch.where(self.has_wait[rows], wait, zero) + torch.where(
            self.has_tie[rows], tied, zero
        )


def wait_targets(part: TimePart, streams: EventStreams) -> WaitTargets:
    """Targets of all events, beside what the base says of them."""
    spells, n = spells_of(streams), len(streams.time)
    shares = bins_of_spells(part.mixture, part.clocked(streams, spells))
    after = spells.before >= 0
    of_events, has_wait = np.ones((n, N_BINS)), np.zeros(n, dtype=bool)
    of_events[spells.before[after]] = shares[after]
    has_wait[spells.before[after]] = True
    follows = np.flatnonzero(~streams.is_first)
    tie, has_tie = np.zeros(n), has_wait.copy()
    tie[follows - 1] = streams.is_tie[follows]
    has_tie[follows - 1] = True
    chance = part.ties.of(streams.item, streams.run)
    has_tie &= chance > 0
    chance = np.where(chance > 0, chance, 0.5)
    tensors = (of_events, tie, np.log(chance) - np.log1p(-chance))
    numbers, tied, odds = (torch.from_numpy(array).float() for array in tensors)
    return WaitTargets(numbers, torch.from_numpy(has_wait), tied, torch.from_numpy(has_tie), odds)


@dataclass(frozen=True, eq=False)
class ItemTargets:
    """Which items came: nats of every item by the base, of the events at `index`."""

    item: Int64[Tensor, "events"]
    base: Float[Tensor, "kept items"]
    index: Int64[Tensor, "events"]

    def gains(self, logits: Tensor, rows: Tensor) -> Float[Tensor, "n"]:
        """Nats that outputs add to the base at some events."""
        item = self.item[rows, None]
        moved = (self.base[self.index[rows]] + logits).logsumexp(1)
        return logits.gather(1, item)[:, 0] - moved


@dataclass(frozen=True, eq=False)
class ValueTargets:
    """Which values came: standardized, the base's parameters, and nats, by event."""

    family: Family
    z: Float[Tensor, "events"]
    eta: Float[Tensor, "events params"]
    nats: Float[Tensor, "events"]

    def gains(self, moved: Tensor, rows: Tensor) -> Float[Tensor, "n"]:
        """Nats that outputs add to the base at some events."""
        return self.family.log_prob(self.z[rows], self.eta[rows] + moved) - self.nats[rows]


class Targets(Protocol):
    """What came, beside what the base says of it."""

    def gains(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Nats that outputs add to the base at some events."""


class _Problem(NamedTuple):
    """What is trained on: inputs, targets, events to learn from and to judge by."""

    past: PastTokens
    targets: Targets
    learned: Int64[np.ndarray, "learned"]
    judged: Int64[np.ndarray, "judged"]


Fitted = tuple[AttentionCorrection | None, Gain | None]


class AttentionFit:
    """Corrections of parts that were fitted to training events; None where they add nothing."""

    def __init__(
        self,
        streams: EventStreams,
        trained: tuple[Bool[np.ndarray, "events"], Bool[np.ndarray, "spells"]],
        time: TimePart,
        *,
        seed: int,
        progress: bool,
    ) -> None:
        self.streams, self.trained, self.time = streams, trained, time
        self.generator = torch.Generator().manual_seed(seed)
        self.progress, self.scales = progress, scales_of(time, streams)
        has_past = ~streams.is_first
        self.learned = np.flatnonzero(trained[0] & has_past)
        self.judged = np.flatnonzero(~trained[0] & has_past)

    def of_time(self) -> Fitted:
        """Of waits and ties."""
        streams, part = self.streams, self.time
        learned, judged = _queries(spells_of(streams), self.trained)
        network = self._network(learned, judged)
        if network is None:
            return None, None
        past, targets = past_tokens(part, streams, network), wait_targets(part, streams)
        base = float(np.nanmean(part.log_probs(streams)[0][judged]))
        return self._fitted(network, _Problem(past, targets, learned, judged), "times", base)

    def of_items(self, part: ItemPart) -> Fitted:
        """Of logits of items."""
        streams, n_items = self.streams, part.base.n_items
        known = streams.item >= 0
        most = _MOST_LOGITS // n_items
        learned = self._some(self.learned[known[self.learned]], most)
        judged = self._some(self.judged[known[self.judged]], most // 4)
        network = self._network(learned, judged, n_items)
        if network is None:
            return None, None
        chosen, index = np.zeros(len(known), dtype=bool), np.zeros(len(known), dtype=np.int64)
        chosen[learned] = chosen[judged] = True
        kept = np.flatnonzero(chosen)
        index[kept] = np.arange(len(kept))
        base = torch.empty(len(kept), n_items)
        for rows, logs in part.log_rows(streams, chosen):
            base[index[rows]] = torch.from_numpy(logs).float()
        targets = ItemTargets(torch.from_numpy(streams.item), base, torch.from_numpy(index))
        own = base[index[judged], streams.item[judged]]
        past = mark_tokens(streams, self.time.clock, network)
        problem = _Problem(past, targets, learned, judged)
        return self._fitted(network, problem, "items", float(own.mean()))

    def of_values(self, part: ValuePart) -> Fitted:
        """Of parameters of values."""
        streams = self.streams
        observed = observed_values(streams, part.column)
        learned, judged = self.learned[observed[self.learned]], self.judged[observed[self.judged]]
        network = self._network(learned, judged, part.family.n_params, N_INPUTS - 1)
        if network is None:
            return None, None
        kept, n = np.flatnonzero(observed), len(streams.time)
        z, eta = torch.ones(n, dtype=torch.float64), torch.zeros(n, part.family.n_params)
        nats, eta = torch.zeros(n, dtype=torch.float64), eta.double()
        z[kept], eta[kept] = part.targets(streams, self.time.clock, kept)
        nats[kept] = part.family.log_prob(z[kept], eta[kept])
        targets = ValueTargets(part.family, z, eta, nats)
        problem = _Problem(part.tokens(streams, self.time.clock, network), targets, learned, judged)
        return self._fitted(network, problem, part.column, float(nats[judged].mean()))

    def _some(self, rows: Int64[np.ndarray, "n"], most: int) -> Int64[np.ndarray, "m"]:
        if len(rows) <= most:
            return rows
        return rows[torch.randperm(len(rows), generator=self.generator)[:most].sort()[0].numpy()]

    def _network(
        self, learned: np.ndarray, judged: np.ndarray, n_outputs: int = 0, further: int = 0
    ) -> PastAttention | None:
        """What is to be trained, None where there is too little to learn from or to judge by."""
        if len(learned) < _LEAST_QUERIES or len(judged) < _LEAST_JUDGED:
            return None
        groups = self.streams.groups
        sizes = AttentionSizes(max(1, groups.n_items), len(groups.values))
        if n_outputs:
            sizes = sizes._replace(n_queries=N_MARK_NUMBERS + further, n_outputs=n_outputs)
        network = PastAttention(sizes, generator=self.generator)
        network.set_scales(*self.scales)
        return network

    def _fitted(self, network: PastAttention, problem: _Problem, name: str, base: float) -> Fitted:
        """The trained network at the gate that validation has best; `base`: its mean nats there."""
        kept = _train(network, problem, self.generator, name, progress=self.progress)
        gains = {gate: _added(kept, gate, problem) for gate in GATES}
        gate = max(gains, key=lambda gate: gains[gate].mean())
        stream, part = self.streams.stream[problem.judged], f"Attention on {name}"
        gain = _gain(gains[gate], gate, stream, base=base, part=part)
        if not gain.low > 0:
            # Less than chance explains.
            gate, gain = 0.0, _gain(gains[0.0], 0.0, stream, base=base, part=part)
        return (AttentionCorrection(kept, gate) if gate else None), gain


def _queries(
    spells: Spells, trained: tuple[Bool[np.ndarray, "events"], Bool[np.ndarray, "spells"]]
) -> tuple[Int64[np.ndarray, "learned"], Int64[np.ndarray, "judged"]]:
    """Events after which there is something to learn, or to judge."""
    events, of_spells = trained
    is_learned, after = events.copy(), spells.before >= 0
    is_learned[spells.before[after]] &= of_spells[after]
    return np.flatnonzero(is_learned), np.flatnonzero(~is_learned)


def _train(
    network: PastAttention,
    problem: _Problem,
    generator: torch.Generator,
    name: str,
    *,
    progress: bool,
) -> PastAttention:
    """The running mean of the network, of the epoch that is best on the events judged by."""
    average = copy.deepcopy(network).eval()
    best, kept, since = 0.0, copy.deepcopy(average), 0
    optimizer = AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
    rows = torch.from_numpy(problem.learned)
    size = int(np.clip(len(rows) // _STEPS, *_BATCHES))
    n_epochs = int(np.clip(_MOST_QUERIES // len(rows), 2, _MOST_EPOCHS))
    with StepProgress(f"attention on {name}", total=n_epochs, shown=progress) as bar:
        for _ in range(n_epochs):
            network.train()
            with lend_generator(generator, network):
                for batch in rows[torch.randperm(len(rows), generator=generator)].split(size):
                    outputs = network(problem.past.batch(batch.numpy()))
                    loss = -problem.targets.gains(outputs, batch).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                    optimizer.step()
                    _follow(average, network)
            bar.advance()
            nats, since = float(_added(average, 1.0, problem).mean()), since + 1
            if nats > best:
                best, kept, since = nats, copy.deepcopy(average), 0
            if since >= _PATIENCE:
                break
    return kept


@torch.no_grad()
def _follow(average: PastAttention, network: PastAttention) -> None:
    for mean, new in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(new, 1 - _AVERAGE)


@torch.no_grad()
def _added(network: PastAttention, gate: float, problem: _Problem) -> Float[np.ndarray, "judged"]:
    """Nats that a gated network adds at the events judged by."""
    correction, rows = AttentionCorrection(network, gate), problem.judged
    logits = torch.from_numpy(correction.logits_at(problem.past, rows)).float()
    return problem.targets.gains(logits, torch.from_numpy(rows)).double().numpy()


def _gain(
    added: Float[np.ndarray, "judged"],
    gate: float,
    stream: Int64[np.ndarray, "judged"],
    *,
    base: float,
    part: str,
) -> Gain:
    """What was added, with an interval over streams, or stretches of few."""
    block, few = blocks_of(stream), len(np.unique(stream)) < N_STRETCHES
    what = "validation stretches" if few else "validation streams"
    sums, size = np.bincount(block, weights=added), np.bincount(block).astype(float)
    weights = (1.0, gate)
    return gain_of_sums(sums, size, base * len(added), weights=weights, part=part, groups=what)
