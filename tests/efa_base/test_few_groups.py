"""Bases of a few groups: none is far behind popularity, and no item is known by being rare."""

import numpy as np
import pandas as pd
import pytest

from exfam import EFA
from exfam.efa.base.left_out import LeftOut
from exfam.efa.base.scoring import hold_of
from model_cases import make_groups

N_ITEMS, N_OTHERS = 8, 60
SETTINGS = {
    "set": {},
    "both sides": {"order": "t"},
    "causal": {"order": "t", "direction": "causal"},
}


def drawn(n_groups, *, repeats, seed=0):
    """Items of groups, each drawn by itself."""
    random = np.random.default_rng(seed)
    share = random.dirichlet(np.full(N_ITEMS, 0.7))
    groups = [
        random.choice(N_ITEMS, size=random.integers(2, 6), replace=repeats, p=share)
        for _ in range(n_groups + N_OTHERS)
    ]
    length = [len(items) for items in groups]
    return pd.DataFrame(
        {
            "g": np.repeat(np.arange(len(groups)), length),
            "i": [f"a{item}" for items in groups for item in items],
            "t": np.concatenate([np.arange(n) for n in length]),
        }
    )


@pytest.mark.parametrize("n_groups", [3, 6, 12])
@pytest.mark.parametrize("kind", SETTINGS)
def test_few_groups_are_not_far_behind_popularity(kind, n_groups):
    """Numbers that nothing held came to exponents of 188, and up to 25 nats an item behind it."""
    frame = drawn(n_groups, repeats=kind != "set")
    own, other = frame[frame.g < n_groups], frame[frame.g >= n_groups]
    other = other[other.i.isin(own.i)]
    model = EFA(group="g", item="i", attention="none", progress=False, **SETTINGS[kind]).fit(own)
    count = own.i.value_counts() + 1
    popularity = np.log(count / count.sum()).loc[other.i].mean()
    assert model.score(other) > popularity - {3: 3.0, 6: 0.7, 12: 0.3}[n_groups]


@pytest.mark.parametrize("part", ["item", "value"])
def test_groups_too_few_to_hold_any_out_have_the_base_alone(part):
    """Nothing says that a correction gains."""
    frame = drawn(6, repeats=True)
    frame["v"] = np.random.default_rng(0).normal(size=len(frame))
    own, other = frame[frame.g < 6], frame[frame.g >= 6]
    columns = {"group": "g", part: {"item": "i", "value": "v"}[part]}
    settings = {"max_epochs": 3, "progress": False}
    model = EFA(**columns, **settings).fit(own)
    alone = EFA(**columns, **settings, attention="none").fit(own)
    other = other[other.i.isin(own.i)]
    assert model.score(other) == pytest.approx(alone.score(other), abs=1e-5)
    unjudged = EFA(**columns, **settings, validation_fraction=0.0).fit(own)
    assert model.score(other) != pytest.approx(unjudged.score(other), abs=1e-5)


def test_items_of_one_group_are_no_targets():
    """Without that group each would be the one item that was never seen."""
    item = np.array([0, 1, 0, 2, 1, 3], dtype=np.int32)
    groups = make_groups(lengths=[2, 2, 2], item=item, n_items=4)
    count = np.array([2.0, 2.0, 1.0, 1.0])
    some = LeftOut.draw(groups, count, most_items=4, most_outputs=1000, seed=0, hard=True)
    batch = some.groups.pad(np.arange(len(some.groups)))
    assert sorted(batch.item[batch.target].tolist()) == [0, 0, 1, 1]


def test_numbers_of_few_rows_are_held_more_firmly():
    assert hold_of(10) == pytest.approx(0.1) and hold_of(10, in_all=2.0) == pytest.approx(0.2)
    assert hold_of(0) == 1.0 and hold_of(100_000) == hold_of(1_000_000)
