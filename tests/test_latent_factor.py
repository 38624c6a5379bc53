from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import (
    LatentFactorItems,
    LatentFactorSettings,
    LatentFactorValues,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.efa.networks.parts import CONTEXT_POOLINGS, Dispersion, ItemBias, item_rows, visible_sum
from exfam.embeddings import ItemEmbedding, Reflected, reflection_signs
from exfam.families import Categorical, Gaussian, Poisson
from exfam.likelihoods.support import DIRECTIONS
from model_cases import (
    first_elements,
    make_groups,
    more_padding,
    permuted,
    whole,
    with_item,
    with_value,
)

N_ITEMS = 9
FAMILIES = {"value": Poisson(shift=1), "other": Gaussian()}
CASES = list(product(DIRECTIONS, CONTEXT_POOLINGS))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randomized(part):
    """All parameters random, those that start at zero too."""
    source = generator(1)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=source))
    return part.double()


def items_part(direction, pooling, **kwargs):
    settings = LatentFactorSettings(direction=direction, dim=4, pooling=pooling, **kwargs)
    return randomized(build_latent_factor_items(N_ITEMS, settings, generator=generator()))


def values_part(direction, pooling, *, families=FAMILIES, **kwargs):
    settings = LatentFactorSettings(direction=direction, dim=4, pooling=pooling, **kwargs)
    part = build_latent_factor_values(N_ITEMS, families, settings, generator=generator())
    return randomized(part)


def parts(direction, pooling):
    return {
        "items": items_part(direction, pooling, mask_vector=True),
        "values": values_part(direction, pooling, dispersion="item"),
    }


def groups_of_two_columns(**kwargs):
    random = np.random.default_rng(5)
    n = sum(kwargs.get("lengths", (4, 1, 6, 2, 5)))
    values = {"value": random.integers(1, 4, n), "other": random.normal(size=n)}
    return make_groups(values=values, **kwargs)


def divisor(pooling, n_visible, n_others):
    return {"mean": max(n_visible, 1), "sum": 1, "paper": max(n_others, 1)}[pooling]


def contexts(shown, direction):
    """(row, element, visible elements, other elements shown), one at a time."""
    rows, length = shown.shape
    for b, i in product(range(rows), range(length)):
        others = [j for j in range(length) if j != i and shown[b, j]]
        visible = [j for j in others if direction == "bidirectional" or j < i]
        yield b, i, visible, others


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_item_eta_is_the_formula_of_proposition_1(direction, pooling):
    part = items_part(direction, pooling, mask_vector=True)
    batch = whole(make_groups(seed=2))
    alpha, rho = part.context.vectors(), part.center.vectors()
    eta = part.eta(batch)
    for b, i, visible, others in contexts(batch.present, direction):
        total = sum((alpha[batch.item[b, j]] for j in visible), torch.zeros(4).double())
        pooled = total / divisor(pooling, len(visible), len(others)) + part.mask_vector
        torch.testing.assert_close(eta[b, i], rho @ pooled + part.intercept)


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_value_eta_is_the_formula_of_proposition_3(direction, pooling):
    part = values_part(direction, pooling, families={"value": Poisson(shift=1)}, intercept=False)
    observed = np.random.default_rng(0).random(18) < 0.8
    batch = whole(make_groups(seed=2, observed=observed))
    alpha, rho = part.context.vectors(), part.center.vectors()
    eta = part.eta(batch)
    for b, i, visible, others in contexts(batch.observed, direction):
        total = sum(
            (alpha[batch.item[b, j]] * batch.values["value"][b, j] for j in visible),
            torch.zeros(4).double(),
        )
        pooled = total / divisor(pooling, len(visible), len(others))
        torch.testing.assert_close(eta[b, i, 0], rho[batch.item[b, i]] @ pooled)


@pytest.mark.parametrize("order", [["value", "other"], ["other", "value"]])
def test_several_columns_share_a_context_and_keep_their_dispersions_apart(order):
    part = values_part("bidirectional", "mean", families={name: FAMILIES[name] for name in order})
    batch = whole(groups_of_two_columns())
    alpha = part.context(batch).unflatten(-1, (2, 4))
    value = torch.stack([batch.values[name] for name in order], dim=-1).double()
    b, i, others = 0, 2, [0, 1, 3]
    pooled = sum((alpha[b, j] * value[b, j, :, None]).sum(0) for j in others) / 3
    rho = part.center.vectors()[batch.item[b, i]].unflatten(-1, (2, 4))
    row = batch.item[b, i]
    location = rho @ pooled + part.intercept.constant + part.intercept.offset[row]
    expected = dict(zip(order, location[:, None], strict=True))
    expected["other"] = torch.cat([expected["other"], part.dispersion.bias.constant])
    torch.testing.assert_close(part.eta(batch)[b, i], torch.cat([expected[n] for n in order]))


