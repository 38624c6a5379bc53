"""Laws of the base of many sites: blocks of near columns instead of one matrix of all."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from exfam import FieldEFA, FieldGaussian
from exfam.checks import ExfamError
from exfam.fields import explanations, field_base
from exfam.fields.base.columns import map_columns
from exfam.fields.base.conditionals import OfBlocks, OfMatrix, given_near, nearest_columns
from exfam.fields.base.courses import CHOICES, Clock, plane_terms
from exfam.fields.base.kernel import MovingKernel, start_numbers
from exfam.fields.base.maps import Maps, Sites
from exfam.fields.base.moments import mean_products
from exfam.fields.base.panel import Panel
from exfam.fields.local import local_part
from exfam.fields.local.blocks import (
    clusters,
    filled_maps,
    kernel_blocks,
    near_columns,
    product_blocks,
    with_own,
)
from exfam.fields.local.local_fit import MOST_NEAR, fit_local_base
from exfam.fields.local.local_part import LocalBasePart
from exfam.simulators import simulate_field
from map_cases import check_reasons_of_one

COLUMNS = {"time": "day", "site": "site", "coordinates": ["x", "y"], "value": "v"}


def points_of(n, *, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, size=(n, 2)))


def maps_of(n_sites=30, n_times=50, *, n_lags=1, missing=0.0, seed=0):
    """A field that forgets slowly, in time order without a hole."""
    random, points = np.random.default_rng(seed), points_of(n_sites)
    root = torch.linalg.cholesky(
        MovingKernel(start_numbers(2), 2).of(map_columns(points, 0)) + 1e-9 * torch.eye(n_sites)
    )
    z, rows = torch.zeros(n_sites).double(), []
    for _ in range(n_times):
        z = 0.7 * z + 0.7 * root @ torch.from_numpy(random.normal(size=n_sites))
        rows.append(z)
    values, time = torch.stack(rows), torch.arange(n_times).double()
    shown = torch.from_numpy(random.random((n_times, n_sites)) >= missing)
    earlier = torch.arange(n_times)[:, None] - torch.arange(1, n_lags + 1)
    panel = Panel(time, torch.where(shown, values, 0.0), shown, earlier.clamp_min(-1))
    sites = Sites(plane_terms(points, 2), map_columns(points, n_lags), 2)
    return Maps(panel, Clock(365.25, 1.0), sites)


def moving_kernel():
    numbers = start_numbers(2)
    numbers[4:6] = torch.tensor([0.3, -0.2]).double()  # the velocity of the first part
    return MovingKernel(numbers, 2)


@pytest.mark.parametrize("n_lags", [0, 1, 3])
def test_near_columns_found_by_trees_are_those_of_the_whole_matrix(n_lags):
    kernel, columns = moving_kernel(), map_columns(points_of(80), n_lags)
    targets = torch.tensor([3, 50, 79])
    found = near_columns(kernel, columns, targets, most=12)
    covariance = kernel.of(columns)
    expected = nearest_columns(covariance, targets, most=12)
    strength = [covariance[targets[:, None], index].abs() for index in (found, expected)]
    assert (strength[0] - strength[1]).abs().max() < 0.02
    assert not (found == targets[:, None]).any()
    assert all(len(row.unique()) == 12 for row in found)


def test_a_kernel_is_fitted_to_clusters_of_sites_and_their_earlier_maps():
    chosen = clusters(points_of(500), 1)
    own = chosen[chosen < 500]
    assert_allclose(chosen[chosen >= 500], 500 + own)
    assert len(chosen) <= 400
    assert len(clusters(points_of(3), 0)) == 3


def test_blocks_are_those_of_the_matrices_of_all_columns():
    maps, kernel = maps_of(), moving_kernel()
    courses = maps.courses(CHOICES[0])
    chosen = with_own(torch.arange(5), torch.tensor([[7, 40, 12]] * 5))
    rows, shown = maps.rows(courses)
    later = shown.all(1)  # all but the first map
    products = mean_products(rows[later], shown[later], torch.eye(rows.shape[1]).double())
    near = OfBlocks(torch.eye(4).double().expand(30, -1, -1), torch.zeros(30, 3).long())
    filled = filled_maps(maps, courses, near)
    found = product_blocks(filled, courses, chosen, torch.arange(50))
    assert_allclose(found, products[chosen[:, :, None], chosen[:, None]], atol=1e-12)
    prior = kernel.of(maps.sites.columns)
    found = kernel_blocks(kernel, maps.sites.columns, chosen)
    assert_allclose(found, prior[chosen[:, :, None], chosen[:, None]], atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_conditionals_of_blocks_are_those_of_the_matrix(missing):
    maps, kernel = maps_of(missing=missing), moving_kernel()
    rows, shown = maps.rows(maps.courses(CHOICES[0]))
    targets, covariance = torch.tensor([4, 9, 20]), kernel.of(maps.sites.columns)
    index = nearest_columns(covariance, targets, most=16)
    blocks = kernel_blocks(kernel, maps.sites.columns, with_own(targets, index))
    found = given_near(rows, shown, OfBlocks(blocks, index), n_used=8)
    expected = given_near(rows, shown, OfMatrix(covariance, targets, index), n_used=8)
    for part, whole in zip(found, expected, strict=True):
        assert_allclose(part, whole, atol=1e-10)


def test_missing_values_are_filled_in_from_near_ones_with_what_is_left_of_doubt():
    whole, gaps = maps_of(missing=0.0), maps_of(missing=0.3)
    courses, kernel = whole.courses(CHOICES[0]), moving_kernel()
    index = near_columns(kernel, gaps.sites.columns, gaps.sites.own, most=20)
    blocks = kernel_blocks(kernel, gaps.sites.columns, with_own(gaps.sites.own, index))
    filled = filled_maps(gaps, courses, OfBlocks(blocks, index))
    shown = gaps.panel.shown
    assert_allclose(filled.values[shown], whole.panel.values[shown], atol=1e-12)
    error = (filled.values - whole.panel.values)[~shown].square().mean()
    assert error < 0.7 * whole.panel.values[~shown].square().mean()
    assert 0.3 < error / (filled.left.sum() / (~shown).double().mean(0).sum()) < 3
    none = filled_maps(whole, courses, OfBlocks(blocks, index))
    assert not none.left.any()


def test_a_map_is_known_to_others_only_where_it_may_be():
    maps = maps_of()
    near = OfBlocks(torch.eye(4).double().expand(30, -1, -1), torch.zeros(30, 3).long())
    filled = filled_maps(maps, maps.courses(CHOICES[0]), near)
    known = torch.arange(50) % 2 == 0
    assert (filled.known(known).earlier[1::2, 0] >= 0).all()
    assert (filled.known(known).earlier[::2, 0] == -1).all()


def test_one_map_is_enough():
    base = fit_local_base(maps_of(n_times=1, n_lags=0))
    assert torch.isfinite(base.numbers["covariance"]).all()


def frame_of(*, n_sites=24, n_times=50, missing=0.0):
    field = simulate_field(n_sites, n_times, missing=missing, seed=3)
    groups = field.groups
    own = groups.elements()
    value = groups.values["value"][own].astype(float)
    if groups.observed is not None:
        value[~groups.observed[own]] = np.nan
    places = groups.attributes["coordinates"][own]

    time = np.repeat(np.arange(len(groups)), groups.lengths)
    return pd.DataFrame(
        {"day": time, "site": groups.item[own], "x": places[:, 0], "y": places[:, 1], "v": value}
    )


@pytest.fixture
def many(monkeypatch):
    """As if 20 columns were too many for one matrix."""
    monkeypatch.setattr(field_base, "MOST_COLUMNS", 20)


def fitted(frame, *, lags=0, estimator=FieldGaussian):
    return estimator(**COLUMNS, lags=lags).fit(frame)


@pytest.mark.parametrize(("lags", "missing"), [(0, 0.0), (1, 0.3)])
def test_predictions_are_nearly_those_of_one_matrix(lags, missing, monkeypatch):
    frame = frame_of(missing=missing)
    train, test = frame[frame.day < 40], frame[frame.day >= 40]
    whole = fitted(train, lags=lags).score(test)
    monkeypatch.setattr(field_base, "MOST_COLUMNS", 20)
    model = fitted(train, lags=lags)
    assert isinstance(model.members_[0].value_part, LocalBasePart)
    assert abs(model.score(test) - whole) < 0.05


def test_a_value_says_nothing_of_itself_and_hidden_ones_say_nothing(many):
    frame = frame_of()
    model = fitted(frame)
    test = frame[frame.day == 45].reset_index(drop=True)
    before = model.predict_dist(test)
    changed = test.copy()
    changed.loc[7, "v"] += 5.0
    after = model.predict_dist(changed)
    assert before.mean[7] == after.mean[7]
    assert before.interval(0.9)[0][7] == after.interval(0.9)[0][7]
    assert (before.mean != after.mean).any()
    one, other = test.copy(), test.copy()
    one.loc[7, "v"], other = np.nan, test.drop(index=7)
    assert_allclose(np.delete(model.predict(one), 7), model.predict(other), rtol=1e-6, atol=1e-9)


def test_units_of_values_do_not_matter(many):
    frame = frame_of()
    scaled = frame.assign(v=3e4 * frame.v - 2e5)
    first, second = fitted(frame).predict(frame), fitted(scaled).predict(scaled)
    assert_allclose(second, 3e4 * first - 2e5, rtol=1e-4, atol=30.0)


def test_new_places_are_nearly_those_of_one_matrix(monkeypatch):
    frame = frame_of()
    new = frame.site.isin([5, 12, 20])
    at = frame[new & (frame.day == 45)][["x", "y"]].to_numpy()
    shown = frame[~new & (frame.day == 45)]
    whole = fitted(frame[~new]).predict_dist(shown, at=at)
    monkeypatch.setattr(field_base, "MOST_COLUMNS", 20)
    found = fitted(frame[~new]).predict_dist(shown, at=at)
    assert_allclose(found.mean, whole.mean, atol=0.25)
    widths = [np.diff(p.interval(0.9), axis=0)[0] for p in (found, whole)]
    assert_allclose(widths[0], widths[1], rtol=0.2)


def test_saved_models_answer_alike(many, tmp_path):
    frame = frame_of()
    model = fitted(frame, lags=1)
    model.save(tmp_path / "model")
    again = FieldGaussian.load(tmp_path / "model")
    assert_allclose(again.predict(frame), model.predict(frame), rtol=1e-12)


def test_columns_near_a_site_are_at_most_all_others():
    base = fit_local_base(maps_of(n_sites=12, n_lags=1))
    assert base.numbers["near"].shape == (12, min(MOST_NEAR, 23))


def test_attention_on_many_sites_starts_from_the_base_and_sees_no_value_it_predicts(many, tmp_path):
    frame = frame_of()
    model = fitted(frame, estimator=partial(FieldEFA, max_epochs=2, progress=False))
    part = model.members_[0].value_part
    assert model.gain_ is not None and len(part.members) == 5
    part.gates.fill_(0.0)
    assert_array_equal(model.predict(frame), fitted(frame).predict(frame))
    part.gates.fill_(1.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in part.members.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    test = frame[frame.day == 45].reset_index(drop=True)
    before, changed = model.predict_dist(test), test.copy()
    changed.loc[7, "v"] += 5.0
    after = model.predict_dist(changed)
    assert_array_equal(after.mixture.eta[0][7], before.mixture.eta[0][7])
    assert (after.mean != before.mean).any()
    (found,) = model.explain(test)
    total = found.normal + found.contributions.sum(1) + found.shift
    assert_allclose(total, before.mean, rtol=1e-6)
    check_reasons_of_one(model, test)
    assert_allclose(found.attention[0].sum(-1), 1.0, rtol=1e-5)
    model.save(tmp_path / "model")
    assert_allclose(FieldEFA.load(tmp_path / "model").predict(test), before.mean, rtol=1e-12)


def test_attention_sees_many_sites_some_at_a_time_as_all_at_once(many, monkeypatch):
    frame = frame_of()
    model = fitted(frame, estimator=partial(FieldEFA, max_epochs=2, progress=False))
    model.members_[0].value_part.gates.fill_(1.0)
    whole = model.predict(frame)
    monkeypatch.setattr(local_part, "SITES_AT_ONCE", 7)
    assert_allclose(model.predict(frame), whole, rtol=1e-6)


def test_maps_too_large_to_be_explained_are_refused(many, monkeypatch):
    frame = frame_of()
    model = fitted(frame)
    (found,) = model.explain(frame[frame.day == 45])
    expected = model.predict(frame[frame.day == 45])
    total = found.normal + found.contributions.sum(1) + found.shift
    assert_allclose(total, expected, rtol=1e-6)
    monkeypatch.setattr(explanations, "MOST_EXPLAINED", 20)
    with pytest.raises(ExfamError, match="at most 20 rows to explain, got one of 24"):
        model.explain(frame[frame.day == 45])
