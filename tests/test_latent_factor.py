"""Latent factor parts: the formulas of propositions 1 and 3, and who sees whom."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.context import CONTEXT_POOLINGS
from exfam.efa.networks.efa_network import Dispersion, ItemBias
from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    LatentFactorValues,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.embeddings import ItemEmbedding, item_rows
from exfam.families import Categorical, Gaussian, Poisson
from exfam.likelihoods.two_part import DIRECTIONS
from model_cases import (
    first_elements,
    generator,
    groups_of_two_columns,
    make_groups,
    more_padding,
    permuted,
    redraw,
    whole,
    with_item,
    with_value,
)

N_ITEMS = 9
FAMILIES = {"value": Poisson(shift=1), "other": Gaussian()}
every_case = pytest.mark.parametrize(
    ("direction", "pooling"), list(product(DIRECTIONS, CONTEXT_POOLINGS))
)
every_part = pytest.mark.parametrize("name", ["items", "values"])


def items_part(direction, pooling, **options):
    settings = LatentFactorSettings(direction=direction, dim=4, pooling=pooling, **options)
    part = build_latent_factor_items(N_ITEMS, settings, generator=generator())
    return redraw(part, generator(1)).double()


def values_part(direction, pooling, *, families=FAMILIES, **options):
    settings = LatentFactorSettings(direction=direction, dim=4, pooling=pooling, **options)
    part = build_latent_factor_values(N_ITEMS, families, settings, generator=generator())
    return redraw(part, generator(1)).double()


def part_of(name, direction, pooling):
    if name == "items":
        return items_part(direction, pooling, mask_vector=True)
    return values_part(direction, pooling, dispersion="item")


def pooled_by_hand(vectors, shown, direction, pooling):
    """(row, element, pooled vectors of its context), one at a time."""
    for b, i in np.ndindex(*shown.shape):
        others = [j for j in range(shown.shape[1]) if j != i and shown[b, j]]
        visible = [j for j in others if direction == "bidirectional" or j < i]
        total = sum((vectors[b, j] for j in visible), torch.zeros(4).double())
        number = {"mean": max(len(visible), 1), "sum": 1, "paper": max(len(others), 1)}
        yield b, i, total / number[pooling]


@every_case
def test_eta_is_the_formula_of_propositions_1_and_3(direction, pooling):
    part = items_part(direction, pooling, mask_vector=True)
    batch = whole(make_groups(seed=2))
    rho, eta = part.center.vectors(), part.eta(batch)
    for b, i, pooled in pooled_by_hand(part.context(batch), batch.present, direction, pooling):
        torch.testing.assert_close(eta[b, i], rho @ (pooled + part.mask_vector) + part.intercept)
    # Columns of values share a context, have a factor each and keep their dispersions apart.
    names = ["value", "other"] if pooling == "mean" else ["other", "value"]
    part = values_part(direction, pooling, families={name: FAMILIES[name] for name in names})
    batch = whole(groups_of_two_columns(observed=np.random.default_rng(0).random(18) < 0.8))
    rho, eta = part.center.vectors().unflatten(-1, (2, 4)), part.eta(batch)
    value = torch.stack([batch.values[name] for name in names], dim=-1).double()
    vectors = (part.context(batch).unflatten(-1, (2, 4)) * value[..., None]).sum(-2)
    for b, i, pooled in pooled_by_hand(vectors, batch.observed, direction, pooling):
        row = batch.item[b, i]
        location = rho[row] @ pooled + part.intercept.constant + part.intercept.offset[row]
        expected = list(location[:, None])
        expected[names.index("other")] = torch.cat(
            [expected[names.index("other")], part.dispersion.bias.constant]
        )
        torch.testing.assert_close(eta[b, i], torch.cat(expected))


@every_case
def test_a_value_conditional_sees_its_item_and_context_and_not_its_value(direction, pooling):
    part = values_part(direction, pooling)
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    before = part.eta(batch)
    # Even an outlier so large that sums over all minus itself would round the others away.
    revalued = part.eta(with_value(batch, 0, 2, 1e9))
    renamed = part.eta(with_item(batch, 0, 2, 8))
    assert torch.equal(revalued[0, 2], before[0, 2])
    assert not torch.isclose(revalued[0, 3:, :2], before[0, 3:, :2]).any()
    assert not torch.isclose(renamed[0, 2, :2], before[0, 2, :2]).any()
    if direction == "causal":
        for eta in (revalued, renamed):
            assert torch.equal(eta[0, :2], before[0, :2])


@every_part
@pytest.mark.parametrize("pooling", CONTEXT_POOLINGS)
def test_conditionals_move_with_their_elements_and_appended_ones_are_not_seen(name, pooling):
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    part, order = part_of(name, "bidirectional", pooling), torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(part.eta(permuted(batch, order)), part.eta(batch)[:, order])
    torch.testing.assert_close(part.eta(more_padding(batch))[:, :6], part.eta(batch))
    part = part_of(name, "causal", pooling)
    shorter, longer = part.eta(first_elements(batch, 5)), part.eta(batch)[:, :5]
    # The divisor that the paper prints lets the future leak.
    assert torch.allclose(shorter, longer) == (pooling != "paper")


def test_unobserved_values_are_not_seen_and_their_garbage_reaches_no_gradient():
    observed = np.array([True, False, True, True])
    batch = whole(groups_of_two_columns(lengths=[4], observed=observed))
    part, nan = values_part("bidirectional", "mean"), with_value(batch, 0, 1, float("nan"))
    assert torch.equal(part.eta(nan), part.eta(batch))
    part.eta(nan).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in part.parameters())


def test_unknown_items_have_a_vector_of_their_own_and_the_global_bias():
    batch = whole(make_groups(lengths=[3], item=np.array([0, -1, 2], dtype=np.int32)))
    part = items_part("bidirectional", "sum")
    expected = part.center.vectors() @ (part.context.table.weight[-1] + part.context.vectors()[2])
    torch.testing.assert_close(part.eta(batch)[0, 0], expected + part.intercept)
    bias = ItemBias(torch.tensor([0.5]), n_items=N_ITEMS)
    with torch.no_grad():
        bias.offset[:-1] = 1.0
    assert bias(batch)[0, :, 0].tolist() == [1.5, 0.5, 1.5]
    assert bias(replace(batch, item=None))[0, :, 0].tolist() == [0.5] * 3
    assert item_rows(batch, 0).tolist() == [[0, 0, 0]]


def test_parts_start_at_the_given_values_with_a_factor_for_each_location():
    settings, start = LatentFactorSettings(dim=4), torch.arange(float(N_ITEMS))
    options = {"generator": generator(), "intercept": start}
    assert torch.equal(build_latent_factor_items(N_ITEMS, settings, **options).intercept, start)
    initial = {"value": torch.tensor([0.5]), "other": torch.tensor([1.0, -2.0])}
    options = {"generator": generator(), "initial_eta": initial}
    values = build_latent_factor_values(N_ITEMS, FAMILIES, settings, **options)
    lone = whole(groups_of_two_columns(lengths=[1]))
    torch.testing.assert_close(values.eta(lone)[0, 0], torch.tensor([0.5, 1.0, -2.0]))
    without = items_part("causal", "mean", intercept=False)
    assert without.intercept is None and without.mask_vector is None
    families, batch = {"value": Categorical(3, start=1)}, whole(make_groups())
    eta = values_part("causal", "mean", families=families).eta(batch)
    assert eta.shape[-1] == families["value"].n_params
    assert eta[batch.present].std(0).min() > 0.1


def test_vectors_of_the_wrong_length_are_refused():
    context, center = (ItemEmbedding(N_ITEMS, dim, generator=generator()) for dim in (8, 4))
    options = {"families": FAMILIES, "dispersion": Dispersion(FAMILIES, torch.zeros(1))}
    with pytest.raises(ExfamError, match="`context` must have 2 vectors an item and `center` 2"):
        LatentFactorValues(context, center, direction="causal", pooling="mean", **options)
