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
from exfam.families import Categorical, Gamma, Gaussian, Poisson
from exfam.likelihoods.two_part import DIRECTIONS
from exfam_studies.efa.movielens_splits import movielens_ratings
from model_cases import (
    first_elements,
    make_groups,
    more_padding,
    permuted,
    whole,
    with_item,
    with_value,
)

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
    total, count = (
        np.bincount(item[chosen], weights=times, minlength=N_ITEMS)
        for times in (value[chosen], None)
    )
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
    options = {"k": 2.0, "direction": direction, "n_items": N_ITEMS}
    part = fit_shrunk_offset(groups, {"value": Gaussian()}, **options)
    part.low, part.high = torch.tensor([-1e12]), torch.tensor([1e12])
    batch = whole(groups)
    before = part.eta(batch)
    revalued = part.eta(with_value(batch, 0, 2, 1e9))
    assert torch.equal(revalued[0, 2], before[0, 2])
    assert not torch.isclose(revalued[0, 3:, 0], before[0, 3:, 0]).any()
    renamed = part.eta(with_item(batch, 0, 2, (int(batch.item[0, 2]) + 1) % N_ITEMS))
    assert not torch.equal(renamed[0, 2], before[0, 2])
    if direction == "causal":
        assert torch.equal(revalued[0, :2], before[0, :2])
        torch.testing.assert_close(part.eta(first_elements(batch, 5)), before[:, :5])
    else:
        assert not torch.isclose(revalued[0, :2, 0], before[0, :2, 0]).any()
        order = torch.tensor([3, 0, 5, 1, 4, 2])
        torch.testing.assert_close(part.eta(permuted(batch, order)), before[:, order])


@every_direction
def test_padding_and_garbage_change_no_shrunk_offset(direction):
    groups = make_groups(observed=np.arange(18) % 4 != 1)
    part = fit_shrunk_offset(groups, RATINGS, k=2.0, direction=direction, n_items=N_ITEMS)
    batch = whole(groups)
    values = {"value": torch.where(batch.observed, batch.values["value"], torch.nan)}
    padded = part.eta(more_padding(replace(batch, values=values)))
    torch.testing.assert_close(padded[:, : batch.item.shape[1]], part.eta(batch))


def test_a_lone_or_unknown_item_has_its_mean_or_the_mean_of_all():
    groups = make_groups()
    part, batch = fit_shrunk_offset(groups, RATINGS, **CAUSAL), whole(groups)
    own = part.item_mean[batch.item[1, 0]].clamp(1.1, 2.9)
    torch.testing.assert_close(part.mean(batch)[1, 0], own)
    unknown = replace(batch, item=torch.full_like(batch.item, -1))
    torch.testing.assert_close(part.mean(unknown)[1, 0], part.item_mean[-1])
    assert float(part.item_mean[-1, 0]) == pytest.approx(groups.values["value"].mean())


def test_weights_count_like_repeated_groups_and_pieces_change_nothing(monkeypatch):
    groups = make_groups(values={"value": drawn("gaussian", n=18)[1]})
    times = np.array([1, 0, 2, 1, 3])
    weight = np.repeat(times, groups.stop - groups.start).astype(float)
    repeated = groups[np.repeat(np.arange(5), times)]
    families = {"value": Gaussian()}
    weighted = fit_shrunk_offset(groups, families, weight=weight, **CAUSAL)
    several = fit_shrunk_offset(repeated, families, **CAUSAL)
    torch.testing.assert_close(weighted.item_mean, several.item_mean)
    torch.testing.assert_close(weighted.dispersion, several.dispersion)
    monkeypatch.setattr("exfam.efa.networks.shrunk_offsets.MAX_PADDED", 7)
    in_pieces = fit_shrunk_offset(repeated, families, **CAUSAL)
    torch.testing.assert_close(in_pieces.dispersion, several.dispersion)


def test_columns_have_offsets_of_their_own():
    values = {"a": drawn("gaussian", n=18)[1], "b": drawn("gamma", n=18)[1]}
    groups, families = make_groups(values=values), {"a": Gaussian(), "b": Gamma()}
    both = fit_shrunk_offset(groups, families, **CAUSAL).eta(whole(groups))
    for columns, name in ((slice(0, 2), "a"), (slice(2, 4), "b")):
        alone = fit_shrunk_offset(groups, {name: families[name]}, **CAUSAL)
        torch.testing.assert_close(both[..., columns], alone.eta(whole(groups)))


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
    for name in ("k", "item_prior"):
        with pytest.raises(ExfamError, match=f"`{name}` must be a number > 0, got 0.0"):
            fit_shrunk_offset(make_groups(), RATINGS, **CAUSAL | {name: 0.0})
    slope = torch.ones(1, 1)
    with pytest.raises(ExfamError, match="`k` must be a number > 0, got -1"):
        GroupOffset(RATINGS, center=slope[0], slope=slope, direction="causal", k=-1.0)


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


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("family", "direction", "measured"),
    [
        (Poisson(shift=1), "bidirectional", 0.940),
        (Poisson(shift=1), "causal", 0.949),
        (Poisson(link="one-plus-exp"), "bidirectional", 0.492),
        (Poisson(link="one-plus-exp"), "causal", 0.496),
    ],
)
def test_movielens_scores_as_the_reference_measured(family, direction, measured):
    splits = movielens_ratings()
    options = {"k": 5.0, "direction": direction, "n_items": 50}
    part = fit_shrunk_offset(splits.train, {"value": family}, **options)
    batch = whole(splits.test)
    value = batch.values["value"]
    loss = family.log_base_measure(value) - family.log_prob(value, part.eta(batch))
    assert float(loss[batch.target].mean()) == pytest.approx(measured, abs=0.001)
