"""Theorem 2: its quantities, its check, and the network that it is about."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.groups import Groups
from exfam_studies.efa.clipped_attention import (
    ClippedFieldNetwork,
    ClippedFieldSizes,
    draw_auto_normal,
    known_clipped_field,
    pulls,
    random_maps,
)
from exfam_studies.efa.generalization import (
    MeasuredFit,
    ModelClass,
    check_theorem_2,
    fit_slope,
    group_losses,
    measure_fit,
    model_class,
    parameter_norm,
)

SIZES = ClippedFieldSizes(
    n_dims=3, place_dim=2, place_hidden_dim=5, n_layers=2, n_heads=3, feed_forward_dim=4,
    token_bound=7.0, value_bound=0.05,
)  # fmt: skip
OF = ModelClass(SIZES, norm_bound=40.0)
KNOWN = ClippedFieldSizes(n_dims=2, place_dim=2, place_hidden_dim=4, value_bound=8.0)


def network(sizes=SIZES, seed=0):
    return ClippedFieldNetwork(sizes, column="value", generator=torch.Generator().manual_seed(seed))


def known(attraction=1.2, repulsion=0.6):
    return known_clipped_field(KNOWN, attraction=attraction, repulsion=repulsion, column="value")


def drawn(n_maps, *, seed):
    maps = random_maps(n_maps, 4, seed=seed)
    pull = pulls(known(), maps.pad(np.arange(n_maps))).numpy()
    values = draw_auto_normal(pull, bound=8.0, seed=seed + 1000)
    return replace(maps, values={"value": values.ravel()})


def test_the_norm_is_the_papers():
    model, layers = network(), []
    for layer in model.layers:
        norm = {
            name: [np.linalg.svd(m, compute_uv=False)[0] for m in np.atleast_3d(p.detach().numpy())]
            if p.ndim == 3
            else np.linalg.svd(p.detach().numpy(), compute_uv=False)[0]
            for name, p in layer.named_parameters()
        }
        attention = max(*norm["query"], *norm["key"]) + sum(norm["value"])
        layers.append(attention + norm["first"] + norm["second"])
    place = sum(np.linalg.svd(p.detach().numpy())[1][0] for p in model.place.parameters())
    assert abs(layers[0] - layers[1]) > 1e-3
    assert float(parameter_norm(model).detach()) == pytest.approx(max(layers) + place, rel=1e-5)


def test_the_class_of_a_model_is_reported_in_the_theorems_letters():
    of = model_class(network(), norm_bound=40.0)
    assert of == OF
    assert of.n_numbers == sum(p.numel() for p in network().parameters())
    assert model_class(network()).norm_bound == pytest.approx(
        float(parameter_norm(network()).detach())
    )
    with pytest.raises(ExfamError, match="`norm_bound` must be at least the model's own norm"):
        model_class(network(), norm_bound=1.0)


def test_the_rate_term_is_the_papers():
    # B_y is so small that 1 / (2 B_y) = 10 counts among B = 40 and R = 7 only without them.
    n = 2 * (3 * 3 * 9 + 2 * 3 * 4) + 5 * (2 + 3)
    for of, most in ((OF, 40.0), (replace(OF, norm_bound=3.0), 10.0)):
        iota = math.log(2 + most)
        expected = 0.05**2 * math.sqrt((43 * 2 * n * iota + math.log(20)) / 300)
        assert of.rate_term(300) == pytest.approx(expected)


def test_the_last_step_of_the_proof_holds_over_the_whole_range():
    """Appendix D: log(4 + 4 (L + 1) B_H^L B_Theta B / B_y) <= 43 L iota."""
    random = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        n_layers = int(random.integers(1, 20))
        norm, token, value = (10 ** random.uniform(-3, 4, 3)).tolist()
        sizes = replace(SIZES, n_layers=n_layers, token_bound=token, value_bound=value)
        of = ModelClass(sizes, norm_bound=norm)
        gaps.append(43 * n_layers * of.iota - of.log_covering)
    assert min(gaps) > 0 and np.std(gaps) > 1
    b, r, y, n = 1.5, 2.0, 0.5, 2
    of = ModelClass(replace(SIZES, n_layers=n, token_bound=r, value_bound=y), norm_bound=b)
    b_h, b_theta = (1 + b**2) * (1 + b**2 * r**3), b * r * (1 + b * r**2 + b**3 * r**2)
    expected = math.log(4 + 4 * (n + 1) * b_h**n * b_theta * b / y)
    assert of.log_covering == pytest.approx(expected)


def test_any_other_model_is_refused():
    schema = Schema.of(drawn(1, seed=0), families={"value": Gaussian()})
    other = build_efa(schema, EFASettings(items=False), generator=torch.Generator().manual_seed(0))
    for model, name in ((other, type(other).__name__), ("a model", "str")):
        with pytest.raises(ExfamError, match=f"`model` must be of the class of .* got {name}. The"):
            model_class(model)


def test_losses_are_half_mean_squares_group_by_group():
    model, groups = known(), drawn(5, seed=3)[[4, 0, 2]]
    means = model.eta(groups.pad(np.arange(3)))[..., 0].detach().numpy()
    values = groups.values["value"].reshape(5, 4)[[4, 0, 2]]
    expected = ((values - means) ** 2).sum(axis=1) / 8
    np.testing.assert_allclose(group_losses(model, groups), expected, rtol=1e-5)
    hidden = replace(groups, observed=np.arange(20) != 1)
    with pytest.raises(DataError, match="`groups` must have every value observed.*got 1 that"):
        group_losses(model, hidden)


def test_the_excess_reported_by_predictions_is_that_of_the_losses():
    fit = measure_fit(
        known(0.6, 1.0), known(), train=drawn(50, seed=1), held_out=drawn(4000, seed=2)
    )
    assert fit.n_groups == 50 and fit.excess > 0.005
    assert abs(fit.sampled - fit.excess) < 5 * fit.sampled_error < 0.1 * fit.excess + 0.02
    itself = measure_fit(known(), known(), train=drawn(50, seed=1), held_out=drawn(60, seed=2))
    assert (itself.excess, itself.sampled, itself.training_gap) == (0.0, 0.0, 0.0)
    assert itself.norm == itself.known_norm == pytest.approx(1 + 1.8 + 2 * math.sqrt(2))


def test_the_slope_is_that_of_the_logarithms():
    sizes = np.repeat(10 ** np.arange(1, 5), 40)
    noise = np.exp(0.3 * np.random.default_rng(0).standard_normal(len(sizes)))
    slope = fit_slope(sizes, 5.0 * sizes**-0.8 * noise)
    assert slope.low < -0.8 < slope.high and slope.high - slope.low < 0.15
    for sizes, excess, got in (
        ([5, 5, 5], [1.0, 1.0, 1.0], "3 of 1,"),
        ([5, 6, 7], [1.0, 0.0, 1.0], "excess 0"),
    ):
        with pytest.raises(DataError, match=f"at least 3 fits of 2 sizes for a slope.* {got}"):
            fit_slope(np.array(sizes), np.array(excess))


def fits(slope=-1.0, **changes):
    reported = {
        "sampled_error": 1e-4, "training_gap": -0.01, "training_loss": 0.5, "norm": 20.0,
        "known_norm": 6.0, "largest": 0.04, **changes,
    }  # fmt: skip
    noise = np.exp(0.1 * np.random.default_rng(1).standard_normal((4, 5)))
    return [
        MeasuredFit(n, excess=n**slope * up, sampled=n**slope * up, **reported)
        for n, row in zip((10, 100, 1000, 10_000), noise, strict=True)
        for up in row
    ]


@pytest.mark.parametrize(("slope", "holds"), [(-1.0, True), (-0.5, True), (-0.2, False)])
def test_the_check_holds_for_what_falls_as_fast_as_the_rate(slope, holds):
    check = check_theorem_2(fits(slope), OF)
    assert check.applies and check.holds == holds, check
    assert check.measured["slope"] == pytest.approx(slope, abs=0.05)
    assert check.expected["slope at most"] == -0.5
    for text in check.failed_conclusions:
        assert "theorem 2: a slope of at most -1/2, got -0.2" in text


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"largest": 0.06}, "assumption 5: |y| <= B_y = 0.05, got 0.06"),
        ({"norm": 41.0}, "section 5.2.2: |||theta||| <= B = 40, got 41"),
        ({"known_norm": 50.0}, "section 5.2.2: |||theta||| <= B = 40, got 50"),
        ({"training_gap": 0.02}, "fits must minimize the training loss, got 20 of 20 above"),
    ],
)
def test_the_check_says_which_assumption_fails(changes, reported):
    check = check_theorem_2(fits(**changes), OF)
    assert not check.applies and check.holds
    assert len(check.failed_assumptions) == 1 and reported in check.failed_assumptions[0]


def test_the_check_sees_that_a_known_model_is_not_the_best():
    """Values drawn from another model: losses then say another excess than predictions do."""
    data = {"train": drawn(40, seed=1), "held_out": drawn(4000, seed=2)}
    wrong = known(0.4, 0.0)
    measured = [replace(measure_fit(known(), wrong, **data), n_groups=n) for n in (10, 20, 40)]
    check = check_theorem_2(measured, model_class(known(), norm_bound=9.0))
    assert not check.applies
    assert any("the known model must be the best one" in text for text in check.failed_assumptions)


EXACT = {"rtol": 0.0, "atol": 1e-10}
N_SITES, N_MAPS = 5, 6
UNCUT = ClippedFieldSizes(token_bound=1e6, value_bound=1e6)
WIDE = ClippedFieldSizes(n_dims=2, place_dim=2, place_hidden_dim=4, value_bound=50.0)


def uncut_network(sizes=UNCUT, seed=0):
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
    model, groups = uncut_network(replace(UNCUT, n_layers=n_layers, **bounds)), maps()
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
    model, groups = uncut_network(replace(UNCUT, n_layers=n_layers)), maps()
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
    model, hidden = uncut_network(), np.zeros(N_MAPS * N_SITES, dtype=bool)
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


def wide_field(**changes):
    numbers = {"attraction": 1.15, "repulsion": 0.6, **changes}
    return known_clipped_field(WIDE, column="value", **numbers)


def test_the_known_model_pulls_as_its_formula_says():
    groups = maps()
    tau = groups.attributes["coordinates"].reshape(N_MAPS, N_SITES, 2)
    product = np.einsum("gid,gjd->gij", tau, tau)
    expected = (1.15 * np.maximum(product, 0) - 0.6 * np.maximum(-product, 0)) / N_SITES
    expected[:, range(N_SITES), range(N_SITES)] = 0.0
    pull = pulls(wide_field(), batch_of(groups)).numpy()
    np.testing.assert_allclose(pull, expected, **EXACT)
    means = wide_field().eta(batch_of(groups))[..., 0].detach().numpy()
    values = groups.values["value"].reshape(N_MAPS, N_SITES)
    np.testing.assert_allclose(means, np.einsum("gij,gj->gi", pull, values), **EXACT)
    assert (pull < 0).any() and (pull > 0).any()


def test_drawn_values_have_the_covariance_of_their_distribution_and_are_cut_at_the_bound():
    pull = pulls(wide_field(), batch_of(maps()))[:1].numpy().repeat(60_000, axis=0)
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