@pytest.mark.parametrize(("direction", "pooling"), CASES)
@pytest.mark.parametrize("name", ["items", "values"])
def test_padding_changes_nothing(name, direction, pooling):
    part = parts(direction, pooling)[name]
    batch = whole(groups_of_two_columns())
    length = batch.item.shape[1]
    padded = part.eta(more_padding(batch))[:, :length]
    torch.testing.assert_close(padded, part.eta(batch))


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_an_item_conditional_sees_its_context_and_neither_its_item_nor_values(direction, pooling):
    part = items_part(direction, pooling)
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    changed = part.eta(with_item(with_value(batch, 0, 2, 7.0), 0, 2, 8))
    before = part.eta(batch)
    assert torch.equal(changed[0, 2], before[0, 2])
    assert not torch.isclose(changed[0, 3:], before[0, 3:]).any()
    earlier_moved = ~torch.isclose(changed[0, :2], before[0, :2])
    assert earlier_moved.all() if direction == "bidirectional" else not earlier_moved.any()
    assert torch.equal(changed[1], before[1])


@pytest.mark.parametrize(("direction", "pooling"), CASES)
def test_a_value_conditional_sees_its_item_and_context_and_not_its_value(direction, pooling):
    part = values_part(direction, pooling)
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    before = part.eta(batch)
    # Even an outlier so large that sums over all minus itself would round the others away.
    revalued = part.eta(with_value(batch, 0, 2, 1e9))
    assert torch.equal(revalued[0, 2], before[0, 2])
    assert not torch.isclose(revalued[0, 3:, :2], before[0, 3:, :2]).any()
    renamed = part.eta(with_item(batch, 0, 2, 8))
    assert not torch.isclose(renamed[0, 2, :2], before[0, 2, :2]).any()
    if direction == "causal":
        assert torch.equal(revalued[0, :2], before[0, :2])
        assert torch.equal(renamed[0, :2], before[0, :2])


