"""Which attributes go with which: a softmax of products of features of items and contexts."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.networks.new_items import profiles
from exfam.groups import Groups
from exfam.groups.arrange import sampled_groups, sequential_batches

# Targets at most, outputs in a step, steps and their size.
_TARGETS, _OUTPUTS, _STEPS, _RATE = 20_000, 2_000_000, 200, 0.02
# How firmly products are held at 0, in nats a target.
_HOLD = 1e-4


def fit_taste(
    groups: Groups, features: Float[np.ndarray, "items features"], *, direction: str, seed: int
) -> Float[np.ndarray, "terms features"]:
    """W of p(j | context) ~ exp(x_j . W'(1, mean x of the context)), by Adam on some targets."""
    items = torch.from_numpy(features).float()
    profile, item = _targets(groups, items, direction=direction, seed=seed)
    taste = torch.zeros(profile.shape[1], items.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([taste], lr=_RATE)
    generator = torch.Generator().manual_seed(seed)
    size = max(100, _OUTPUTS // max(1, len(items)))
    for step in range(_STEPS if len(item) else 0):
        for options in optimizer.param_groups:
            options["lr"] = _RATE * (1 - step / _STEPS)
        some = torch.randint(len(item), (min(size, len(item)),), generator=generator)
        eta = profile[some] @ taste @ items.T
        nats = torch.nn.functional.cross_entropy(eta, item[some])
        optimizer.zero_grad()
        (nats + _HOLD * taste.square().sum()).backward()
        optimizer.step()
    return taste.detach().double().numpy()


def _targets(
    groups: Groups, features: Float[Tensor, "items features"], *, direction: str, seed: int
) -> tuple[Float[Tensor, "targets terms"], Tensor]:
    """Profiles of the contexts of some targets, and their items."""
    some = sampled_groups(groups, _TARGETS, np.random.default_rng([seed, 12]))
    found = [torch.zeros(0, 1 + features.shape[1])]
    items = [torch.zeros(0, dtype=torch.int64)]
    for index in sequential_batches(some, max_tokens=4_000):
        batch = some.pad(index)
        assert batch.item is not None
        where = batch.target & (batch.item >= 0)
        found.append(profiles(features, batch, direction)[where])
        items.append(batch.item[where].long())
    return torch.cat(found), torch.cat(items)
