"""Fits the link of linear scores to held-out groups, by which their settings are chosen, too."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.base.left_out import LeftOut, TargetInputs
from exfam.efa.base.linear import LEAST_POWER, LINEAR_START, LinearItems
from exfam.efa.base.scoring import Tile, fit_numbers, hold_of, rows_of_tiles
from exfam.groups import Groups

# Outputs that the numbers are fitted to, and items of larger catalogs that they are of.
MOST_OUTPUTS, MOST_ITEMS = 2_000_000, 5_000


class FittedLink(NamedTuple):
    """A base whose numbers are fitted, and its nats a target: fewer are better."""

    base: LinearItems
    nats: float


def draw_targets(
    groups: Groups, count: Float[np.ndarray, "items"], *, seed: int, hard: bool
) -> LeftOut:
    """Some targets of held-out groups, which `count` is not of: any item may be one."""
    most: Any = {"most_items": MOST_ITEMS, "most_outputs": MOST_OUTPUTS}
    return LeftOut.draw(groups, count, **most, seed=seed, hard=hard, least=0)


def fit_linear_link(base: LinearItems, targets: LeftOut) -> FittedLink:
    """The base with the link of the least nats on the targets."""
    inputs = targets.inputs(base)
    chance = base.chance(inputs.link.score)

    def tiles(numbers: Tensor) -> Iterator[Tile]:
        return _tiles(inputs, chance, numbers.to(chance).view(2, 2))

    start = torch.tensor(LINEAR_START).flatten()
    hold = hold_of(len(chance))
    numbers, nats = fit_numbers(tiles, start=start, center=start, hold=hold)
    base.numbers.copy_(numbers.view(2, 2))
    return FittedLink(base, nats)


def _tiles(
    inputs: TargetInputs, chance: Float[Tensor, "rows chosen"], numbers: Float[Tensor, "two two"]
) -> Iterator[Tile]:
    """Outputs of some rows at a time, with their slopes in the power and in log kappa."""
    for rows in rows_of_tiles(*chance.shape):
        log_size = inputs.link.log_size[rows]
        line = numbers[0] + numbers[1] * log_size[:, None]
        power = line[:, :1].clamp_min(LEAST_POWER)
        share = (line[:, 1:] + inputs.link.log_popularity[rows]).exp()
        inside = chance[rows] + share
        logs = inside.log()
        factors = torch.stack([torch.ones_like(log_size), log_size], 1)
        slopes = [logs, power * share / inside]
        yield power * logs + inputs.added[rows], slopes, inputs.item[rows], factors