@pytest.mark.parametrize("name", ["items", "values"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_an_appended_element_changes_no_earlier_causal_conditional(name, pooling):
    part = parts("causal", pooling)[name]
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    torch.testing.assert_close(part.eta(first_elements(batch, 5)), part.eta(batch)[:, :5])


@pytest.mark.parametrize("name", ["items", "values"])
def test_the_divisor_that_the_paper_prints_lets_the_future_leak(name):
    part = parts("causal", "paper")[name]
    batch = whole(groups_of_two_columns(lengths=[6, 6]))
    assert not torch.allclose(part.eta(first_elements(batch, 5)), part.eta(batch)[:, :5])


@pytest.mark.parametrize("name", ["items", "values"])
@pytest.mark.parametrize("pooling", CONTEXT_POOLINGS)
def test_bidirectional_conditionals_move_with_their_elements(name, pooling):
    part = parts("bidirectional", pooling)[name]
    batch = whole(groups_of_two_columns())
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    eta = part.eta(permuted(batch, order))
    torch.testing.assert_close(eta, part.eta(batch)[:, order])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_lone_element_gets_its_intercepts(direction):
    batch = whole(groups_of_two_columns(lengths=[1]))
    items = items_part(direction, "mean")
    torch.testing.assert_close(items.eta(batch)[0, 0], items.intercept.detach())
    values = values_part(direction, "mean")
    row = batch.item[0, 0]
    expected = (values.intercept.constant + values.intercept.offset[row]).detach()
    torch.testing.assert_close(values.eta(batch)[0, 0, :2], expected)


def test_unobserved_values_are_not_seen_and_their_garbage_reaches_no_gradient():
    observed = np.array([True, False, True, True])
    batch = whole(groups_of_two_columns(lengths=[4], observed=observed))
    part = values_part("bidirectional", "mean")
    nan = with_value(batch, 0, 1, float("nan"))
    assert torch.equal(part.eta(nan), part.eta(batch))
    part.eta(nan).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in part.parameters())


def test_unknown_items_have_a_vector_of_their_own():
    groups = make_groups(lengths=[3], item=np.array([0, -1, 2], dtype=np.int32))
    batch = whole(groups)
    part = items_part("bidirectional", "sum")
    expected = part.center.vectors() @ (part.context.table.weight[-1] + part.context.vectors()[2])
    torch.testing.assert_close(part.eta(batch)[0, 0], expected + part.intercept)


def test_mean_and_paper_divisors_agree_without_a_direction():
    batch = whole(make_groups())
    mean, paper = (items_part("bidirectional", pooling).eta(batch) for pooling in ("mean", "paper"))
    present = batch.present
    torch.testing.assert_close(mean[present], paper[present])


def test_centers_may_be_reflections_of_the_context_vectors():
    words = ItemEmbedding(N_ITEMS, 4, generator=generator())
    part = LatentFactorItems(
        words,
        Reflected(words, reflection_signs(4)),
        direction="causal",
        pooling=CONTEXT_POOLINGS["mean"],
    )
    assert [p.shape for p in part.parameters()] == [(N_ITEMS + 1, 4)]
    assert part.eta(whole(make_groups())).shape == (5, 6, N_ITEMS)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sums_of_whole_numbers_are_exact_at_length_500(direction):
    x = torch.randint(0, 5, (2, 500, 3), generator=generator()).float()
    shown = torch.rand(2, 500, generator=generator()) < 0.7
    kept = x * shown[..., None]
    total = visible_sum(x, shown, direction)
    before = kept.cumsum(1) - kept
    expected = before if direction == "causal" else kept.sum(1, keepdim=True) - kept
    assert torch.equal(total, expected)


def test_same_seed_same_bits_and_another_seed_others():
    def table(seed):
        settings = LatentFactorSettings(dim=4)
        part = build_latent_factor_items(N_ITEMS, settings, generator=generator(seed))
        return part.context.vectors()

    assert torch.equal(table(3), table(3))
    assert not torch.equal(table(3), table(4))


def test_parts_start_at_the_given_values():
    start = torch.arange(float(N_ITEMS))
    settings = LatentFactorSettings(dim=4)
    part = build_latent_factor_items(N_ITEMS, settings, generator=generator(), intercept=start)
    assert torch.equal(part.intercept, start)
    initial = {"value": torch.tensor([0.5]), "other": torch.tensor([1.0, -2.0])}
    values = build_latent_factor_values(
        N_ITEMS, FAMILIES, settings, generator=generator(), initial_eta=initial
    )
    lone = whole(groups_of_two_columns(lengths=[1]))
    torch.testing.assert_close(values.eta(lone)[0, 0], torch.tensor([0.5, 1.0, -2.0]))


def test_a_part_without_intercept_has_none():
    settings = LatentFactorSettings(dim=4, intercept=False)
    values = build_latent_factor_values(N_ITEMS, FAMILIES, settings, generator=generator())
    assert values.intercept is None
    items = build_latent_factor_items(N_ITEMS, settings, generator=generator())
    assert items.intercept is None and items.mask_vector is None


def test_a_family_of_several_location_outputs_has_a_factor_for_each():
    families = {"value": Categorical(3, start=1)}
    part = values_part("causal", "mean", families=families)
    eta = part.eta(whole(make_groups()))
    assert eta.shape[-1] == families["value"].n_params
    present = whole(make_groups()).present
    assert eta[present].std(0).min() > 0.1


def test_biases_of_unknown_items_and_of_groups_without_items_are_the_global_ones():
    bias = ItemBias(torch.tensor([0.5]), n_items=N_ITEMS)
    with torch.no_grad():
        bias.offset[:-1] = 1.0
    groups = make_groups(lengths=[2], item=np.array([3, -1], dtype=np.int32))
    batch = whole(groups)
    assert bias(batch)[0, :, 0].tolist() == [1.5, 0.5]
    without = replace(batch, item=None)
    assert bias(without)[0, :, 0].tolist() == [0.5, 0.5]
    assert item_rows(batch, 0).tolist() == [[0, 0]]


def test_vectors_of_the_wrong_length_are_refused():
    with pytest.raises(
        ExfamError, match="`context` must have 2 vectors an item and `center` 2 of the same length"
    ):
        LatentFactorValues(
            ItemEmbedding(N_ITEMS, 8, generator=generator()),
            ItemEmbedding(N_ITEMS, 4, generator=generator()),
            families=FAMILIES,
            dispersion=Dispersion(FAMILIES, torch.zeros(1)),
            direction="causal",
            pooling=CONTEXT_POOLINGS["mean"],
        )
