"""Settings of a base compared on the same held-out maps: which is better by more than chance."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from exfam.estimator.gain import Gain, gain_of_sums
from exfam.families import Gaussian
from exfam.fields.base.limits import nats_of
from exfam.fields.base.trials import Settings, Trials

# Blocks of neighboring maps that errors of a gain are taken over: as many, or shorter ones.
MAPS_OF_A_BLOCK, FEWEST_BLOCKS = 10, 8


class MapNats(NamedTuple):
    """Log densities of held-out maps: of each its row, the sum over its values, their number."""

    row: Int64[Tensor, "maps"]
    nats: Float64[Tensor, "maps"]
    number: Float64[Tensor, "maps"]

    def take(self, index: Tensor) -> "MapNats":
        """Some of the maps."""
        return MapNats(*(part[index] for part in self))

    def since(self, row: Int64[Tensor, ""]) -> "MapNats":
        """The maps from a row on."""
        return self.take(self.row >= row)

    def gain_on(self, other: "MapNats") -> Gain:
        """What these nats have more than others, by blocks of the maps that both have."""
        ours = self.take(torch.isin(self.row, other.row))
        theirs = other.take(torch.isin(other.row, self.row))
        n_of_block = max(1, min(MAPS_OF_A_BLOCK, len(ours.row) // FEWEST_BLOCKS))
        block = torch.arange(len(ours.row)) // n_of_block
        return gain_by_block(ours.nats - theirs.nats, ours.number, block, float(theirs.nats.sum()))


def gain_by_block(
    added: Float[Tensor, "parts"],
    size: Float[Tensor, "parts"],
    block: Int64[Tensor, "parts"],
    base: float,
    *,
    gate: float = 1.0,
) -> Gain:
    """The gain of parts with so many values each, by blocks that increase; `base`: nats of all."""
    zeros = torch.zeros(int(block[-1]) + 1).double()
    total, count = (zeros.index_add(0, block, part.double()).numpy() for part in (added, size))
    return gain_of_sums(total, count, base, weights=(1.0, gate))


def map_nats(trials: Trials, settings: Settings) -> MapNats:
    """The nats of each held-out map under some settings of the trials' courses."""
    parts = []
    for fold, given in trials.given(settings.shrinkage, settings.n_near):
        own = fold.evidence.first(len(fold.log_scale))
        shown = own.shown
        eta = given.student_t(settings.df, settings.tails)
        nats = nats_of(own.values, eta, own.censored, own.limit)
        density = True if own.censored is None else ~own.censored
        nats = nats - fold.log_scale * density
        parts.append((fold.row, torch.where(shown, nats, 0.0).sum(1), shown.double().sum(1)))
    return MapNats(*(torch.cat(part) for part in zip(*parts, strict=True)))


def nats_alone(trials: Trials) -> float:
    """Nats of held-out values given no other, as Gaussians of what is normal at their sites."""
    total = 0.0
    for fold in trials.folds:
        own = fold.evidence.first(len(fold.log_scale))
        nats = Gaussian().log_prob(own.values, torch.zeros(*own.values.shape, 2).double())
        total += float(torch.where(own.shown, nats - fold.log_scale, 0.0).sum())
    return total
