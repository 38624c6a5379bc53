"""The network of theorem 2: its equations by hand, what it sees, and a known one's distribution."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam_studies.efa.clipped_attention import (
    ClippedFieldNetwork,
    ClippedFieldSizes,
    draw_auto_normal,
    known_clipped_field,
    pulls,
    random_maps,
)

EXACT = {"rtol": 0.0, "atol": 1e-10}
N_SITES, N_MAPS = 5, 6
UNCUT = ClippedFieldSizes(token_bound=1e6, value_bound=1e6)
KNOWN = ClippedFieldSizes(n_dims=2, place_dim=2, place_hidden_dim=4, value_bound=50.0)


def network(sizes=UNCUT, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return ClippedFieldNetwork(sizes, column="value", generator=generator).double()


def maps(seed=0, **changes):
    groups = random_maps(N_MAPS, N_SITES, seed=seed)
    # Numbers that single precision, which batches have, holds exactly.
    values = np.random.default_rng(seed).integers(-8, 9, N_MAPS * N_SITES) / 4
    sites = groups.attributes["coordinates"].astype(np.float32).astype(float)
    return replace(groups, values={"value": values}, attributes={"coordinates": sites}, **changes)


def batch_of(groups):
    return groups.pad(np.arange(len(groups)))


def project(x, radius):
    return x if np.linalg.norm(x) <= radius else radius * x / np.linalg.norm(x)


def by_hand(model, sites, values, center):
    """The paper's equations for one element of one map, one token at a time."""
    weight = {name: p.detach().numpy() for name, p in model.named_parameters()}
    radius, relu = model.sizes.token_bound, lambda x: np.maximum(x, 0)
    h = []
    for j, tau in enumerate(sites):
        g = weight["place.second"] @ relu(weight["place.first"] @ project(tau, radius))
        h.append(project(np.append(g, 0.0 if j == center else values[j]), radius))
    for number in range(len(model.layers)):
        q, k, v, first, second = (
            weight[f"layers.{number}.{name}"]
            for name in ("query", "key", "value", "first", "second")
        )
        after = []
        for token in h:
            update = sum(
                relu((q[m] @ token) @ (k[m] @ other)) * (v[m] @ other)
                for m in range(len(q))
                for other in h
            ) / len(h)
            attended = token + update
            after.append(project(attended + second @ relu(first @ attended), radius))
        h = after
    return np.clip(h[center][-1], -model.sizes.value_bound, model.sizes.value_bound)


@pytest.mark.parametrize("bounds", [{}, {"token_bound": 0.9, "value_bound": 0.1}])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_network_is_the_papers(n_layers, bounds):
    model, groups = network(replace(UNCUT, n_layers=n_layers, **bounds)), maps()
    reported = model.eta(batch_of(groups))[..., 0].detach().numpy()
    sites = groups.attributes["coordinates"].reshape(N_MAPS, N_SITES, 2)
    values = groups.values["value"].reshape(N_MAPS, N_SITES)
    expected = [
        [by_hand(model, sites[g], values[g], i) for i in range(N_SITES)] for g in range(N_MAPS)
    ]
    np.testing.assert_allclose(reported, expected, **EXACT)
    assert np.std(expected) > 0.03
    if bounds:
        assert (np.abs(reported) == 0.1).any() and (np.abs(reported) < 0.1).any()


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_conditional_sees_all_values_but_its_own(n_layers):
    model, groups = network(replace(UNCUT, n_layers=n_layers)), maps()
    before = model.eta(batch_of(groups))[..., 0].detach()
    for site in range(N_SITES):
        values = groups.values["value"].copy()
        values[site::N_SITES] += 1.0
        after = model.eta(batch_of(replace(groups, values={"value": values})))[..., 0].detach()
        moved = (after - before).abs()
        assert float(moved[:, site].max()) == 0.0
        others = np.arange(N_SITES) != site
        assert float(moved[:, others].sum(0).min()) > 1e-6


