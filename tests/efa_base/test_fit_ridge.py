"""The fit of the ridge base: numbers of the least nats, a strength between those that are tried."""

from functools import partial

import numpy as np
import pytest
import torch

from efa_base.item_bases import N_ITEMS, PENALTY, outputs, rich_groups
from exfam.efa.base import choose, fit_ridge, scoring
from exfam.efa.base import left_out as left_out_groups
from exfam.efa.base.fit_ridge import ridge_items
from exfam.efa.base.left_out import LeftOut
from exfam.efa.base.ridge_link import ridge_link
from exfam.efa.base.sets import held_items
from exfam.efa.networks.based import present_elements
from exfam.groups import CONTEXT
from exfam.likelihoods.two_part import DIRECTIONS
from exfam.training.lbfgs import find_minimum
from model_cases import make_groups, whole

MOST = {"most_items": N_ITEMS, "most_outputs": 10**6, "seed": 0, "hard": True}


def left_out():
    """Inputs of random targets of many groups."""
    groups = make_groups(lengths=[6] * 40, repeats=False, n_items=N_ITEMS)
    return inputs_of(groups, LeftOut.draw(groups, np.full(N_ITEMS, 2.0), **MOST))


def inputs_of(groups, drawn):
    return drawn.inputs(ridge_items(held_items(groups, N_ITEMS), PENALTY, most=N_ITEMS))


def nats(inputs, numbers):
    """With the hold, by the link that predicts."""
    eta = ridge_link(inputs.link, numbers)
    eta = eta + inputs.added
    start = torch.tensor(fit_ridge.START)
    hold = scoring.hold_of(len(inputs.item)) * (numbers - start).square().sum()
    return torch.nn.functional.cross_entropy(eta, inputs.item) + hold


