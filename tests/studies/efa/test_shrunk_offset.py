"""Shrunk offsets by their definition, and models of them that earlier versions stored."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from baseline_cases import BY_MEAN, N_ITEMS, RATINGS, drawn, groups_of, score
from estimator_cases import COLUMNS, DIRECTIONS, ratings
from exfam.checks import ExfamError, ModelFileError
from exfam.efa.networks.context import GroupOffset
from exfam.families import Categorical, Gaussian, RoundedStudentT
from exfam.groups import CONTEXT, TARGET, Groups
from exfam_studies.efa.shrunk_offset import ShrunkOffset, choose_k, fit_shrunk_offset
from model_cases import make_groups, more_padding, whole, with_item, with_value

FRAME = ratings()
STORED = Path(__file__).parents[2] / "stored"

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
    shown = family.mean(part.eta(batch)) if family.has_mean else part.eta(batch)[..., 0].exp()
    shift = 0.5 if isinstance(family, RoundedStudentT) else 0.0
    torch.testing.assert_close(shown - shift, mean, rtol=1e-4, atol=1e-4)
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
    monkeypatch.setattr("exfam_studies.efa.shrunk_offset.MAX_PADDED", 7)
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


def test_what_has_no_weight_is_not_observed_or_no_target_is_not_fitted():
    groups = Groups(
        start=[0],
        stop=[6],
        values={"value": np.array([1.0, 2.0, 3.0, -1e6, np.nan, 99.0])},
        observed=np.array([True, True, True, True, False, True]),
        role=np.array([TARGET] * 5 + [CONTEXT]),
    )
    weight = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    options = {"k": 1.0, "direction": "causal", "weight": weight}
    part = fit_shrunk_offset(groups, {"value": Gaussian()}, **options)
    assert float(part.low) == pytest.approx(1.1)


def test_an_estimator_needs_a_family_by_its_mean_and_groups_to_choose_by():
    with pytest.raises(ExfamError, match="`validation_fraction` must be above 0 to choose `k`"):
        ShrunkOffset(**COLUMNS, k=None).fit(FRAME)
    with pytest.raises(ExfamError, match="`family` must be determined by its mean"):
        ShrunkOffset(**COLUMNS, family=Categorical(5, start=1)).fit(FRAME)


@pytest.mark.parametrize("k", [2.0, None])
@pytest.mark.parametrize("prior", [0.5, 7.0])
def test_item_means_are_drawn_to_the_global_one(prior, k, tmp_path):
    estimator = ShrunkOffset(**COLUMNS, item_prior=prior, k=k).fit(FRAME, validation=FRAME)
    family = estimator.schema_.families["stars"]
    part = estimator.members_[0].value_part
    overall, by_movie = FRAME["stars"].mean(), FRAME.groupby("movie")["stars"]
    expected = (by_movie.sum() + prior * overall) / (by_movie.count() + prior)
    np.testing.assert_allclose(
        family.restore(part.item_mean[:, 0]), [*expected, overall], rtol=1e-5
    )
    assert part.k == estimator.k_ > 0
    estimator.save(tmp_path / "model")
    loaded = ShrunkOffset.load(tmp_path / "model")
    assert loaded.k_ == estimator.k_
    np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))


def test_whole_weights_are_repetitions_in_a_fit():
    twice = np.where(FRAME["user"] == "u3", 2, 1)
    copy = FRAME[FRAME["user"] == "u3"].assign(user="again")
    weighted = ShrunkOffset(**COLUMNS).fit(FRAME, sample_weight=twice).log_prob(FRAME)
    repeated = ShrunkOffset(**COLUMNS).fit(pd.concat([FRAME, copy])).log_prob(FRAME)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)


def test_stored_models_load_by_their_class_and_answer_as_they_did():
    first = json.loads((STORED / "v1" / "log_prob.json").read_text())
    nats = ShrunkOffset.load(STORED / "v1" / "shrunk-offset").log_prob(first["frame"])
    np.testing.assert_allclose(nats, first["log_prob"]["shrunk-offset"], rtol=1e-5)
    expected = json.loads((STORED / "v2" / "answers.json").read_text())["shrunk-offset"]
    model = ShrunkOffset.load(STORED / "v2" / "shrunk-offset")
    np.testing.assert_allclose(model.log_prob(FRAME)[:50], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelFileError, match="got 'shrunk-offset' .* call `load` of the class"):
        exfam.load(STORED / "v2" / "shrunk-offset")
