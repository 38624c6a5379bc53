"""Groups drawn from attention: the truth reported is the truth that drew them."""

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError
from exfam.groups import Groups
from exfam_studies.efa.attention_process import draw_attention_process

PROCESS = draw_attention_process(10, dim=3, seed=0)


def by_hand(earlier):
    """H after these items, from the formula."""
    total, weights = PROCESS.start.copy(), 1.0
    for steps, item in enumerate(reversed(earlier)):
        weight = np.exp(PROCESS.key @ PROCESS.value[item] - PROCESS.fade * steps)
        total, weights = total + weight * PROCESS.value[item], weights + weight
    return total / weights


def test_contexts_follow_the_formula_in_groups_of_any_length():
    groups = Groups(start=[0, 3, 4], stop=[3, 4, 8], item=[1, 5, 5, 2, 9, 0, 3, 3])
    wanted = [
        by_hand(group[:step])
        for group in ([1, 5, 5], [2], [9, 0, 3, 3])
        for step in range(len(group))
    ]
    np.testing.assert_allclose(PROCESS.contexts(groups), wanted)
    view = groups[[2, 0]]
    np.testing.assert_allclose(PROCESS.contexts(view), [*wanted[4:], *wanted[:3]])


def test_drawn_items_have_the_probabilities_reported():
    """Second items, by what the first one was, against the exact conditionals."""
    groups = PROCESS.draw(40_000, length=2, seed=3)
    pairs = groups.item.reshape(-1, 2)
    table = np.zeros((10, 10))
    np.add.at(table, (pairs[:, 0], pairs[:, 1]), 1)
    statistic, freedom = 0.0, 0
    for first in np.flatnonzero(table.sum(axis=1) > 200):
        pairs_of_first = Groups(
            start=2 * np.arange(10),
            stop=2 * np.arange(10) + 2,
            item=np.column_stack([np.full(10, first), np.arange(10)]).ravel(),
            vocabulary={"item": np.arange(10)},
        )
        expected = table[first].sum() * np.exp(PROCESS.log_prob(pairs_of_first)[1::2])
        assert expected.sum() == pytest.approx(table[first].sum())
        statistic += ((table[first] - expected) ** 2 / expected).sum()
        freedom += 9
    assert freedom > 30
    assert scipy.stats.chi2(freedom).sf(statistic) > 1e-3


def test_earlier_items_matter_and_the_last_one_does_not():
    groups = PROCESS.draw(300, length=6, seed=4)
    assert np.ptp(PROCESS.contexts(groups)[5::6], axis=0).min() > 0.5
    groups = PROCESS.draw(1, length=4, seed=5)
    other = groups.with_(item=np.append(groups.item[:3], (groups.item[3] + 1) % 10))
    np.testing.assert_array_equal(PROCESS.contexts(groups), PROCESS.contexts(other))


def test_items_of_another_catalog_are_refused():
    for groups in (Groups(start=[0], stop=[1], item=[10]), Groups(start=[0], stop=[2])):
        with pytest.raises(DataError, match=r"`groups` must hold items 0 \.\. 9 alone, got others"):
            PROCESS.contexts(groups)
