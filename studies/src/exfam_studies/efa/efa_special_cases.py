"""Latent factor models are special cases of attention: propositions 1, 2 and 3, by construction.

Nothing is fitted: "max-difference" is the largest difference, over random groups and weights, of
natural parameters and of log-probabilities in nats, in double precision.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.families import Family, Gaussian, Poisson
from exfam.fields.declarations import LatentFactorParameters
from exfam.fields.networks.factor_network import build_field_latent_factor
from exfam.groups import Batch, Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.efa.special_cases import (
    field_from_latent_factor,
    items_from_latent_factor,
    values_from_latent_factor,
)

TASKS = ("proposition-1", "proposition-2", "proposition-3")
SEEDS = 5
DIM = 8
N_ITEMS = 30
N_GROUPS, FAST_GROUPS = 100, 10
LONGEST = 20
COLUMN = "value"
_SETTINGS = LatentFactorSettings(dim=DIM, intercept=False)
_TwoPart = partial(TwoPartModel, direction="bidirectional")
# A latent factor model and the attention that is to equal it.
_Pair = tuple[TwoPartModel, TwoPartModel]


class _Case(NamedTuple):
    """A proposition, how to build both of its sides, and the share of values that are missing."""

    task: str
    settings: dict[str, str | int]
    build: Callable[[Groups, int], _Pair]
    missing: float


def run(options: Options) -> list[Row]:
    """Build and compare, for the wanted propositions."""
    n_seeds, n_groups = options.n_seeds(SEEDS), FAST_GROUPS if options.fast else N_GROUPS
    return [
        Row(
            task=case.task,
            model="efa",
            settings={"dim": DIM, **case.settings},
            metric="max-difference",
            value=max(_difference(case, seed=seed, n_groups=n_groups) for seed in range(n_seeds)),
            n_seeds=n_seeds,
        )
        for case in CASES
        if options.wants(case.task)
    ]


def _difference(case: _Case, *, seed: int, n_groups: int) -> float:
    """Largest difference of the parameters and of the log-probabilities, over random groups."""
    groups = _groups(seed, n_groups=n_groups, missing=case.missing)
    batch = groups.pad(np.arange(len(groups)))
    with torch.no_grad():
        sides = (_figures(model, batch) for model in case.build(groups, seed))
        return max(float((one - two).abs().max()) for one, two in zip(*sides, strict=True))


def _figures(model: TwoPartModel, batch: Batch) -> list[torch.Tensor]:
    part: Any = model.item_part if model.value_part is None else model.value_part
    return [part.eta(batch)[batch.target], model.log_prob(batch).total()]


def _groups(seed: int, *, n_groups: int, missing: float) -> Groups:
    """Groups of 2 to LONGEST elements: items, values 1 to 3 and coordinates at random."""
    random = np.random.default_rng(seed)
    length = random.integers(2, LONGEST + 1, n_groups)
    stop = np.cumsum(length)
    n = int(stop[-1])
    item = np.concatenate([random.permutation(N_ITEMS)[:own] for own in length])
    return Groups(
        start=stop - length,
        stop=stop,
        item=item.astype(np.int32),
        values={COLUMN: random.integers(1, 4, n).astype(np.float64)},
        observed=random.random(n) >= missing,
        attributes={"coordinates": random.uniform([25.0, -120.0], [50.0, -70.0], (n, 2))},
        vocabulary={"item": np.arange(N_ITEMS)},
    )


def _items(groups: Groups, seed: int) -> _Pair:
    part = _drawn(partial(build_latent_factor_items, N_ITEMS, _SETTINGS), seed)
    return _TwoPart(item_part=part), _TwoPart(item_part=items_from_latent_factor(part))


def _values(groups: Groups, seed: int) -> _Pair:
    families = {COLUMN: Poisson(shift=1)}
    part = _drawn(partial(build_latent_factor_values, N_ITEMS, families, _SETTINGS), seed)
    return _pair(part, values_from_latent_factor(part), families[COLUMN])


def _field(k: int | None, groups: Groups, seed: int) -> _Pair:
    settings = LatentFactorParameters(dim=DIM, hidden_dim=DIM, k=k)
    build = partial(build_field_latent_factor, groups, settings, metric="haversine")
    part = _drawn(build, seed)
    return _pair(part, field_from_latent_factor(part, column=COLUMN), Gaussian())


def _pair(part: nn.Module, attention: nn.Module, family: Family) -> _Pair:
    value = partial(_TwoPart, families={COLUMN: family})
    return value(value_part=part), value(value_part=attention)


def _drawn(build: Callable[..., Any], seed: int) -> Any:
    """The part in double precision, all its weights drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    part = build(generator=generator).double()
    with torch.no_grad():
        for parameter in part.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn / DIM**0.5)
    return part


# Proposition 2 sums over all neighbors, and over as many as the paper found best; proposition 3
# divides by the number of values, attention by that of elements: none is missing.
CASES = [
    _Case("proposition-1", {}, _items, missing=0.0),
    _Case("proposition-2", {"k": "all"}, partial(_field, None), missing=0.1),
    _Case("proposition-2", {"k": 5}, partial(_field, 5), missing=0.1),
    _Case("proposition-3", {}, _values, missing=0.0),
]
