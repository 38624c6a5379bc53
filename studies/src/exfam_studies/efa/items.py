"""Experiments on which item stands next to which: EFA, latent factors, marginals, recommenders.

Negative log-likelihoods of items in nats, and rankings of the full catalog, in both directions.
Support "all" lets every item occur again, "exclusion" none that the context holds. Split "paper" is
the one that settings were chosen on; "correct" was never used while choosing anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from exfam.efa.baselines import Marginal
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.recommenders import LinearRecommender, ease, item_knn, popularity
from exfam.groups import Groups
from exfam.scores.metrics import mrr, ndcg_at, ranks, recall_at
from exfam_studies.common.fits import Contender, Fit, Job, fit_seeds, gather, rows_of, smaller
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, measured_rows
from exfam_studies.common.splits import SPLITS, Splits, items_of
from exfam_studies.efa.contenders import (
    DIRECTIONS,
    NOTEBOOK,
    Settings,
    attention,
    closed_form,
    latent_factors,
    nats,
)

SUPPORTS = {"all": "none", "exclusion": "hard"}
# Direction and support -> what was chosen for it.
Chosen = Mapping[tuple[str, str], Any]


@dataclass(frozen=True, kw_only=True)
class ItemExperiment:
    """What one such experiment is made of; rows of the table by direction and support.

    `task`: what its tasks' names begin with; `read`: name of a split -> its parts
    `efa`, `latent_factor`: parameters chosen by validation among `n_efa` and `n_latent_factor`
    `latent_factors`: forms by name; all but "latent-factor" have the parameters of `plain`
    `paper_efa`, `paper_fm`: the paper's nats; `reference_seconds`: of the authors' code, CPU
    `seeds`, `correct_seeds`: fits of each model on the paper's and on the correct split
    `neighbors`, `ridges`: what item-kNN and EASE choose from, by NDCG@10 on validation
    `more`: further rows made from a model's fits to the paper's split
    """

    task: str
    read: Callable[[str], Splits]
    efa: Chosen
    n_efa: Chosen
    latent_factor: Chosen
    n_latent_factor: int
    latent_factors: Mapping[str, Settings]
    plain: Settings
    paper_efa: Mapping[str, float]
    paper_fm: Mapping[str, float]
    reference_seconds: Mapping[str, float]
    neighbors: Sequence[int]
    ridges: Sequence[float]
    seeds: int = 5
    correct_seeds: int = 5
    more: Callable[[Contender, Sequence[Fit], str], list[Row]] | None = None


def item_rows(experiment: ItemExperiment, options: Options) -> list[Row]:
    """Fit and score all models of the wanted tasks."""
    jobs: list[Job] = []
    for split in SPLITS:
        splits = smaller(experiment.read(split), options)
        for direction, support in product(DIRECTIONS, SUPPORTS):
            table = _Table(experiment, options, splits, split, direction, support)
            if options.wants(table.task):
                for own in _contenders(table):
                    label = f"{table.task} {own.model} {support} {split}"
                    jobs.append(Job(label, partial(_fitted_rows, table, own)))
                if split == "paper":
                    label = f"{table.task} recommenders {support}"
                    jobs.append(Job(label, partial(_recommender_rows, table)))
    return gather(jobs)


@dataclass(frozen=True, eq=False)
class _Table:
    """A direction and a support of an experiment on one split."""

    experiment: ItemExperiment
    options: Options
    splits: Splits
    split: str
    direction: str
    support: str

    @property
    def task(self) -> str:
        return self.experiment.task + self.direction

    @property
    def where(self) -> dict[str, str]:
        """What rows say of the data."""
        return {"support": self.support, "split": self.split}


def _contenders(table: _Table) -> list[Contender]:
    """Marginals, latent factors, EFA with positions, without them and with all defaults.

    Only EFA with the positions of the order of items sees it; the others see sets. A causal model
    that does not is no model of what comes next, so that there the defaults have positions as well.
    The paper has neither exclusion nor other splits.
    """
    experiment, options, where = table.experiment, table.options, table.where
    direction, key = table.direction, (table.direction, table.support)
    common = {"direction": direction, "parts": "items", "support": SUPPORTS[table.support]}
    chosen, is_set = {**common, **experiment.efa[key]}, direction == "bidirectional"
    on_papers, is_papers = table.split == "paper", (table.support, table.split) == ("all", "paper")
    paper_efa, paper_fm = (
        {"nats": figures[direction]} if is_papers else {}
        for figures in (experiment.paper_efa, experiment.paper_fm)
    )
    without = {"encoding": "none"} if is_set else {}
    return [
        closed_form("marginal", Marginal, common, where=where),
        *latent_factors(
            {
                model: {**form, "mask_vector": not is_set and model == NOTEBOOK}
                for model, form in experiment.latent_factors.items()
            },
            options,
            where=where,
            own={**common, **experiment.latent_factor[key]},
            n_own=experiment.n_latent_factor,
            plain={**common, **experiment.plain},
            paper=paper_fm if on_papers else None,
        ),
        attention(
            "efa-positions",
            {**chosen, "encoding": "relative"},
            options,
            where=where,
            n_configurations=experiment.n_efa[key],
            paper=paper_efa,
            reference_seconds=experiment.reference_seconds.get(direction) if on_papers else None,
        ),
        *([attention("efa-set", {**chosen, **without}, options, where=where)] if is_set else []),
        attention("efa-defaults", {**common, **without}, options, where=where),
    ]


def _fitted_rows(table: _Table, contender: Contender) -> list[Row]:
    experiment, on_papers = table.experiment, table.split == "paper"
    usual = experiment.seeds if on_papers else experiment.correct_seeds
    fits = fit_seeds(contender, table.splits, seeds=table.options.n_seeds(usual))
    measure = _nats_and_ranking if on_papers else nats
    rows = rows_of(contender, fits, table.splits, task=table.task, measure=measure)
    if experiment.more is not None and on_papers:
        rows += experiment.more(contender, fits, table.task)
    return rows


def _nats_and_ranking(estimator: GroupEstimator, groups: Groups) -> dict[str, float]:
    rank = ranks(estimator.predict_proba(groups), items_of(groups))
    return nats(estimator, groups) | ranking(rank)


def ranking(rank: np.ndarray) -> dict[str, float]:
    """Figures of ranks in the full catalog."""
    recalls = {f"recall@{k}": recall_at(rank, k=k) for k in (10, 20)}
    return {**recalls, "ndcg@10": ndcg_at(rank, k=10), "mrr": mrr(rank)}


def _recommender_rows(table: _Table) -> list[Row]:
    """Popularity, item-kNN and EASE, each with what ranks validation best."""
    train, experiment = table.splits.train, table.experiment
    tried: dict[str, dict[str, LinearRecommender]] = {
        "popularity": {"": popularity(train)},
        "item-knn": {
            f"{n} neighbors": item_knn(train, n_neighbors=n) for n in experiment.neighbors
        },
        "ease": {f"ridge {r:g}": ease(train, ridge=r) for r in experiment.ridges},
    }

    def figures(recommender: LinearRecommender, groups: Groups) -> dict[str, float]:
        exclude = table.support == "exclusion"
        return ranking(recommender.ranks(groups, direction=table.direction, exclude=exclude))

    rows = []
    for model, choices in tried.items():
        validation = {name: figures(own, table.splits.validation) for name, own in choices.items()}
        best = max(validation, key=lambda name: validation[name]["ndcg@10"])
        row = Row(task=table.task, model=model, settings=table.where, metric="", note=best)
        row = replace(row, n_configurations=len(choices))
        rows += measured_rows(row, figures(choices[best], table.splits.test), validation[best])
    return rows
