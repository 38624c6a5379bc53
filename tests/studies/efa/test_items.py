"""Experiments on items, on baskets of this file's own: 8 items, each followed by its partner."""

import numpy as np
import pytest

from exfam.groups import Groups
from exfam_studies.common.harness import Options
from exfam_studies.common.splits import Splits
from exfam_studies.efa.items import DIRECTIONS, SUPPORTS, ItemExperiment, item_rows
from row_cases import find, value

KEYS = [(direction, support) for direction in DIRECTIONS for support in SUPPORTS]
BRIEF = {"max_epochs": 3, "learning_rate": 3e-2}


class Brief(Options):
    """A smoke run with as many fits as a full one."""

    def n_seeds(self, usual):
        return usual


def partners(n_groups, *, seed):
    """Groups of two pairs (0, 1), (2, 3), … of different items."""
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(4), (n_groups, 1)), axis=1)
    item = (2 * drawn[:, :2, None] + np.arange(2)).reshape(-1)
    start = np.arange(0, 4 * n_groups, 4)
    return Groups(
        start=start, stop=start + 4, item=item, vocabulary={"item": np.arange(8)}, ordered=True
    )


def read(split):
    return Splits(*(partners(60, seed=len(split) + part) for part in range(3)))


def experiment():
    return ItemExperiment(
        task="pairs-",
        read=read,
        efa={key: {**BRIEF, "embed_dim": 8, "n_layers": 1} for key in KEYS},
        n_efa=dict.fromkeys(KEYS, 7),
        latent_factor={key: {**BRIEF, "dim": 4} for key in KEYS},
        n_latent_factor=3,
        latent_factors={
            "latent-factor-notebook": {"pooling": "sum", "intercept": False},
            "latent-factor": {},
        },
        plain={**BRIEF, "dim": 2},
        paper_efa={"bidirectional": 1.0, "causal": 2.0},
        paper_fm={"bidirectional": 3.0, "causal": 4.0},
        reference_seconds={"causal": 1000.0},
        neighbors=(2, 7),
        ridges=(1.0, 10.0),
        seeds=2,
        correct_seeds=1,
    )


@pytest.fixture(scope="module")
def results():
    return item_rows(experiment(), Brief(only=["pairs-causal"], fast=True))


def test_fits_are_counted_by_split(results):
    assert {row.task for row in results} == {"pairs-causal"}
    unseen = find(results, split="correct")
    assert {row.metric for row in unseen} == {"nats"}
    assert {row.model for row in unseen} == {
        "marginal", "latent-factor", "efa-positions", "efa-defaults"
    }  # fmt: skip
    for split, n_fits in (("paper", 2), ("correct", 1)):
        for model in ("efa-positions", "efa-defaults", "latent-factor"):
            assert {row.n_seeds for row in find(results, model=model, split=split)} == {n_fits}
    assert {row.n_seeds for row in find(results, model="marginal")} == {None}
    assert {row.settings["members"] for row in find(results, model="efa-positions-ensemble")} == {2}


def test_who_sees_the_partner_ranks_it_first(results):
    for support in SUPPORTS:
        both = [
            value(results, model=m, support=support, metric="mrr")
            for m in ("marginal", "popularity")
        ]
        assert both[0] == pytest.approx(both[1])
        where = {"support": support, "metric": "ndcg@10"}
        ranked = {m: value(results, model=m, **where) for m in ("popularity", "item-knn", "ease")}
        assert min(ranked["item-knn"], ranked["ease"]) > ranked["popularity"]
        assert {row.n_configurations for row in find(results, model="ease", **where)} == {2}


def test_a_set_and_a_sequence_stand_beside_each_other():
    rows = item_rows(experiment(), Options(only=["pairs-bidirectional"], fast=True))
    forms = {row.model: row.parameters for row in find(rows, support="all", metric="nats")}
    assert forms["efa-positions"].get("encoding", "relative") == "relative"
    assert forms["efa-set"]["encoding"] == forms["efa-defaults"]["encoding"] == "none"
    # But for the epochs of a smoke run.
    changed = {"estimator", "parts", "support", "encoding", "max_epochs", "base"}
    assert set(forms["efa-defaults"]) == changed
