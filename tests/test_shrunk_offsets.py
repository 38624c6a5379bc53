"""Shrunk offsets: the definition, who sees whom, and the same part beside attention."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from baseline_cases import BY_MEAN, N_ITEMS, RATINGS, drawn, groups_of, score
from exfam.checks import ExfamError
from exfam.efa.networks.context import GroupOffset
from exfam.efa.networks.shrunk_offsets import choose_k, fit_shrunk_offset
from exfam.families import Categorical, Gaussian
from exfam.likelihoods.two_part import DIRECTIONS
from model_cases import make_groups, more_padding, whole, with_item, with_value

every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
CAUSAL = {"k": 2.0, "direction": "causal", "n_items": N_ITEMS}


def mean_by_hand(groups, item_mean, direction, k):
    """One element at a time, straight from the definition."""
    value, item = groups.values["value"], groups.item
    observed = np.ones(len(item), bool) if groups.observed is None else groups.observed
    means = np.empty(len(item))
    for start, stop in zip(groups.start, groups.stop, strict=True):
        for i in range(start, stop):
            others = [j for j in range(start, stop) if j != i and observed[j]]
            seen = [j for j in others if direction == "bidirectional" or j < i]
            residual = sum(value[j] - item_mean[item[j]] for j in seen)
            means[i] = item_mean[item[i]] + residual / (len(seen) + k)
    return means


@every_direction
@pytest.mark.parametrize("hidden", [False, True])
def test_means_are_those_of_the_definition(direction, hidden):
    observed = np.random.default_rng(0).random(18) < 0.7 if hidden else None
    groups = make_groups(observed=observed)
    options = {"k": 1.5, "direction": direction, "n_items": N_ITEMS}
    part = fit_shrunk_offset(groups, RATINGS, item_prior=2.0, **options)
    value, item = groups.values["value"].astype(float), groups.item
    chosen = np.ones(18, bool) if observed is None else observed
    total = np.bincount(item[chosen], weights=value[chosen], minlength=N_ITEMS)
    count = np.bincount(item[chosen], minlength=N_ITEMS)
    item_mean = (total + 2 * value[chosen].mean()) / (count + 2)
    by_hand = mean_by_hand(groups, item_mean, direction, 1.5).clip(1.1, 2.9)
    batch = whole(groups)
    means = part.mean(batch)[..., 0]
    np.testing.assert_allclose(means[batch.present], by_hand, rtol=1e-5)
    assert (by_hand > 1.1).any() and (by_hand < 2.9).any()
    np.testing.assert_allclose(RATINGS["value"].mean(part.eta(batch)), means, rtol=1e-5)


@every_direction
@pytest.mark.parametrize("name", BY_MEAN)
def test_predictions_have_the_shrunk_mean_and_no_other_dispersion_is_more_likely(name, direction):
    family, value = drawn(name)
    groups = groups_of(value)
    options = {"k": 3.0, "direction": direction, "n_items": N_ITEMS}
    part = fit_shrunk_offset(groups, {"value": family}, **options)
    batch = whole(groups)
    mean = part.mean(batch)[..., 0]
    torch.testing.assert_close(family.mean(part.eta(batch)), mean, rtol=1e-4, atol=1e-4)
    if family.n_dispersion:
        dispersion = part.dispersion.double().requires_grad_()
        eta = family.from_mean(mean.double(), dispersion=dispersion)
        nats = family.log_prob(batch.values["value"], eta).mean()
        assert torch.autograd.grad(nats, dispersion)[0].abs().max() < 1e-3
    if name == "gaussian":
        spread = (batch.values["value"] - mean).pow(2).mean().sqrt()
        assert float(part.dispersion.exp()) == pytest.approx(float(spread), rel=1e-5)


@every_direction
def test_a_shrunk_offset_sees_its_item_and_context_and_not_its_value(direction):
    _, value = drawn("gaussian", n=24)
    groups = groups_of(value, length=6)
    part = fit_shrunk_offset(groups, {"value": Gaussian()}, **CAUSAL | {"direction": direction})
    part.low, part.high = torch.tensor([-1e12]), torch.tensor([1e12])
    batch = whole(groups)
    before, revalued = part.eta(batch), part.eta(with_value(batch, 0, 2, 1e9))
    torch.testing.assert_close(part.eta(more_padding(batch))[:, :6], before)
    assert torch.equal(revalued[0, 2], before[0, 2])
    moved = ~torch.isclose(revalued[0, :, 0], before[0, :, 0])
    expected = [direction == "bidirectional"] * 2 + [False] + [True] * 3
    assert moved.tolist() == expected
    renamed = part.eta(with_item(batch, 0, 2, (int(batch.item[0, 2]) + 1) % N_ITEMS))
    assert not torch.equal(renamed[0, 2], before[0, 2])


def test_an_unknown_item_has_the_mean_of_all_and_pieces_change_nothing(monkeypatch):
    groups = make_groups(values={"value": drawn("gaussian", n=18)[1]})
    part, batch = fit_shrunk_offset(groups, {"value": Gaussian()}, **CAUSAL), whole(groups)
    unknown = replace(batch, item=torch.full_like(batch.item, -1))
    torch.testing.assert_close(part.mean(unknown)[1, 0], part.item_mean[-1])
    assert float(part.item_mean[-1, 0]) == pytest.approx(groups.values["value"].mean())
    monkeypatch.setattr("exfam.efa.networks.shrunk_offsets.MAX_PADDED", 7)
    in_pieces = fit_shrunk_offset(groups, {"value": Gaussian()}, **CAUSAL)
    torch.testing.assert_close(in_pieces.dispersion, part.dispersion)


@every_direction
def test_the_chosen_k_has_the_best_validation_score(direction):
    random = np.random.default_rng(0)
    taste = random.normal(0, 1, 60).repeat(4)
    groups = groups_of(taste + random.normal(0, 1, 240))
    train, validation = groups[:40], groups[40:]
    families, grid = {"value": Gaussian()}, (0.1, 1.0, 100.0)
    fit = partial(fit_shrunk_offset, direction=direction)
    options = {"direction": direction, "families": families}
    scores = [score(fit(train, families, k=k), validation, **options) for k in grid]
    chosen = choose_k(train, validation, families, grid=grid, fit=fit)
    assert chosen == grid[int(np.argmax(scores))] == 1.0


def test_what_has_no_shrunk_offset_is_refused():
    with pytest.raises(ExfamError, match="`family` must be determined by its mean"):
        fit_shrunk_offset(make_groups(), {"value": Categorical(3, start=1)}, **CAUSAL)
    with pytest.raises(ExfamError, match="`item_prior` must be a number > 0, got 0.0"):
        fit_shrunk_offset(make_groups(), RATINGS, **CAUSAL, item_prior=0.0)


@every_direction
def test_beside_attention_it_is_the_same_with_the_same_numbers(direction):
    random, lengths = np.random.default_rng(0), [5, 1, 6, 4, 3]
    values = {"value": random.normal(3.0, 1.0, 19)}
    groups = make_groups(lengths=lengths, values=values, observed=random.random(19) > 0.2)
    families = {"value": Gaussian(scale=1.0)}
    baseline = fit_shrunk_offset(groups, families, k=2.0, direction=direction, n_items=N_ITEMS)
    start = {"center": torch.zeros(1), "slope": torch.ones(1, 1), "n_items": N_ITEMS}
    offset = GroupOffset(families, direction=direction, k=2.0, **start)
    batch = whole(groups)
    with torch.no_grad():
        offset.expected.offset.copy_(baseline.item_mean)
        expected = baseline.mean(batch).clamp(baseline.low, baseline.high)
        actual = (offset(batch) + offset.expected(batch)).clamp(baseline.low, baseline.high)
    torch.testing.assert_close(actual[batch.present], expected[batch.present])
    assert actual[batch.present].std() > 0.1
