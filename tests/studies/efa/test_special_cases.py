"""Propositions 1 to 3: attention whose weights equal a latent factor model."""

import itertools

import numpy as np
import pytest
import torch

from exfam.attention import Linear, Visibility
from exfam.checks import ExfamError
from exfam.efa.networks.context import CONTEXT_POOLINGS
from exfam.efa.networks.factor_network import (
    LatentFactorItems,
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.embeddings import ItemEmbedding, Reflected, reflection_signs
from exfam.families import Gaussian, Poisson
from exfam.fields.declarations import LatentFactorParameters
from exfam.fields.latent_factor import build_field_latent_factor
from exfam.fields.networks.climate import fit_climate
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import higher_is_better
from exfam_studies.efa import special_cases
from exfam_studies.efa.special_cases import (
    field_from_latent_factor,
    items_from_latent_factor,
    values_from_latent_factor,
)
from map_cases import batch_of, make_maps, ragged_maps
from model_cases import generator, make_groups, redraw, whole

N_ITEMS, DIM = 9, 4
CASES = [
    (direction, pooling)
    for direction, pooling in itertools.product(["bidirectional", "causal"], CONTEXT_POOLINGS)
    if (direction, pooling) != ("causal", "paper")
]
every_case = pytest.mark.parametrize(("direction", "pooling"), CASES)


def randomized(module):
    return redraw(module.double(), generator())


def item_part(**choices):
    settings = LatentFactorSettings(dim=DIM, **choices)
    return randomized(build_latent_factor_items(N_ITEMS, settings, generator=generator()))


def value_part(families, **choices):
    settings = LatentFactorSettings(dim=DIM, **choices)
    part = build_latent_factor_values(N_ITEMS, families, settings, generator=generator())
    return randomized(part)


def assert_same_eta(network, part, batch):
    actual, expected = network.eta(batch)[batch.present], part.eta(batch)[batch.present]
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)
    assert expected.std() > 0.1


@every_case
@pytest.mark.parametrize("extras", [False, True])
def test_proposition_1(direction, pooling, extras):
    part = item_part(direction=direction, pooling=pooling, intercept=extras, mask_vector=extras)
    network = items_from_latent_factor(part)
    assert_same_eta(network, part, whole(make_groups()))


@every_case
@pytest.mark.parametrize("columns", [1, 2])
def test_proposition_3(direction, pooling, columns):
    families = dict([("value", Poisson(shift=1)), ("other", Gaussian())][:columns])
    more = {"dispersion": "item"} if columns == 2 else {}
    part = value_part(families, direction=direction, pooling=pooling, **more)
    network = values_from_latent_factor(part)
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
    context = ItemEmbedding(N_ITEMS, DIM, generator=generator())
    center = Reflected(context, reflection_signs(DIM))
    part = randomized(LatentFactorItems(context, center, direction="bidirectional", pooling="mean"))
    network = items_from_latent_factor(part)
    groups = make_groups()
    item = groups.item.copy()
    item[[1, 7]] = -1
    assert_same_eta(network, part, whole(groups.with_(item=item)))
    assert network.head.centers.items is network.embedding.fields[0].field
    assert network.embedding.fields[0].field is not part.context


@pytest.mark.parametrize("kind", ["items", "values"])
def test_appendices_hold_for_one_length_only(kind):
    """With the mask among the keys and delta = I/(I-1) rho, or linear attention and alpha/(I-1)."""
    if kind == "items":
        part = item_part(intercept=False)
        network = items_from_latent_factor(part)
        network.visibility = Visibility(sees_mask=True)
        table, factor = network.head.centers.table, 4 / 3
    else:
        part = value_part({"value": Poisson(shift=1)}, intercept=False)
        network = values_from_latent_factor(part)
        network.blocks[0].attention.kernel = Linear()
        table, factor = network.embedding.fields[1].table, 1 / 3
    with torch.no_grad():
        table.weight *= factor
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


def test_a_causal_model_cannot_divide_by_the_final_length():
    choices = {"direction": "causal", "pooling": "paper"}
    values = value_part({"value": Poisson(shift=1)}, **choices)
    for attention, part in (
        (items_from_latent_factor, item_part(**choices)),
        (values_from_latent_factor, values),
    ):
        with pytest.raises(ExfamError, match="`pooling` must be 'mean' or 'sum' for a causal part"):
            attention(part)


def field_part(*, climate=None, **choices):
    settings = LatentFactorParameters(**{"dim": 4, "hidden_dim": 8, **choices})
    generator = torch.Generator().manual_seed(0)
    more = {"metric": "haversine", "climate": climate, "generator": generator}
    return randomized(build_field_latent_factor(make_maps(), settings, **more))


@pytest.mark.parametrize("k", [1, 3, None])
@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("intercept", [False, True])
def test_proposition_2(k, lags, intercept):
    part, batch = field_part(k=k, intercept=intercept), batch_of(ragged_maps(lags=lags))
    network, own = field_from_latent_factor(part, column="value"), batch.target
    expected = part.eta(batch)[own]
    torch.testing.assert_close(network.eta(batch)[own], expected, atol=1e-11, rtol=1e-12)
    assert expected.std() > 0.1 and not batch.observed[own].all()


def test_over_all_sites_it_is_the_plain_network():
    part = field_part(k=None)
    ours = field_from_latent_factor(part, column="value")
    batch = batch_of(ragged_maps())
    expected = part.eta(batch)[batch.present]
    torch.testing.assert_close(ours.network.eta(batch)[batch.present], expected)
    near = field_from_latent_factor(field_part(k=1), column="value")
    assert (near.eta(batch)[batch.present] - expected).abs().max() > 0.1


def test_a_model_of_anomalies_is_refused():
    climate = fit_climate(make_maps(), kind="site", metric="haversine")
    with pytest.raises(ExfamError, match="`part` must be a model of the values as they are"):
        field_from_latent_factor(field_part(climate=climate), column="value")


def test_the_experiment_finds_every_proposition_true_to_double_precision():
    rows = special_cases.run(Options(fast=True, seeds=2))
    assert [(row.task[-1], row.settings.get("k")) for row in rows] == [
        ("1", None), ("2", "all"), ("2", 5), ("3", None)
    ]  # fmt: skip
    assert {(row.metric, row.n_seeds) for row in rows} == {("max-difference", 2)}
    assert all(0 < row.value < 1e-9 for row in rows)
    assert higher_is_better("max-difference") is None


@pytest.mark.parametrize("case", special_cases.CASES, ids=lambda case: case.task)
def test_the_comparison_sees_other_weights(case):
    def mixed(groups, seed):
        return case.build(groups, seed)[0], case.build(groups, seed + 1)[1]

    wrong = special_cases._difference(case._replace(build=mixed), seed=0, n_groups=10)
    assert wrong > 0.1


def test_small_figures_keep_their_size_in_the_table(capsys):
    rows = reproduce("efa-special-cases", options=Options(fast=True, only=["proposition-2"]))
    printed = capsys.readouterr().out
    assert len(rows) == 2 and all(f"{row.value:.1e}" in printed for row in rows)
    assert "0.0000" not in printed and "e-1" in printed and "*\n" not in printed
