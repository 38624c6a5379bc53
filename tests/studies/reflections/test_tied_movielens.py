"""Free and reflected vectors of movies, on groups of two kinds of items."""

from dataclasses import replace

import numpy as np
import pytest

from exfam.groups import Groups
from exfam.training.history import History
from exfam_studies.common.harness import Options
from exfam_studies.common.splits import Splits
from exfam_studies.reflections import tied_movielens

N_ITEMS = 12


def drawn(n_groups, *, seed):
    """Groups of four different items, all of the first six or of the last six."""
    random = np.random.default_rng(seed)
    halves = random.integers(0, 2, n_groups)
    item = [random.choice(6, 4, replace=False) + 6 * half for half in halves]
    start = 4 * np.arange(n_groups)
    vocabulary = {"item": np.array([f"film {code}" for code in range(N_ITEMS)], dtype=object)}
    return Groups(
        start=start,
        stop=start + 4,
        item=np.concatenate(item).astype(np.int32),
        vocabulary=vocabulary,
        ordered=True,
    )


@pytest.fixture
def splits(monkeypatch):
    reported = Splits(*(drawn(n, seed=n) for n in (300, 60, 61)))
    monkeypatch.setattr(tied_movielens, "movielens_items", lambda split, *, seed: reported)
    return reported


def test_smoke_runs_have_a_row_of_each_figure(splits):
    rows = tied_movielens.run(Options(fast=True))
    assert {row.task for row in rows} == set(tied_movielens.TASKS)
    assert {(row.model, row.settings["tie"]) for row in rows} == {
        ("efa", "none"), ("efa", "reflection"), ("cbow", "none"), ("cbow", "reflection"),
        ("cbow", "random"), ("cbow", "linear"),
    }  # fmt: skip
    numbers = {
        (row.task, row.settings["tie"]): row.value for row in rows if row.metric == "count-vectors"
    }
    for task in tied_movielens.TASKS:
        assert numbers[task, "reflection"] == numbers[task, "none"] / 2
    assert numbers["tied-cbow", "reflection"] == N_ITEMS * tied_movielens.DIM
    assert all(row.validation is not None for row in rows)


def cbow(splits, tie=None, *, epochs=1):
    settings = tied_movielens.CBOW_SETTINGS
    return tied_movielens.fit_cbow(splits, **settings, tie=tie, learning_rate=0.075, epochs=epochs)


def test_cbow_ranks_items_of_the_same_kind_first(splits, monkeypatch):
    """Of the nine items left, three are of the kind of the others: chance has an MRR of 0.31."""
    for tie in (None, "reflection"):
        figures = tied_movielens._cbow_figures(cbow(splits, tie, epochs=80), splits.test)
        assert figures["mrr"] > 0.5
    # Items that are unknown are ranked last.
    few = cbow(replace(splits, train=splits.train[:1]))
    assert tied_movielens._cbow_figures(few, splits.test)["recall@10"] < 0.6
    monkeypatch.setattr(History, "interrupted", property(lambda history: True))
    with pytest.raises(KeyboardInterrupt, match="a fit was cut short"):
        cbow(splits)
