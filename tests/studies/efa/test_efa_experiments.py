"""Smoke runs of the experiments: their figures mean nothing, the laws among them hold."""

import pytest

from exfam_studies.common import fits
from exfam_studies.common.harness import Options
from exfam_studies.efa import movielens_items, movielens_ratings, synthetic
from row_cases import find, value


def run(module, tasks, *, n_groups=16, seeds=1):
    """A smoke run on fewer groups still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "FAST_GROUPS", n_groups)
        return module.run(Options(fast=True, seeds=seeds, only=tasks))


@pytest.fixture(scope="module")
def simulated():
    return run(synthetic, ["synthetic-causal"], seeds=2)


@pytest.fixture(scope="module")
def items(data_folder):
    return run(movielens_items, ["movielens-items-causal"])


@pytest.fixture(scope="module")
def ratings(data_folder):
    tasks = ["movielens-ratings-v1-bidirectional", "movielens-ratings-v2-bidirectional"]
    return run(movielens_ratings, tasks, n_groups=32, seeds=2)  # for means that are reported apart


def test_the_excess_is_what_a_model_adds_to_the_best_possible_error(simulated):
    assert {row.task for row in simulated} == {"synthetic-causal"}
    models = {row.model for row in simulated} - {"bayes"}
    assert models == {
        "marginal", "shrunk-offset", "efa", "efa-ensemble", "efa-defaults",
        "latent-factor", "latent-factor-notebook", "latent-factor-printed",
    }  # fmt: skip
    for draw in synthetic.DRAWS:
        bayes = value(simulated, model="bayes", draw=draw, metric="mse")
        assert {row.model for row in find(simulated, draw=draw)} >= {"efa", "latent-factor"}
        for row in find(simulated, draw=draw, metric="excess-mse"):
            error = value(simulated, model=row.model, draw=draw, metric="mse")
            assert row.value == pytest.approx(error - bayes) and row.value > 0


def test_exclusion_helps_where_items_do_not_repeat(items):
    for split in ("paper", "correct"):
        everything, excluded = (
            value(items, model="marginal", support=support, split=split, metric="nats")
            for support in ("all", "exclusion")
        )
        assert excluded < everything


def test_the_papers_loss_leaves_out_the_same_nats_for_every_poisson_model(ratings):
    for task in {row.task for row in ratings}:
        gaps = {
            round(row.value - value(ratings, task=task, model=row.model, metric="nats",
                                    split="paper", family="poisson"), 5)
            for row in find(ratings, task=task, metric="paper-loss", split="paper")
        }  # fmt: skip
        assert len(gaps) == 1 and gaps.pop() < 0


def test_families_of_ratings_are_the_same_in_both_versions(ratings):
    first, second = (
        {
            (row.model, row.metric, *row.settings.values()): row.value
            for row in find(ratings, task=f"movielens-ratings-{version}-bidirectional")
            if row.settings["family"] not in ("poisson",)
        }
        for version in ("v1", "v2")
    )
    assert first == second and len(first) > 10


def test_the_difference_to_shrunk_offset_is_that_of_the_table(ratings):
    for row in find(ratings, metric="nats-difference-to-shrunk-offset"):
        where = {"task": row.task, "split": row.settings["split"], "metric": "nats"}
        own = value(ratings, model=row.model, family=row.settings["family"], **where)
        rival = value(ratings, model="shrunk-offset", family=row.settings["against"], **where)
        assert row.value == pytest.approx(own - rival, abs=1e-6)
        assert row.settings["low"] < row.value < row.settings["high"]
        candidates = [
            (other.validation, other.settings["family"])
            for other in find(ratings, model="efa-offset", **where)
            if other.settings["family"] != "poisson"
        ]
        assert min(candidates)[1] == row.settings["family"]


def test_mean_predictions_are_ratings_whatever_the_family_counts_from(ratings):
    predicted = [row for row in ratings if row.metric.startswith("mean-given-")]
    assert {row.settings["family"] for row in predicted} >= {"binomial", "ordinal", "poisson"}
    usual = value(ratings, task=predicted[0].task, model="marginal", family="categorical",
                  metric="mean-given-1")  # fmt: skip
    assert all(abs(row.value - usual) < 0.9 for row in predicted)


def test_the_papers_figures_stand_where_the_paper_has_been(simulated, items, ratings):
    printed = {(row.model, row.settings["draw"]): row.paper for row in simulated if row.paper}
    assert printed == {("efa", "notebook"): 1.033, ("latent-factor-notebook", "notebook"): 4.519}
    printed = {row.model: (row.paper, dict(row.settings)) for row in items if row.paper}
    where = {"support": "all", "split": "paper"}
    assert printed == {"efa-positions": (3.444, where), "latent-factor-notebook": (3.534, where)}
    printed = {
        (row.task.split("-")[2], row.model, row.metric): row.paper for row in ratings if row.paper
    }
    assert printed["v1", "efa-offset", "paper-loss"] == 0.945 and len(printed) == 16
    assert printed["v2", "latent-factor-notebook", "mean-given-3"] == 2.21
