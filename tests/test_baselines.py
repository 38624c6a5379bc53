"""Baselines: marginal distributions, by their definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from baseline_cases import BY_MEAN, DRAWS, N_ITEMS, RATINGS, drawn, groups_of, score
from exfam.checks import ExfamError
from exfam.efa.networks.marginals import MarginalItems, Sample, fit_marginal_values, most_likely
from exfam.efa.plan import log_frequencies
from exfam.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    NegativeBinomial,
    PerItem,
    Poisson,
)
from exfam.groups import CONTEXT, TARGET, Groups, arrange
from exfam.likelihoods.two_part import HardExclusion
from exfam_studies.efa.movielens_splits import movielens_items, movielens_ratings
from model_cases import make_groups, whole

# Families whose most likely mean is another than that of the sample.
OTHER_MEANS = ("beta", "log-normal", "negative-binomial", "student-t")


def test_item_frequencies_are_smoothed_and_weighted_counts_of_the_targets(monkeypatch):
    monkeypatch.setattr(arrange, "ELEMENTS_PER_CHUNK", 4)
    role = np.where(np.arange(18) == 0, CONTEXT, TARGET).astype(np.int8)
    groups = make_groups(repeats=True, role=role)
    code, weight = groups.item.copy(), np.random.default_rng(0).integers(0, 3, 18) / 2
    code[1] = -1
    for given, weights in ((None, None), (weight, weight[2:])):
        result = log_frequencies(groups.with_(item=code), N_ITEMS, smoothing=0.5, weight=given)
        count = np.bincount(code[2:], weights=weights, minlength=N_ITEMS) + 0.5
        np.testing.assert_allclose(result.exp(), count / count.sum(), rtol=1e-5)
    for smoothing in (1e308, 1e-320):
        result = log_frequencies(groups, N_ITEMS, smoothing=smoothing)
        assert float(result.exp().sum()) == pytest.approx(1, rel=1e-5) and result.isfinite().all()
    with pytest.raises(ExfamError, match="`item` must be given for item frequencies"):
        log_frequencies(Groups(start=[0], stop=[2]), 3)


@pytest.mark.parametrize("name", DRAWS)
def test_no_other_constant_is_more_likely(name):
    family, value = drawn(name)
    eta = fit_marginal_values(groups_of(value), {"value": family}).table[0].double()
    eta.requires_grad_()
    nats = family.log_prob(torch.from_numpy(value), eta.expand(len(value), -1)).mean()
    (gradient,) = torch.autograd.grad(nats, eta)
    assert gradient.abs().max() < 1e-4


@pytest.mark.parametrize("name", DRAWS)
def test_rare_items_borrow_and_unseen_items_have_the_global_distribution(name):
    family, value = drawn(name, n=400)
    item = np.random.default_rng(1).choice([0, 0, 0, 1, 1, 2], 400).astype(np.int32)
    item[0] = 3
    groups = make_groups(lengths=[400], item=item, values={"value": value}, n_items=5)
    part = fit_marginal_values(groups, {"value": family}, n_items=5, prior=4.0)
    overall = fit_marginal_values(groups, {"value": family})
    torch.testing.assert_close(part.table[5], overall.table[0])
    mean = family.mean(part.table.double())
    # The item never seen: all its values are borrowed (by 64 quantiles, if there are more).
    assert float(mean[4]) == pytest.approx(float(mean[5]), rel=0.02)
    if name in BY_MEAN and name not in OTHER_MEANS and family.has_mean:
        count, total = (np.bincount(item, weights=times, minlength=5) for times in (None, value))
        expected = (total + 4 * value.mean()) / (count + 4)
        np.testing.assert_allclose(mean[:4], expected[:4], rtol=0.02)


def test_frequent_items_do_not_drown_the_fit_of_rare_ones():
    random = np.random.default_rng(0)
    item = np.minimum(random.zipf(1.3, 20_000) - 1, 299).astype(np.int32)
    mean = np.exp(random.normal(0, 1, 300))[item]
    value = random.negative_binomial(2, 2 / (2 + mean)).astype(np.float64)
    groups = make_groups(lengths=[len(item)], item=item, values={"value": value}, n_items=300)
    family = NegativeBinomial()
    part = fit_marginal_values(groups, {"value": family}, n_items=300, prior=5.0)
    count, total = (np.bincount(item, weights=times, minlength=300) for times in (None, value))
    expected = (total + 5 * value.mean()) / (count + 5)
    np.testing.assert_allclose(family.mean(part.table[:-1]), expected, rtol=1e-5)


def test_an_element_has_the_distribution_of_its_item():
    family, value = drawn("gaussian")
    groups = groups_of(value)
    part = fit_marginal_values(groups, {"value": family}, n_items=N_ITEMS)
    batch = whole(groups)
    assert torch.equal(part.eta(batch)[3, 1], part.table[batch.item[3, 1]])
    assert part.table[:, 0].std() > 0.01
    for item in (torch.full_like(batch.item, -1), None):
        assert torch.equal(part.eta(replace(batch, item=item))[0, 0], part.table[-1])


def test_the_item_chooses_the_family():
    family = PerItem({0: Bernoulli()}, default=Gaussian())
    item = np.tile([0, 1], 50).astype(np.int32)
    random = np.random.default_rng(0)
    value = np.where(item == 0, random.binomial(1, 0.3, 100), random.normal(5, 2, 100))
    groups = make_groups(lengths=[100], item=item, values={"value": value}, n_items=2)
    for options in ({}, {"n_items": 2, "prior": 0.01}):
        part = fit_marginal_values(groups, {"value": family}, **options)
        mean = family.mean(part.eta(whole(groups))[0, :2], item=torch.tensor([0, 1]))
        expected = [value[item == 0].mean(), value[item == 1].mean()]
        np.testing.assert_allclose(mean, expected, rtol=0.01)


@pytest.mark.parametrize("n_items", [0, N_ITEMS])
def test_value_weights_count_like_repeated_elements(n_items):
    family, value = drawn("gamma", n=40)
    groups = groups_of(value)
    weight = np.random.default_rng(0).integers(0, 3, 40)
    index = np.repeat(np.arange(40), weight)
    item, values = groups.item[index], {"value": value[index]}
    repeated = make_groups(lengths=[len(index)], item=item, values=values)
    tables = [
        fit_marginal_values(given, {"value": family}, n_items=n_items, weight=times).table
        for given, times in ((groups, weight.astype(float)), (repeated, None))
    ]
    torch.testing.assert_close(*tables, rtol=1e-3, atol=1e-3)


def test_what_has_no_weight_is_not_observed_or_no_target_is_not_fitted():
    groups = Groups(
        start=[0],
        stop=[6],
        values={"value": np.array([1.0, 2.0, 3.0, -1e6, np.nan, 99.0])},
        observed=np.array([True, True, True, True, False, True]),
        role=np.array([TARGET] * 5 + [CONTEXT]),
    )
    weight = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    part = fit_marginal_values(groups, {"value": Poisson(shift=1)}, weight=weight)
    assert float(part.table[0, 0].exp()) == pytest.approx(1.0, rel=1e-5)


def test_value_fits_refuse_what_they_cannot_use():
    groups = make_groups()
    hidden = groups.with_(observed=np.zeros(18, dtype=bool))
    with pytest.raises(ExfamError, match=r"`families` must name value columns .* \('value'\), got"):
        fit_marginal_values(groups, {"x": Gaussian()})
    with pytest.raises(ExfamError, match="`value` must have at least one observed target value"):
        fit_marginal_values(hidden, RATINGS)


def test_a_sample_of_equal_values_still_has_a_finite_distribution():
    value = torch.full((5,), 2.0, dtype=torch.float64)
    sample = Sample(value, torch.full((5,), -1), torch.ones(5, dtype=torch.float64))
    for family in (Gaussian(), Poisson(shift=1), Poisson(shift=2), Categorical(3, start=1)):
        assert torch.isfinite(most_likely(family, sample)).all()


@pytest.mark.usefixtures("data_folder")
def test_movielens_scores_as_the_reference_measured():
    splits = movielens_items()
    part = MarginalItems(log_frequencies(splits.train, 50))
    for direction, nats in (("bidirectional", 3.297), ("causal", 3.626)):
        result = score(part, splits.test, direction=direction, support=HardExclusion())
        assert -result == pytest.approx(nats, abs=0.001)
    splits, families = movielens_ratings(), {"value": Categorical(3, start=1)}
    part = fit_marginal_values(splits.train, families)
    result = score(part, splits.test, direction="causal", families=families)
    assert -result == pytest.approx(1.066, abs=0.001)