def test_elements_without_a_value_and_padding_are_no_context():
    model, hidden = network(), np.zeros(N_MAPS * N_SITES, dtype=bool)
    hidden[1::N_SITES] = True
    groups = maps(observed=~hidden)
    whole = model.eta(batch_of(groups))
    others = np.flatnonzero(~hidden)
    smaller = Groups(
        start=4 * np.arange(N_MAPS),
        stop=4 * np.arange(N_MAPS) + 4,
        values={"value": groups.values["value"][others]},
        attributes={"coordinates": groups.attributes["coordinates"][others]},
    )
    torch.testing.assert_close(whole[:, [0, 2, 3, 4]], model.eta(batch_of(smaller)), **EXACT)
    uneven = Groups(
        start=[0, 2],
        stop=[2, 7],
        values={"value": groups.values["value"][:7]},
        attributes={"coordinates": groups.attributes["coordinates"][:7]},
    )
    alone = model.eta(uneven[0].pad([0]))
    torch.testing.assert_close(model.eta(batch_of(uneven))[:1, :2], alone, **EXACT)


def known(**changes):
    numbers = {"attraction": 1.15, "repulsion": 0.6, **changes}
    return known_clipped_field(KNOWN, column="value", **numbers)


def test_the_known_model_pulls_as_its_formula_says():
    groups = maps()
    tau = groups.attributes["coordinates"].reshape(N_MAPS, N_SITES, 2)
    product = np.einsum("gid,gjd->gij", tau, tau)
    expected = (1.15 * np.maximum(product, 0) - 0.6 * np.maximum(-product, 0)) / N_SITES
    expected[:, range(N_SITES), range(N_SITES)] = 0.0
    pull = pulls(known(), batch_of(groups)).numpy()
    np.testing.assert_allclose(pull, expected, **EXACT)
    means = known().eta(batch_of(groups))[..., 0].detach().numpy()
    values = groups.values["value"].reshape(N_MAPS, N_SITES)
    np.testing.assert_allclose(means, np.einsum("gij,gj->gi", pull, values), **EXACT)
    assert (pull < 0).any() and (pull > 0).any()


def test_drawn_values_have_the_covariance_of_their_distribution_and_are_cut_at_the_bound():
    pull = pulls(known(), batch_of(maps()))[:1].numpy().repeat(60_000, axis=0)
    values = draw_auto_normal(pull, bound=90.0, seed=2)
    expected = np.linalg.inv(np.eye(N_SITES) - pull[0])
    np.testing.assert_allclose(np.cov(values.T), expected, atol=0.04)
    again, other = (draw_auto_normal(pull, bound=90.0, seed=seed) for seed in (2, 3))
    assert (again == values).all() and (other != values).any()
    cut = draw_auto_normal(pull, bound=1.5, seed=2)
    assert 1.4 < np.abs(cut).max() <= 1.5 < np.abs(values).max()
    # Those within the bound are kept as they were drawn.
    kept = (np.abs(values) <= 1.5).all(axis=1)
    assert 0 < kept.sum() < len(kept) and (cut[kept] == values[kept]).all()


def test_pulls_that_are_those_of_no_distribution_are_refused():
    pull = np.array([[[0.0, 0.5], [0.5, 0.0]]])
    uneven, own = np.array([[0.0, 0.1], [0.0, 0.0]]), 0.2 * np.eye(2)
    for wrong, got in (
        (pull + uneven, "got 0.1 of asymmetry"),
        (pull + own, "0.2 on the diagonal"),
        (2.5 * pull, "an eigenvalue of 1.25"),
    ):
        with pytest.raises(ExfamError, match=f"`pull` must be symmetric with 0 on .*{got}"):
            draw_auto_normal(wrong, bound=9.0, seed=0)
    with pytest.raises(ExfamError, match="`bound` must leave room for the values, got 1e-05"):
        draw_auto_normal(pull, bound=1e-5, seed=0)
