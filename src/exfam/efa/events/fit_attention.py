"""Trains attention on waits and ties, and lets validation say how much of it is kept."""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.events.event_attention import (
    MASS,
    N_BINS,
    PastTokens,
    TimeCorrection,
    WaitAttention,
)
from exfam.efa.events.event_streams import EventStreams, Spells, spells_of
from exfam.efa.events.time_part import TimePart, bins_of_spells, past_tokens, scales_of
from exfam.estimator.gain import Gain, gain_of_sums
from exfam.layers import lend_generator
from exfam.training.adamw import AdamW
from exfam.training.progress import StepProgress

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
_RATE, _DECAY, _CLIP, _AVERAGE = 3e-3, 0.01, 1.0, 0.98
_BATCHES, _STEPS = (32, 256), 40
_PATIENCE, _MOST_EPOCHS, _MOST_QUERIES = 3, 25, 1_500_000
# Training queries below which there is nothing to learn from, and held-out ones to judge by.
_LEAST_QUERIES, _LEAST_JUDGED = 400, 100
_STRETCHES = 50
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


class _Problem(NamedTuple):
    """What is trained on: inputs, targets, events to learn from and to judge by."""

    past: PastTokens
    targets: WaitTargets
    learned: Int64[np.ndarray, "learned"]
    judged: Int64[np.ndarray, "judged"]


def fit_time_correction(
    part: TimePart,
    streams: EventStreams,
    trained: tuple[Bool[np.ndarray, "events"], Bool[np.ndarray, "spells"]],
    *,
    seed: int,
    progress: bool,
) -> tuple[TimeCorrection | None, Gain | None]:
    """A correction of a part that was fitted to the training spells; None where it adds nothing."""
    learned, judged = _queries(spells_of(streams), trained)
    if len(learned) < _LEAST_QUERIES or len(judged) < _LEAST_JUDGED:
        return None, None
    generator = torch.Generator().manual_seed(seed)
    sizes = (max(1, streams.groups.n_items), len(streams.groups.values))
    network = WaitAttention(*sizes, generator=generator)
    network.set_scales(*scales_of(part, streams))
    past = past_tokens(part, streams, network)
    problem = _Problem(past, wait_targets(part, streams), learned, judged)
    kept = _train(network, problem, generator, progress=progress)
    gains = {gate: _added(kept, gate, problem) for gate in GATES}
    gate = max(gains, key=lambda gate: gains[gate].mean())
    base = float(np.nanmean(part.log_probs(streams)[0][judged]))
    gain = _gain(gains[gate], gate, streams, problem, base=base)
    if not gain.low > 0:
        # Less than chance explains.
        gate, gain = 0.0, _gain(gains[0.0], 0.0, streams, problem, base=base)
    return (TimeCorrection(kept, gate) if gate else None), gain


def _queries(
    spells: Spells, trained: tuple[Bool[np.ndarray, "events"], Bool[np.ndarray, "spells"]]
) -> tuple[Int64[np.ndarray, "learned"], Int64[np.ndarray, "judged"]]:
    """Events after which there is something to learn, or to judge."""
    events, of_spells = trained
    is_learned, after = events.copy(), spells.before >= 0
    is_learned[spells.before[after]] &= of_spells[after]
    return np.flatnonzero(is_learned), np.flatnonzero(~is_learned)


def _train(
    network: WaitAttention, problem: _Problem, generator: torch.Generator, *, progress: bool
) -> WaitAttention:
    """The running mean of the network, of the epoch that is best on the events judged by."""
    average = copy.deepcopy(network).eval()
    best, kept, since = 0.0, copy.deepcopy(average), 0
    optimizer = AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
    rows = torch.from_numpy(problem.learned)
    size = int(np.clip(len(rows) // _STEPS, *_BATCHES))
    n_epochs = int(np.clip(_MOST_QUERIES // len(rows), 2, _MOST_EPOCHS))
    with StepProgress("attention on waits", total=n_epochs, shown=progress) as bar:
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
def _follow(average: WaitAttention, network: WaitAttention) -> None:
    for mean, new in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(new, 1 - _AVERAGE)


@torch.no_grad()
def _added(network: WaitAttention, gate: float, problem: _Problem) -> Float[np.ndarray, "judged"]:
    """Nats that a gated network adds at the events judged by."""
    correction, rows = TimeCorrection(network, gate), problem.judged
    logits = torch.from_numpy(correction.logits_at(problem.past, rows)).float()
    return problem.targets.gains(logits, torch.from_numpy(rows)).double().numpy()


def _gain(
    added: Float[np.ndarray, "judged"],
    gate: float,
    streams: EventStreams,
    problem: _Problem,
    *,
    base: float,
) -> Gain:
    """What was added, with an interval over streams, or stretches of few."""
    block, what = streams.stream[problem.judged], "validation streams"
    if len(np.unique(block)) < _STRETCHES:
        block, what = np.arange(len(added)) * _STRETCHES // len(added), "validation stretches"
    sums, size = np.bincount(block, weights=added), np.bincount(block).astype(float)
    return gain_of_sums(sums, size, base * len(added), weights=(1.0, gate), groups=what)
