"""Simulated baskets: their stated conditionals, and that the draws follow them."""

import numpy as np
import pyarrow.parquet
import pytest

from exfam.checks import DataError, ExfamError
from exfam.groups import Groups
from exfam.simulators import (
    BasketSettings,
    basket_draws,
    draw_process,
    simulate_baskets,
    write_baskets,
)

SMALL = BasketSettings(
    theme_size=6,
    staple_items=0.1,
    substituted=0.5,
    complemented=0.2,
    follow=0.4,
    staple=0.25,
    stay=0.5,
    back=0.2,
    median_length=4.0,
    max_length=8,
)
N_ITEMS = 30


@pytest.fixture(scope="module")
def drawn():
    """Baskets that are drawn in several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basket_draws, "_GROUPS_AT_ONCE", 15_000)
        return simulate_baskets(40_000, N_ITEMS, settings=SMALL, seed=3)


def members(groups):
    return np.split(groups.item, groups.stop)[:-1]


def stated(truth, earlier):
    """The formula of the module's docstring, item by item."""
    settings, staples = truth.settings, truth.staples
    themed = [int(truth.theme[j]) for j in earlier if truth.theme[j] != staples]
    partner = int(truth.partner[earlier[-1]]) if len(earlier) else -1
    follow = settings.follow if partner >= 0 else 0.0

    def m(s):
        if s == staples:
            return settings.staple
        if not themed:
            return (1 - settings.staple) * truth.popularity[s]
        return (1 - settings.staple) * (
            settings.stay * (s == themed[-1])
            + settings.back * themed.count(s) / len(themed)
            + (1 - settings.stay - settings.back) * truth.popularity[s]
        )

    gone = {truth.family[j] for j in earlier}
    q = [
        0.0
        if truth.family[d] in gone
        else (1 - follow) * m(truth.theme[d]) * truth.share[d] + follow * (d == partner)
        for d in range(truth.n_items)
    ]
    return np.array(q) / sum(q)


def test_conditionals_are_the_stated_ones(drawn):
    groups = drawn.groups[:60]
    contexts = [(items[:i], items[i]) for items in members(groups) for i in range(len(items))]
    expected = np.array([stated(drawn.truth, earlier) for earlier, _ in contexts])
    np.testing.assert_allclose(drawn.truth.probabilities(groups), expected, rtol=1e-12)
    own = [expected[row, item] for row, (_, item) in enumerate(contexts)]
    np.testing.assert_allclose(drawn.truth.log_prob(groups), np.log(own), rtol=1e-10)
    # Each branch of the formula was taken.
    last = [earlier[-1] for earlier, _ in contexts if len(earlier)]
    assert (drawn.truth.partner[last] >= 0).any() and (expected == 0).any()
    assert (drawn.truth.theme[last] == drawn.truth.staples).any()


@pytest.mark.parametrize("n_earlier", [0, 1, 2, 3])
def test_items_are_drawn_as_often_as_stated(drawn, n_earlier):
    """After every item, and at every position, within 4.5 standard errors."""
    chance, lengths = drawn.truth.probabilities(drawn.groups), drawn.groups.lengths
    own = drawn.groups.start[lengths > n_earlier] + n_earlier
    item = drawn.groups.item
    before = item[own - 1] if n_earlier else np.zeros(len(own), int)
    n_tested = 0
    for previous in np.unique(before):
        rows = own[before == previous]
        count, expected = np.bincount(item[rows], minlength=N_ITEMS), chance[rows].sum(0)
        spread = np.sqrt((chance[rows] * (1 - chance[rows])).sum(0))
        assert count[expected == 0].sum() == 0
        large = expected > 20
        assert (np.abs(count - expected)[large] < 4.5 * spread[large]).all()
        n_tested += large.sum()
    assert n_tested > (25 if n_earlier == 0 else 200)


def test_a_seed_is_a_draw_of_lengths_and_popularity_with_heavy_tails():
    groups, same, other = (simulate_baskets(9_000, 3_000, seed=seed).groups for seed in (0, 0, 1))
    assert groups.item.tolist() == same.item.tolist() != other.item.tolist()
    lengths, count = groups.lengths, np.sort(np.bincount(groups.item, minlength=3_000))[::-1]
    assert np.median(lengths) == 8 and lengths.mean() > 1.2 * np.median(lengths)
    assert lengths.min() == 1 and lengths.max() == 60
    assert count[:300].sum() > 0.4 * count.sum()


def test_a_file_holds_one_row_an_item(drawn, tmp_path):
    path, groups = tmp_path / "baskets.parquet", drawn.groups[[5, 2]]
    write_baskets(groups, path)
    table = pyarrow.parquet.read_table(path)
    back = Groups.from_frame(table, group="order", order="line", item="product")
    names = groups.vocabulary["item"][groups.item[groups.elements()]]
    assert back.vocabulary["item"][back.item].tolist() == names.tolist()
    assert back.group_names.tolist() == [5, 2]
    with pytest.raises(DataError, match="`groups` must have items by name, got none"):
        write_baskets(Groups(start=[0], stop=[1], item=[0]), path)


def test_the_truth_is_known_of_its_own_baskets_only(drawn):
    for item in (None, [-1], [30]):
        with pytest.raises(DataError, match=r"`groups` must hold items 0 \.\. 29 alone"):
            drawn.truth.log_prob(Groups(start=[0], stop=[1], item=item))
    family = drawn.truth.family
    first = int(np.flatnonzero(np.bincount(family)[family] == 2)[0])
    other = int(np.flatnonzero(family == family[first])[1])
    groups = Groups(start=[0, 1], stop=[1, 3], item=[first, first, other])
    with pytest.raises(DataError, match="must not hold an item or its substitutes twice.*group 1"):
        drawn.truth.probabilities(groups)


def test_settings_must_make_sense():
    for name, wrong in (("stay", 0.9), ("follow", 1.0), ("max_length", 0)):
        with pytest.raises(ExfamError, match=f"`{name}.* must be a number .* got"):
            BasketSettings(**{name: wrong})
    with pytest.raises(ExfamError, match="`max_length` must be at most 39, .* got 60"):
        draw_process(40, settings=BasketSettings(substituted=0.0), seed=0)
    for arguments, name in (((0, 100), "n_groups"), ((5, 0), "n_items")):
        with pytest.raises(ExfamError, match=f"`{name}` must be a number > 0"):
            simulate_baskets(*arguments, seed=0)
