"""Attention on innovations: one network for each block of time, and how much of them is kept."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.estimator.gain import Gain
from exfam.fields.base.trials import MAPS_OF_A_BLOCK, gain_by_block
from exfam.fields.correction.cross_fit import Crossing, Examples
from exfam.fields.correction.tokens import Innovations, NearPairs
from exfam.layers import Dropout, lend_generator, linear, mlp
from exfam.training.adamw import AdamW
from exfam.training.optimizer import clip_gradients
from exfam.training.progress import StepProgress

N_HEADS, HIDDEN, DROPOUT = 4, 16, 0.1
# E|u| of a standard normal: what is above says that neighbors are wild.
USUAL_SIZE = 0.8

Shifts = Float[Tensor, "rows targets 2"]

LEARNING_RATE, WEIGHT_DECAY, CLIP = 3e-3, 0.01, 1.0
LEAST_BATCH, BATCH_SHARE = 32, 1 / 32
LEAST_STEPS, MOST_EPOCHS, PATIENCE = 20, 25, 5
AVERAGE = 0.98
GATES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)


class PairAttention(nn.Module):
    """(shift of the location in standard deviations, shift of the log scale) of each target.

    Weights over the columns near a target come from the pair's features alone; read are their
    innovations, the sizes of these and, with three reads, whether they are censored. The last layer
    is zero at the start.
    """

    def __init__(
        self, n_pair: int, n_context: int, *, n_reads: int = 2, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.n_reads = n_reads
        self.scores = mlp([n_pair, HIDDEN, N_HEADS], generator=generator)
        self.first = mlp([n_reads * N_HEADS + n_context, HIDDEN], generator=generator)
        self.dropout = Dropout(DROPOUT)
        self.last = linear(HIDDEN, 2, generator=generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def weights(self, pairs: NearPairs) -> Float[Tensor, "rows targets near heads"]:
        """Of each head over the columns near each target; 0 where there is none."""
        used = pairs.used[..., None]
        scores = torch.where(used, self.scores(pairs.features), -torch.inf)
        # Where nothing is shown, weights of no columns are no numbers.
        weights = torch.where(used, scores.softmax(-2), 0.0)
        return weights[pairs.pattern]

    def forward(self, tokens: Innovations, pairs: NearPairs) -> Shifts:
        """The shifts of all targets of some rows."""
        weights, u = self.weights(pairs), tokens.innovation
        values = [u, u.abs() - USUAL_SIZE]
        if self.n_reads > len(values):
            values.append(torch.zeros_like(u) if tokens.censored is None else tokens.censored)
        read = [torch.einsum("...jh,...j->...h", weights, value) for value in values]
        hidden = self.first(torch.cat([*read, tokens.context], -1))
        return self.last(self.dropout(nn.functional.gelu(hidden)))


class Gates(NamedTuple):
    """How much of the shifts of location and of log scale is kept."""

    location: float
    scale: float


CLOSED = Gates(0.0, 0.0)


def fit_corrections(
    crossing: Crossing, *, seeds: Sequence[int], most_epochs: int, progress: bool
) -> tuple[list[PairAttention], Gates, Gain]:
    """A correction for each block that stopped it and each seed, their gates and their gain."""
    folds, most_epochs = crossing.fold.unique().tolist(), min(most_epochs, MOST_EPOCHS)
    members, stops, shifts = [], [], []
    total = len(folds) * len(seeds) * most_epochs
    with StepProgress("attention on innovations", total=total, shown=progress) as bar:
        for k in folds:
            stop, rows = crossing.stopping(k)
            of_seeds = []
            for seed in seeds:
                generator = torch.Generator().manual_seed(seed * len(folds) + k)
                member = _train(crossing, k, generator, most_epochs, advance=bar.advance)
                members.append(member)
                with torch.no_grad():
                    of_seeds.append(member(stop.tokens, crossing.pairs.take(rows)))
            stops.append(stop)
            shifts.append(torch.stack(of_seeds).mean(0))
    gates, gain = choose_gates(stops, shifts)
    return members, gates, gain


def _train(
    crossing: Crossing,
    k: int,
    generator: torch.Generator,
    most_epochs: int,
    *,
    advance: Callable[[], None],
) -> PairAttention:
    """A network trained outside block k and stopped by it."""
    train, rows = crossing.training(k)
    stop, stop_rows = crossing.stopping(k)
    pairs, n = crossing.pairs, len(rows)
    network = PairAttention(
        pairs.features.shape[-1],
        train.tokens.context.shape[-1],
        n_reads=2 if train.tokens.censored is None else 3,
        generator=generator,
    )
    average = copy.deepcopy(network).eval()
    parameters: list[Any] = list(network.parameters())
    averages: list[Any] = list(average.parameters())
    optimizer = AdamW(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    size = min(n, max(LEAST_BATCH, int(n * BATCH_SHARE)))
    of_stop = pairs.take(stop_rows)
    best, kept, since = _mean_nats(average, stop, of_stop), copy.deepcopy(average), 0
    for _ in range(most_epochs):
        network.train()
        with lend_generator(generator, network):
            for batch in _batches(n, size, generator):
                examples = train.take(batch)
                shifts = network(examples.tokens, pairs.take(rows[batch]))
                loss = -examples.nats(shifts).sum() / examples.shown.sum().clamp_min(1)
                optimizer.zero_grad()
                loss.backward()
                clip_gradients([p.grad for p in parameters if p.grad is not None], CLIP)
                optimizer.step()
                with torch.no_grad():
                    torch._foreach_lerp_(averages, parameters, 1 - AVERAGE)
        advance()
        nats = _mean_nats(average, stop, of_stop)
        since += 1
        if nats > best:
            best, kept, since = nats, copy.deepcopy(average), 0
        if since >= PATIENCE:
            break
    return kept


def _batches(n: int, size: int, generator: torch.Generator) -> list[Int64[Tensor, "size"]]:
    """Rows of one epoch, which has at least twenty steps."""
    n_steps = max(LEAST_STEPS, n // size)
    passes = -(-n_steps * size // n)
    order = torch.cat([torch.randperm(n, generator=generator) for _ in range(passes)])
    return list(order[: n_steps * size].split(size))


@torch.no_grad()
def _mean_nats(network: PairAttention, examples: Examples, pairs: NearPairs) -> float:
    nats = examples.nats(network(examples.tokens, pairs))
    return float(nats.sum() / examples.shown.sum().clamp_min(1))


@torch.no_grad()
def choose_gates(
    stops: list[Examples], shifts: list[Float[Tensor, "rows targets 2"]]
) -> tuple[Gates, Gain]:
    """The gates under which held-out values are likeliest; closed where the gain may be chance.

    Locations are not moved so far that squared errors clearly grow: where values lie in two heaps,
    the likeliest location is in one of them, and the best mean between both.
    """
    values = torch.cat([stop.shown.sum(1) for stop in stops]).double()
    alone = _row_nats(stops, shifts, CLOSED)
    tried = {
        Gates(location, scale): _row_nats(stops, shifts, Gates(location, scale))
        for location in GATES
        if not _is_worse(stops, shifts, values, location)
        for scale in GATES
    }
    best = max(tried, key=lambda gates: float(tried[gates].sum()))
    gain = _gain(tried[best] - alone, values, alone, gate=max(best))
    if gain.low > 0 or best == CLOSED:
        return best, gain
    return CLOSED, _gain(0 * alone, values, alone, gate=0.0)


def _is_worse(
    stops: list[Examples], shifts: list[Tensor], values: Float64[Tensor, "rows"], gate: float
) -> bool:
    """Whether squared errors grow by more than chance; never of locations that are no means."""
    if not gate or any(stop.limit is not None for stop in stops):
        return False
    pairs = zip(stops, shifts, strict=True)
    rows = [stop.squares(0 * shift) - stop.squares(gate * shift) for stop, shift in pairs]
    saved = torch.cat([row.double().sum(1) for row in rows])
    return _gain(saved, values, saved, gate=1.0).high < 0


def _gain(
    added: Float64[Tensor, "rows"],
    values: Float64[Tensor, "rows"],
    base: Float64[Tensor, "rows"],
    *,
    gate: float,
) -> Gain:
    """By blocks of maps that follow each other, which are alike."""
    block = torch.arange(len(added)) // MAPS_OF_A_BLOCK
    return gain_by_block(added, values, block, float(base.sum()), gate=gate)


def _row_nats(stops: list[Examples], shifts: list[Tensor], gates: Gates) -> Tensor:
    weight = torch.tensor(gates)
    pairs = zip(stops, shifts, strict=True)
    return torch.cat([stop.nats(shift * weight).double().sum(1) for stop, shift in pairs])
