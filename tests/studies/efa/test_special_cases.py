"""Propositions 1 and 3: attention whose weights equal a latent factor model."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from exfam.attention import Linear, Visibility
from exfam.efa.networks.context import CONTEXT_POOLINGS
from exfam.efa.networks.factor_network import (
    LatentFactorItems,
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.embeddings import ItemEmbedding, Reflected, reflection_signs
from exfam.families import Gaussian, Poisson
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.efa.special_cases import items_from_latent_factor, values_from_latent_factor
from model_cases import make_groups, whole

N_ITEMS, DIM = 9, 4
CASES = [
    (direction, pooling, conditional)
    for direction, pooling in itertools.product(["bidirectional", "causal"], CONTEXT_POOLINGS)
    for conditional in ("copies", "exact", "static", "two_stream")
    if (direction, pooling) != ("causal", "paper")
    if conditional != "two_stream" or direction == "causal"
]
every_case = pytest.mark.parametrize(("direction", "pooling", "conditional"), CASES)


def randomized(module: nn.Module, *, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def item_part(**choices):
    settings = LatentFactorSettings(dim=DIM, **choices)
    generator = torch.Generator().manual_seed(0)
    return randomized(build_latent_factor_items(N_ITEMS, settings, generator=generator))


def value_part(families, **choices):
    settings = LatentFactorSettings(dim=DIM, **choices)
    generator = torch.Generator().manual_seed(0)
    part = build_latent_factor_values(N_ITEMS, families, settings, generator=generator)
    return randomized(part)


def assert_same_eta(network, part, batch):
    actual, expected = network.eta(batch)[batch.present], part.eta(batch)[batch.present]
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)
    assert expected.std() > 0.1


@every_case
@pytest.mark.parametrize("extras", [False, True])
def test_proposition_1(direction, pooling, conditional, extras):
    part = item_part(direction=direction, pooling=pooling, intercept=extras, mask_vector=extras)
    network = items_from_latent_factor(part, conditional=conditional)
    assert_same_eta(network, part, whole(make_groups()))


@every_case
@pytest.mark.parametrize("columns", [1, 2])
def test_proposition_3(direction, pooling, conditional, columns):
    families = dict([("value", Poisson(shift=1)), ("other", Gaussian())][:columns])
    more = {"dispersion": "item"} if columns == 2 else {}
    part = value_part(families, direction=direction, pooling=pooling, **more)
    network = values_from_latent_factor(part, conditional=conditional)
    random = np.random.default_rng(3)
    values = {"value": random.integers(1, 4, 18), "other": random.normal(size=18)}
    groups = make_groups(values={name: values[name] for name in families})
    assert_same_eta(network, part, whole(groups))


def test_as_propositions_state_them():
    """The conditionals, written out element by element."""
    items, values = item_part(intercept=False), value_part({"value": Poisson(1)}, intercept=False)
    batch = whole(make_groups(lengths=(5, 3)))
    model = TwoPartModel(
        direction="bidirectional",
        item_part=items_from_latent_factor(items),
        value_part=values_from_latent_factor(values),
        families={"value": Poisson(shift=1)},
    )
    log_prob = model.log_prob(batch)
    for b, i in batch.present.nonzero().tolist():
        x, y = batch.item[b], batch.values["value"][b].double()
        others = [j for j in range(int(batch.present[b].sum())) if j != i]
        pooled = items.context.vectors()[x[others]].mean(0)
        eta = items.center.vectors() @ pooled
        torch.testing.assert_close(log_prob.item[b, i], eta.log_softmax(0)[x[i]])
        pooled = (values.context.vectors()[x[others]] * y[others, None]).mean(0)
        rate = (values.center.vectors()[x[i]] @ pooled).exp()
        expected = torch.distributions.Poisson(rate).log_prob(y[i] - 1)
        torch.testing.assert_close(log_prob.value["value"][b, i], expected)


def test_unknown_items_and_tied_centers_carry_over():
    generator = torch.Generator().manual_seed(0)
    context = ItemEmbedding(N_ITEMS, DIM, generator=generator)
    center = Reflected(context, reflection_signs(DIM))
    part = randomized(LatentFactorItems(context, center, direction="bidirectional", pooling="mean"))
    network = items_from_latent_factor(part)
    groups = make_groups()
    item = groups.item.copy()
    item[[1, 7]] = -1
    assert_same_eta(network, part, whole(groups.with_(item=item)))
    assert network.head.centers.items is network.embedding.fields[0].field
    assert network.embedding.fields[0].field is not part.context


def test_the_appendix_of_proposition_1_holds_for_one_length_only():
    """With the mask among the keys (beta_MASK = 0) and delta = I/(I-1) rho."""
    part = item_part(intercept=False)
    network = items_from_latent_factor(part)
    network.visibility = Visibility(sees_mask=True)
    with torch.no_grad():
        network.head.centers.table.weight *= 4 / 3
    assert_same_eta(network, part, whole(make_groups(lengths=(4, 4, 4))))
    ragged = whole(make_groups(lengths=(4, 2)))
    wrong = (network.eta(ragged) - part.eta(ragged))[ragged.present].abs().amax(-1)
    assert wrong[:4].max() < 1e-12 < 0.01 < wrong[4:].min()


def test_the_appendix_of_proposition_3_holds_for_one_length_only():
    """With linear attention and delta = alpha/(I-1) in place of a kernel that divides."""
    part = value_part({"value": Poisson(shift=1)}, intercept=False)
    network = values_from_latent_factor(part)
    network.blocks[0].attention.kernel = Linear()
    with torch.no_grad():
        network.embedding.fields[1].table.weight /= 3
    assert_same_eta(network, part, whole(make_groups(lengths=(4, 4, 4))))
    ragged = whole(make_groups(lengths=(4, 2)))
    wrong = (network.eta(ragged) - part.eta(ragged))[ragged.present].abs().amax(-1)
    assert wrong[:4].max() < 1e-12 < 0.01 < wrong[4:].min()


def test_the_appendix_of_proposition_3_as_printed_gives_zero():
    """The printed W^Q and W^K score 0; the corrected ones are the bilinear form of the layer."""
    zero, one, edge = torch.zeros(DIM, DIM), torch.eye(DIM), torch.zeros(DIM, 1)
    lower = torch.cat([torch.cat([zero, zero, edge], 1), torch.cat([one, zero, edge], 1)])
    w_k = torch.cat([lower, torch.zeros(1, 2 * DIM + 1)])
    printed = torch.diag(torch.tensor([1.0] * DIM + [0.0] * (DIM + 1)))
    corrected = torch.diag(torch.tensor([0.0] * DIM + [1.0] * DIM + [0.0]))
    assert (printed.T @ w_k).abs().max() == 0
    layer = values_from_latent_factor(value_part({"value": Poisson(shift=1)})).blocks[0].attention
    key = layer.key_value.weight[: layer.head_dim]
    torch.testing.assert_close(key.T @ layer.query.weight, (corrected.T @ w_k).double())


@pytest.mark.parametrize("kind", ["items", "values"])
def test_a_causal_model_cannot_divide_by_the_final_length(kind):
    with pytest.raises(ValueError, match="`pooling` must be 'mean' or 'sum' for a causal part"):
        if kind == "items":
            items_from_latent_factor(item_part(direction="causal", pooling="paper"))
        else:
            families = {"value": Poisson(shift=1)}
            part = value_part(families, direction="causal", pooling="paper")
            values_from_latent_factor(part)
