"""Fits compared: smoke runs whose figures mean nothing, and laws among them."""

import pytest

from exfam_studies.common.harness import Options
from exfam_studies.common.splits import Splits
from exfam_studies.efa import efa_identifiability as experiment
from exfam_studies.efa.attention_process import draw_attention_process
from row_cases import find

AGAINST = {"seeds", "truth", "shuffled-items", "shuffled-contexts"}


def splits():
    process = draw_attention_process(30, dim=3, seed=5)
    return Splits(*(process.draw(n, length=6, seed=n) for n in (60, 20, 40)))


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "N_TEST", 60)
        patch.setattr(experiment, "movielens_items", lambda split, *, seed: splits())
        patch.setattr(experiment, "instacart_baskets", lambda split: splits())
        patch.setattr(experiment, "FAST_SIZES", (50, 60))
        patch.setattr(experiment, "SIZES", dict.fromkeys((50, 60), {"batch_size": 16}))
        return experiment.run(Options(fast=True, seeds=2))


def test_every_task_is_reported_beside_its_nulls(rows):
    assert {row.task for row in rows} == set(experiment.TASKS)
    for name in ("simulated", "movielens", "instacart"):
        reported = find(rows, task=f"identifiability-{name}", metric="alike-context")
        against = {row.settings["against"] for row in reported}
        assert against == (AGAINST if name == "simulated" else AGAINST - {"truth"})
        assert len({row.settings["groups"] for row in reported}) == 2, "a curve needs two sizes"
    assert {row.settings["model"] for row in find(rows, task="identifiability-simulated")} == {
        "plain", "fresh-truth", *experiment.VARIANTS
    }  # fmt: skip


def test_pairs_of_other_contexts_disagree(rows):
    assert all(row.value > 0 for row in find(rows, metric="divergence-nats", against="seeds"))
    for row in find(rows, metric="alike-context"):
        assert row.settings["pairs"] == (2 if row.settings["against"] == "truth" else 1)
    for row in find(rows, metric="alike-context", against="shuffled-contexts"):
        assert row.value < 0.3


def test_assumptions_that_fail_are_named(rows):
    failed = {
        row.settings["model"]: row.settings["failed"]
        for row in find(rows, task="identifiability-simulated", metric="count-assumptions-failed")
    }
    assert failed["plain"] == "none"
    assert "K <= D - 1" in failed["dims-24"] and "assumption 2" in failed["dims-24"]
    assert failed["layer-norm"] == "contexts in no plane"


def test_no_fit_beats_the_truth_by_far(rows):
    known = find(rows, task="identifiability-simulated", metric="nats")
    bayes = {row.settings["model"]: row.value for row in known if row.model == "bayes"}
    fitted = [row for row in known if row.model == "efa"]
    assert fitted and all(row.value > bayes[row.settings["model"]] - 0.05 for row in fitted)
    assert bayes["fresh-truth"] != bayes["plain"]


def test_values_of_two_dimensions_have_one_distribution_and_no_map(rows):
    reported = {
        (row.settings["dims"], row.metric): row.value
        for row in find(rows, task="identifiability-values", model="counterexample")
    }
    for dims in (1, 2):
        assert reported[dims, "count-assumptions-failed"] == 0
        assert reported[dims, "divergence-means"] == 0
    assert reported[1, "alike-context-forward"] == reported[1, "alike-context-backward"] == 1
    assert (
        reported[2, "count-conclusions-failed"] == 1 and reported[2, "alike-context-forward"] < 0.9
    )
