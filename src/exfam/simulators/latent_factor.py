"""Latent factor data of any family."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64

from exfam.checks import check_positive
from exfam.families import Family
from exfam.groups import Groups

__all__ = ["Simulated", "simulate_latent_factor"]


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated groups and the truth behind them.

    `eta` holds the parameters of the family for each element; `score` is their first column.
    """

    groups: Groups
    eta: Float[np.ndarray, "elements params"]
    group_factor: Float[np.ndarray, "groups rank"]
    item_factor: Float[np.ndarray, "items rank"]
    item_offset: Float[np.ndarray, "items"]


def simulate_latent_factor(
    n_groups: int,
    *,
    family: Family,
    seed: int,
    n_items: int = 20,
    rank: int = 2,
    scale: float = 0.5,
    mean_length: float = 8.0,
) -> Simulated:
    """Values of one family whose first parameter is a group's factor times an item's, plus offset.

    Each group has items in random order, none twice, about `mean_length` of them; items that suit
    the group's factor come more often. The first parameter of value i is
    scale (u_g . v_i + b_i) with standard normal u, v / sqrt(rank) and b; the others are 0.

    >>> from exfam.families import Poisson
    >>> simulated = simulate_latent_factor(100, family=Poisson(shift=1), seed=0)
    >>> bool((simulated.groups.values["value"] >= 1).all())
    True
    """
    check_positive("n_groups", n_groups)
    check_positive("n_items", n_items)
    check_positive("rank", rank)
    check_positive("mean_length", mean_length)
    random = np.random.default_rng(seed)
    group_factor = random.normal(size=(n_groups, rank))
    item_factor = random.normal(size=(n_items, rank)) / np.sqrt(rank)
    item_offset = random.normal(size=n_items)
    score = scale * (group_factor @ item_factor.T + item_offset)
    share = np.clip((mean_length - 1) / max(1, n_items - 1), 0.0, 1.0)
    length = 1 + random.binomial(n_items - 1, share, n_groups)
    group = np.repeat(np.arange(n_groups), length)
    item = _draw_items(score, length, random)
    eta = np.zeros((len(item), family.n_params))
    eta[:, 0] = score[group, item]
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    value = family.sample(torch.from_numpy(eta), generator=generator, item=torch.from_numpy(item))
    stop = np.cumsum(length)
    groups = Groups(
        start=stop - length,
        stop=stop,
        item=item,
        values={"value": value.numpy().astype(np.float64)},
        vocabulary={"item": np.arange(n_items)},
        group_names=np.arange(n_groups),
    )
    return Simulated(groups, eta, group_factor, item_factor, item_offset)


def _draw_items(
    score: Float[np.ndarray, "groups items"],
    length: Int64[np.ndarray, "groups"],
    random: np.random.Generator,
) -> Int64[np.ndarray, "elements"]:
    """So many items for each group, none twice, with odds exp(score), in random order."""
    # The largest scores with Gumbel noise are draws without replacement, likely ones first.
    ranked = np.argsort(-score - random.gumbel(size=score.shape), axis=1)
    item = ranked[np.arange(score.shape[1]) < length[:, None]]
    group = np.repeat(np.arange(len(length)), length)
    return item[np.lexsort((random.random(len(item)), group))]
