"""Held-out items: what their context is, what models say of them, how their scores are averaged."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import COLUMNS, WITH_ITEMS, fitted_on, ratings
from exfam import DataError, ExfamError, ExfamWarning, Groups
from exfam.efa.baselines import Marginal
from exfam.groups import TARGET
from exfam.scores.ranking import hide_some, leave_last_out, rank_items
from group_cases import bounds, full_groups

FRAME = ratings(n_users=20, n_movies=8, least=4, shuffle=False)
ITEMS = {"group": "user", "item": "movie"}
SETS = Groups.from_frame(FRAME, **ITEMS)
RATED = Groups.from_frame(FRAME, **COLUMNS)
ORDERED = Groups.from_frame(FRAME, **ITEMS, order="day")
every_model = pytest.mark.parametrize("kind", WITH_ITEMS)
left_out = pytest.mark.filterwarnings("ignore:.* groups are left out:exfam.ExfamWarning")


def fitted(kind, **parameters):
    return fitted_on(FRAME, kind, noise=0.5, value=None, **parameters)


def targets_and_context(groups):
    """Source rows of each group: its targets, and the own elements beside them."""
    for number in range(len(groups)):
        rows = groups[number].elements()
        is_target = groups.role[rows] == TARGET
        source = groups.source_row[rows]
        yield source[is_target].tolist(), source[~is_target].tolist()


@left_out
@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("n", [1, 2])
def test_the_last_are_targets_and_all_before_them_is_context(n, lags):
    groups = full_groups((3, 0, 2, 4, 1), lags=lags).with_(ordered=True)
    views = [groups[g] for g in range(len(groups)) if groups.lengths[g] > n]
    last = leave_last_out(groups[::-1], n=n)
    assert len(last) == len(views)
    for view, (targets, context) in zip(views[::-1], targets_and_context(last), strict=True):
        own = view.elements()
        expected = [row for row in own[-n:] if view.role[row] == TARGET]
        assert targets == view.source_row[expected].tolist()
        assert sorted(targets + context) == sorted(view.source_row[own])
    np.testing.assert_array_equal(last.lengths, [view.lengths[0] for view in views[::-1]])


@left_out
@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("amount", [{}, {"share": 0.7}, {"n": 1}, {"n": 2}])
def test_no_target_is_in_a_context_and_nothing_else_is_lost(amount, lags):
    groups = full_groups((3, 0, 2, 6, 1, 9), lags=lags)
    some = hide_some(groups, **amount, seed=3)
    parts = list(targets_and_context(some))
    for name in np.unique(some.group_names):
        own = [part for part, its in zip(parts, some.group_names, strict=True) if its == name]
        original = groups[groups.group_names == name]
        hidden = [row for targets, _ in own for row in targets]
        (shown,) = {tuple(context) for _, context in own}
        rows = original.elements()
        assert sorted([*hidden, *shown]) == sorted(groups.source_row[rows])
        possible = int((groups.role[rows] == TARGET).sum())
        share = min(max(1, round(amount.get("share", 0.2) * possible)), original.lengths[0] - 1)
        assert len(hidden) == len(own) == min(amount.get("n", share), possible)
        assert set(hidden) <= set(groups.source_row[rows[groups.role[rows] == TARGET]])
    again = hide_some(groups, **amount, seed=3)
    np.testing.assert_array_equal(again.source_row, some.source_row)


def test_other_seeds_hide_others_and_each_element_as_often():
    groups = Groups(**bounds([5] * 2000), item=np.tile(np.arange(5), 2000))
    hidden = hide_some(groups, n=2, seed=1)
    counts = np.bincount(hidden.item[hidden.role == TARGET])
    assert counts.sum() == 4000 and np.abs(counts - 800).max() < 5 * np.sqrt(4000 * 0.2 * 0.8)
    np.testing.assert_array_equal(np.unique(hidden.group_names), np.arange(2000))
    assert not np.array_equal(hidden.item, hide_some(groups, n=2, seed=2).item)


def test_elements_are_tied_to_the_one_left_before_them():
    tied = np.array([0, 1, 1, 0, 1, 0]) == 1
    groups = Groups(**bounds([6]), item=np.arange(6), ordered=True, tied=tied)
    for one in (hide_some(groups, n=3, seed=seed) for seed in range(9)):
        for number in range(len(one)):
            point = np.array([0, 0, 0, 1, 1, 2])[one.item[one[number].elements()]]
            batch = one.pad([number])
            np.testing.assert_array_equal(np.diff(batch.position[0]) > 0, np.diff(point) > 0)


@every_model
def test_hidden_items_have_the_log_probabilities_of_what_is_shown_and_themselves(kind):
    model, some = fitted(kind), hide_some(SETS, share=0.4)
    nats = model.log_prob(some)
    for number in range(0, len(some), 5):
        own = some[number]
        frame = FRAME.iloc[some.source_row[own.elements()]]
        alone = model.log_prob(frame)[some.role[own.elements()] == TARGET]
        at = some.elements()[own.start[0] : own.stop[0]]
        assert nats[at][~np.isnan(nats[at])] == pytest.approx(alone, abs=1e-5)


@every_model
@pytest.mark.parametrize("n", [1, 2])
def test_a_causal_model_says_of_the_last_what_it_says_of_them_among_all(kind, n):
    model = fitted(kind, direction="causal", order="day")
    last = leave_last_out(ORDERED, n=n)
    is_target = last.role[last.elements()] == TARGET
    np.testing.assert_allclose(
        model.log_prob(last)[is_target], model.log_prob(ORDERED)[is_target], atol=1e-5
    )


@every_model
def test_scores_are_means_of_what_the_model_says(kind):
    model, some = fitted(kind), hide_some(SETS, n=2)
    scores, nats, rank = rank_items(model, some, k=3), model.log_prob(some), model.item_ranks(some)
    assert scores.nats.mean * scores.nats.n == pytest.approx(np.nansum(nats))
    assert scores.recall.mean == pytest.approx((rank[~np.isnan(rank)] <= 3).mean())
    assert scores.recall.n == 2 * len(SETS) and scores.recall.n_groups == len(SETS)


def test_standard_errors_are_those_of_independent_groups():
    """Of groups with two targets each: the spread of the groups' means, which a bootstrap has."""
    model, some = fitted("efa"), hide_some(SETS, n=2)
    scores, rank = rank_items(model, some, k=3), model.item_ranks(some)
    of_group = (1 / rank[~np.isnan(rank)]).reshape(-1, 2).mean(1)
    assert scores.mrr.error == pytest.approx(of_group.std(ddof=1) / np.sqrt(len(SETS)))
    drawn = np.random.default_rng(0).choice(of_group, size=(4000, len(SETS))).mean(1)
    assert scores.mrr.error == pytest.approx(drawn.std(), rel=0.1)


@pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
def test_ranks_by_hand():
    """By popularity: a 3, b 2, c and d 1 each, which share rank 3.5; x is unknown, and a miss."""
    frame = pd.DataFrame({"user": [1, 1, 1, 2, 2, 2, 2], "movie": list("abcabda")})
    model = Marginal(**ITEMS, support="none", smoothing=1e-9).fit(frame)
    new = pd.DataFrame({"user": [1, 1, 2, 2, 3, 3, 4, 4], "movie": list("xaxbxdax")})
    last = leave_last_out(Groups.from_frame(new, **ITEMS, order="rows"))
    row = rank_items(model, last, k=3).to_dict()
    assert row["nats"] == pytest.approx(np.log([3 / 7, 2 / 7, 1 / 7]).mean(), abs=1e-6)
    assert row["recall@3"] == 0.5 and row["recall@3 error"] == pytest.approx(np.sqrt(1 / 12))
    assert row["ndcg@3"] == pytest.approx((1 + 1 / np.log2(3)) / 4)
    assert row["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3.5) / 4)
    assert (row["targets"], row["groups"], len(row)) == (4, 4, 10)
    assert rank_items(model, last, k=3).nats.n == 3
    with pytest.raises(DataError, match="`groups` must have a target .* got none of 1 targets"):
        rank_items(model, last[3])


def test_groups_that_are_too_short_are_counted():
    groups = ORDERED.with_(stop=ORDERED.start + np.arange(len(ORDERED)) % 4)
    with pytest.warns(ExfamWarning, match="^10 of 20 groups are left out: they have no target, or"):
        assert len(leave_last_out(groups)) == 10
    with pytest.warns(ExfamWarning, match="^15 of 20 groups are left out"):
        assert len(hide_some(groups, n=2)) == 10
    with pytest.warns(ExfamWarning, match="^10 of 20 groups are left out"):
        assert len(hide_some(groups, share=0.99)) == 5 * 1 + 5 * 2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: leave_last_out(SETS), "`groups` must be ordered .* got sets. Read them with"),
        (lambda: leave_last_out(ORDERED, n=9), "`groups` must have a group with .* none of 20"),
        (
            lambda: hide_some(SETS.with_(role=np.ones(SETS.n_rows, int))),
            "none of 20. Hold out fewer",
        ),
        (lambda: leave_last_out(ORDERED, n=0), "`n` must be an integer >= 1"),
        (lambda: hide_some(SETS, n=0), "`n` must be an integer >= 1"),
        (lambda: hide_some(SETS, share=1.0), "`share` must be a number strictly between 0 and 1"),
        (lambda: hide_some(SETS, share=0.5, n=1), "`share` must not be given beside `n`, got 0.5"),
        (lambda: hide_some(SETS, seed=-1), "`seed` must be"),
        (lambda: rank_items(fitted("efa"), SETS, k=0), "`k` must be an integer >= 1"),
        (lambda: rank_items("efa", SETS), "`model` must be an estimator of items .* got str"),
        (
            lambda: rank_items(fitted_on(FRAME, "marginal", parts="values"), RATED),
            "`model` must have an item",
        ),
    ],
)
def test_what_cannot_be_held_out_or_ranked_is_refused(call, match):
    with pytest.raises(ExfamError, match=match):
        call()
