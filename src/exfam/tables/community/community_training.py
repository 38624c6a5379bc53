"""What a network adds to `eta` of a base, and how it is trained: from exactly zero, for each fold.

    eta_s = base_s + gate (sum_t W_st r_t + v_s . relu(A env + B r + D known + b))

of the residuals r of known species, 0 for others; W has no diagonal, and for a known species the
hidden units are those without its own value.

A fold's networks learn from the rows that its base was fitted on, with the base's own offsets: with
offsets of other folds they gain nothing, since these lean against what is held out. The held-out
rows of all folds choose when to stop and how much of the correction is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.estimator.gain import Gain, gain_of_sums
from exfam.layers import Dropout, lend_generator, linear
from exfam.tables.community.association import Association, Known, Sites, known_at, shifts
from exfam.tables.community.environment import Observed
from exfam.training.adamw import AdamW

Site = Float[np.ndarray, "sites"]

# Rows and cells that are corrected at once.
_AT_ONCE = 4_000_000
_ENV_LIMIT = 6.0

N_HIDDEN = 64
GATES = (0.0, 0.25, 0.5, 0.75, 1.0)
_DROPOUT, _RATE, _DECAY = 0.3, 1e-3, 0.3
# Batches share the species that are known; each fold has a few such views of its rows.
_BATCHES, _N_VIEWS = {0: 32, 1500: 64, 4000: 128}, 6
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Epochs at most, between two looks at held-out rows, and looks without a gain.
_MOST_EPOCHS, _EPOCHS_PER_LOOK, _PATIENCE = 60, 4, 3
# Cells above which a fold has one network, not three.
_FEW_CELLS = 100_000
# Standard errors that a gain is less by when gates are chosen.
_CAUTION = 0.5
# Sites below which nothing could judge a correction.
FEWEST_SITES = 50


@dataclass(frozen=True, eq=False)
class Correction:
    """Networks of all folds, averaged, and the gate; arrays of networks are stacked."""

    pairs: Float[np.ndarray, "folds species species"]
    inward: Float[np.ndarray, "folds hidden inputs"]
    bias: Float[np.ndarray, "folds hidden"]
    outward: Float[np.ndarray, "folds species hidden"]
    gate: float

    def shift(self, env: Sites, residual: Sites, known: Known) -> Sites:
        """What is added to `eta` of each species, which does not see its own value."""
        total = np.zeros_like(env)
        for f in range(len(self.pairs)):
            total += added(self.network(f), env, residual, known)
        return self.gate * total / max(len(self.pairs), 1)

    def shift_of(self, env: Sites, residual: Sites, known: Known, *, species: int) -> Site:
        """What `shift` has for one species."""
        known = known & (np.arange(env.shape[1]) != species)
        given, total = np.where(known, residual, 0.0), np.zeros(len(env))
        inputs = np.concatenate([clipped_env(env), given, known], axis=1)
        for pairs, inward, bias, outward in map(self.network, range(len(self.pairs))):
            hidden = np.maximum(inputs @ inward.T + bias, 0.0)
            total += given @ pairs[species] + hidden @ outward[species]
        return self.gate * total / max(len(self.pairs), 1)

    def network(self, f: int) -> tuple[np.ndarray, ...]:
        """The arrays of one fold."""
        return self.pairs[f], self.inward[f], self.bias[f], self.outward[f]


def correction_of(arrays: Sequence[np.ndarray], *, gate: float) -> Correction:
    """The correction of stacked arrays: of pairs, inward, bias and outward."""
    pairs, inward, bias, outward = arrays
    return Correction(pairs, inward, bias, outward, gate)


def added(network: tuple[np.ndarray, ...], env: Sites, residual: Sites, known: Known) -> Sites:
    """What one network adds; hidden units of a known species are those without its value."""
    pairs, inward, bias, outward = network
    n_species = env.shape[1]
    of_env, of_given, of_known = np.split(inward, [n_species, 2 * n_species], axis=1)
    given = np.where(known, residual, 0.0)
    shift = given @ pairs.T
    before = clipped_env(env) @ of_env.T + given @ of_given.T + known @ of_known.T + bias
    step = max(1, _AT_ONCE // (n_species * len(bias)))
    for first in range(0, len(env), step):
        rows = slice(first, first + step)
        own = given[rows, :, None] * of_given.T + known[rows, :, None] * of_known.T
        hidden = np.maximum(before[rows, None] - own, 0.0)
        shift[rows] += np.einsum("nsh,sh->ns", hidden, outward)
    return shift


def clipped_env(env: Sites) -> Sites:
    """`eta` of the environment as networks see it."""
    return np.clip(env, -_ENV_LIMIT, _ENV_LIMIT)


class CommunityNetwork(nn.Module):
    """What is added to `eta`, for species that are not known."""

    def __init__(self, n_species: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.zeros(n_species, n_species))
        self.inward = linear(3 * n_species, N_HIDDEN, generator=generator)
        self.outward = linear(N_HIDDEN, n_species, generator=generator, bias=False)
        self.dropout = Dropout(_DROPOUT)
        with torch.no_grad():
            self.outward.weight.zero_()

    def forward(
        self,
        env: Float[Tensor, "sites species"],
        given: Float[Tensor, "sites species"],
        known: Float[Tensor, "sites species"],
    ) -> Float[Tensor, "sites species"]:
        pairs = self.pairs - torch.diag(torch.diagonal(self.pairs))
        hidden = self.inward(torch.cat([env, given, known], dim=1)).relu()
        return given @ pairs.T + self.outward(self.dropout(hidden))


@dataclass(frozen=True, eq=False)
class FoldRows:
    """Rows of a fold with what was seen: `eta` and residuals of a regression."""

    env: Sites
    residual: Sites
    seen: Observed


@dataclass(frozen=True, eq=False)
class FoldData:
    """What a fold's network learns from, by the regression fitted on these rows.

    `held_out`: the rows that judge it, by a regression that has not seen them
    """

    train: FoldRows
    held_out: FoldRows
    association: Association
    log_size: Float[np.ndarray, "species"]


@dataclass(frozen=True, eq=False)
class KnownView:
    """Rows with a choice of known species, and `eta` of the base given these."""

    known: Known
    base: Sites


def _view(link: Association, env: Sites, residual: Sites, known: Known) -> KnownView:
    shift = shifts(link.correlation, residual, known, ridge=link.ridge)
    return KnownView(known, env + link.scale * shift)


def _training_views(
    data: FoldData, random: np.random.Generator
) -> list[tuple[np.ndarray, KnownView]]:
    """Batches of rows with the species that are known of each, in several views of all rows."""
    train, link = data.train, data.association
    n, n_species = train.env.shape
    size = max(size for least, size in _BATCHES.items() if n >= least)
    batches = []
    for _ in range(_N_VIEWS):
        order = random.permutation(n)
        for first in range(0, n, size):
            rows = order[first : first + size]
            drawn = random.random(n_species) < random.random()
            known = train.seen.there[rows] & drawn
            batches.append((rows, _view(link, train.env[rows], train.residual[rows], known)))
    return batches


class FoldTraining:
    """One fold's network while it is trained, an epoch at a time."""

    def __init__(self, data: FoldData, seed: int) -> None:
        self.data = data
        self.random = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.network = CommunityNetwork(data.train.env.shape[1], generator=self.generator)
        self.optimizer = AdamW(self.network.parameters(), lr=_RATE, weight_decay=_DECAY)
        self.batches = _training_views(data, self.random)
        held = data.held_out
        self.views = [
            _view(
                data.association,
                held.env,
                held.residual,
                known_at(held.seen.there, share, self.random),
            )
            for share in _SHARES
        ]

    def epoch(self, number: int) -> None:
        """Steps through one view of the rows."""
        per_view = len(self.batches) // _N_VIEWS
        first = number % _N_VIEWS * per_view
        self.network.train()
        with lend_generator(self.generator, self.network):
            for rows, view in self.batches[first : first + per_view]:
                self._step(rows, view)
        self.network.eval()

    def _step(self, rows: np.ndarray, view: KnownView) -> None:
        train, seen = self.data.train, self.data.train.seen[rows]
        given = np.where(view.known, train.residual[rows], 0.0)
        inputs = (clipped_env(train.env[rows]), given, view.known)
        tensors = [torch.as_tensor(array, dtype=torch.float32) for array in inputs]
        target = seen.there & ~view.known
        shift = self.network(*tensors)
        eta = view.base + shift.detach().double().numpy()
        score, _ = seen.response.score_and_information(seen.value, eta, self.data.log_size)
        slope = -np.where(target, score, 0.0) / max(int(target.sum()), 1)
        self.optimizer.zero_grad()
        shift.backward(torch.as_tensor(slope * eta.shape[1], dtype=torch.float32))
        self.optimizer.step()

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The network as arrays, in double precision."""
        pairs = self.network.pairs.detach().double().numpy().copy()
        np.fill_diagonal(pairs, 0.0)
        inward, outward = self.network.inward, self.network.outward
        more = (inward.weight, inward.bias, outward.weight)
        return pairs, *(part.detach().double().numpy().copy() for part in more)


def fit_correction(
    folds: Sequence[FoldData], *, seed: int, everywhere: bool
) -> tuple[Correction | None, Gain]:
    """The networks of all folds, and what they add on held-out rows; None if that is nothing.

    `everywhere`: whether they must add something in every fold
    """
    n_members = 3 if folds[0].train.env.size <= _FEW_CELLS else 1
    trainings = [
        [FoldTraining(data, seed + 100 * f + m) for m in range(n_members)]
        for f, data in enumerate(folds)
    ]
    sizes = np.concatenate([data.held_out.seen.there.sum(1) for data in folds]).astype(np.float64)
    numbers = np.repeat(np.arange(len(folds)), [len(data.held_out.env) for data in folds])
    parts = [numbers == f for f in range(len(folds))] if everywhere else []
    start = _judge(trainings)[0]
    best, gate, kept, waited = 0.0, 0, trainings_arrays(trainings), 0
    added_nats = np.zeros_like(start)
    for epoch in range(_MOST_EPOCHS):
        for training in sum(trainings, []):
            training.epoch(epoch)
        if (epoch + 1) % _EPOCHS_PER_LOOK:
            continue
        gains = start - _judge(trainings)
        safe = [_safe_gain(gain, sizes, parts) for gain in gains]
        waited += 1
        if max(safe) > best + 1e-7:
            best, gate, waited = max(safe), int(np.argmax(safe)), 0
            kept, added_nats = trainings_arrays(trainings), gains[gate]
        if waited >= _PATIENCE:
            break
    gain = gain_of_sums(
        added_nats, sizes, float(start.sum()), weights=(1.0, GATES[gate]), part="The correction"
    )
    return (correction_of(kept, gate=GATES[gate]) if gate else None), gain


def trainings_arrays(trainings: Sequence[Sequence[FoldTraining]]) -> tuple[np.ndarray, ...]:
    """The arrays of all networks, stacked."""
    arrays = [training.arrays() for fold in trainings for training in fold]
    return tuple(np.stack(parts) for parts in zip(*arrays, strict=True))


def _judge(
    trainings: Sequence[Sequence[FoldTraining]],
) -> Float[np.ndarray, "gates sites"]:
    """Nats of each held-out row with each gate, means over shares of known species."""
    return np.concatenate([_judge_fold(fold) for fold in trainings], axis=1)


def _judge_fold(fold: Sequence[FoldTraining]) -> Float[np.ndarray, "gates held"]:
    held, log_size = fold[0].data.held_out, fold[0].data.log_size
    total = np.zeros((len(GATES), len(held.env)))
    networks = [training.arrays() for training in fold]
    for view in fold[0].views:
        parts = [added(network, held.env, held.residual, view.known) for network in networks]
        shift = np.mean(parts, axis=0)
        for k, gate in enumerate(GATES):
            nats = held.seen.nats(view.base + gate * shift, log_size)
            total[k] += nats.sum(1) / len(fold[0].views)
    return total


def _safe_gain(
    gain: Float[np.ndarray, "sites"],
    size: Float[np.ndarray, "sites"],
    parts: Sequence[Bool[np.ndarray, "sites"]],
) -> float:
    """The mean gain of a cell less half a standard error by sites; at most that of each part."""
    n, n_cells = len(gain), max(float(size.sum()), 1.0)
    mean = float(gain.sum()) / n_cells
    rest = float(np.square(gain - mean * size).sum()) * n / max(n - 1, 1)
    of_parts = [float(gain[part].sum()) / max(float(size[part].sum()), 1.0) for part in parts]
    return min([mean - _CAUTION * rest**0.5 / n_cells, *of_parts])