def test_the_numbers_are_those_of_the_least_nats():
    inputs, start = left_out(), torch.tensor(fit_ridge.START)
    numbers, least = fit_ridge.fit_link(inputs, start=start)
    slow = find_minimum(lambda n: nats(inputs, n), start, tolerance=1e-6)
    expected = float(nats(inputs, slow))
    assert float(nats(inputs, start)) > least + 0.01
    assert least == pytest.approx(float(nats(inputs, numbers)), abs=1e-5)
    assert least == pytest.approx(expected, abs=1e-4)
    torch.testing.assert_close(numbers, slow, atol=0.1, rtol=0.1)
    again, _ = fit_ridge.fit_link(inputs, start=numbers)
    torch.testing.assert_close(again, numbers, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("first", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("foot", [0.2, 1.0, 2.3, 3.4, 4.5, 6.2, 7.0, 9.0])
def test_the_strength_is_at_the_foot_of_a_parabola_or_the_last_one(foot, first):
    tried = []

    def nats_of(number):
        tried.append(number)
        return (number - foot) ** 2

    expected = min(max(foot, fit_ridge.LOWEST), fit_ridge.HIGHEST)
    assert fit_ridge.lowest_strength(nats_of, first=first) == pytest.approx(expected)
    assert len(set(tried)) == len(tried)
    assert fit_ridge.lowest_strength(lambda number: 1.0, first=first) == first


def test_a_search_that_is_taken_further_ends_sooner_and_as_well(monkeypatch):
    groups, real, evaluations = rich_groups(), scoring._nats, []

    def counted(*arguments):
        evaluations.append(None)
        return real(*arguments)

    monkeypatch.setattr(scoring, "_nats", counted)
    search = fit_ridge.RidgeSearch()
    options = {"support": "none", "search": search}
    first = fit_ridge.fit_ridge_items(groups, N_ITEMS, **options)
    n_first = len(evaluations)
    again = fit_ridge.fit_ridge_items(groups, N_ITEMS, **options)
    assert len(evaluations) < 1.5 * n_first
    torch.testing.assert_close(again.precision, first.precision, atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(again.numbers, first.numbers, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("hard", [True, False])
def test_targets_are_those_of_known_items_and_the_context_is_excluded(hard):
    groups = rich_groups(repeats=False)
    drawn = LeftOut.draw(groups, np.full(N_ITEMS, 2.0), **MOST | {"hard": hard})
    is_target = (groups.role != CONTEXT) & (groups.item >= 0)
    assert 1 < drawn.groups.n_targets == is_target[groups.elements()].sum()
    inputs = inputs_of(groups, drawn)
    own = torch.zeros_like(inputs.added, dtype=torch.bool)
    own.scatter_(1, inputs.item[:, None], True)
    assert (inputs.added[own] == 0).all() and hard == bool((inputs.added[~own] < 0).any())


def test_some_items_stand_for_the_others():
    count, certain = np.array([5.0, 0, 1, 9, 2, 0, 1, 3, 1]), np.array([1, 5])
    random = np.random.default_rng(0)
    weights = np.array(
        [left_out_groups._weights(count, certain, most=6, random=random) for _ in range(2_000)]
    )
    assert ((weights > 0).sum(1) == 6).all() and np.allclose(weights.sum(1), len(count))
    assert (weights[:, [0, 3, 7, 1, 5]] == 1).all()
    np.testing.assert_allclose(weights.mean(0), 1, atol=0.15)
    for most in (len(count), 4, 3):
        few = left_out_groups._weights(count, certain, most=most, random=random)
        assert set(few) <= {0.0, 1.0} and few[certain].all()


def test_without_known_items_the_numbers_stay_at_their_start():
    groups = rich_groups()
    groups = groups.with_(item=np.full_like(groups.item, -1))
    base = fit_ridge.fit_ridge_items(groups, N_ITEMS, support="none")
    torch.testing.assert_close(base.numbers, torch.tensor(fit_ridge.START))


def test_numbers_are_not_carried_to_contexts_smaller_than_those_they_were_fitted_to():
    groups = make_groups(lengths=[6] * 40, repeats=False, n_items=N_ITEMS)
    base = fit_ridge.fit_ridge_items(groups, N_ITEMS, support="none")
    assert base.least_size == 5.0
    sizes = make_groups(lengths=[1, 2, 6], repeats=False, n_items=N_ITEMS)
    link = base.link_inputs(whole(sizes), present_elements(whole(sizes)), torch.arange(N_ITEMS))
    torch.testing.assert_close(link.log_size[1:], torch.tensor(5.0).log().expand(8) - 1.5)
    eta = outputs(base, whole(sizes))
    torch.testing.assert_close(eta[0], link.log_popularity[0])
    assert (eta[1] - link.log_popularity[0]).std() > 0.01
    again = choose.empty_base(choose.base_shape(base)).eval()
    again.load_state_dict(base.state_dict())
    torch.testing.assert_close(outputs(again, whole(sizes)), eta, rtol=0, atol=0)
    short = make_groups(lengths=[1, 2] * 20, repeats=False, n_items=N_ITEMS)
    assert fit_ridge.fit_ridge_items(short, N_ITEMS, support="none").least_size == 1.0


def test_long_groups_are_not_all_seen(monkeypatch):
    monkeypatch.setattr(left_out_groups, "MOST_ELEMENTS", 30)
    assert len(left_out().item) <= 36


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_elements_of_weight_zero_are_context_only(direction):
    groups = rich_groups(repeats=False)
    weight = np.where(np.arange(groups.n_rows) % 3, 2.0, 0.0)
    role = np.where(weight > 0, groups.role, CONTEXT).astype(np.int8)
    fit = partial(
        choose.fit_item_base, n_items=N_ITEMS, direction=direction, support="hard", seed=0
    )
    result = fit(groups, weight=weight).state_dict()
    torch.testing.assert_close(result, fit(groups.with_(role=role)).state_dict(), rtol=0, atol=0)
    everything = fit(groups, weight=np.ones(groups.n_rows)).state_dict()
    assert any((result[name] != everything[name]).any() for name in result)
