"""Experiments on which item stands next to which: EFA, latent factors, marginals, recommenders.

Negative log-likelihoods of items in nats, and rankings of the full catalog, in both directions.
Support "all" lets every item occur again, "exclusion" none that the context holds. Split "paper" is
the one that settings were chosen on; "correct" was never used while choosing anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from exfam.efa.baselines import Marginal
from exfam.efa.efa import EFA
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.latent_factor import LatentFactor
from exfam.efa.recommenders import LinearRecommender, ease, item_knn, popularity
from exfam.groups import Groups
from exfam.scores.metrics import mrr, ndcg_at, ranks, recall_at
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    fit_seeds,
    fitter,
    gather,
    ratio_row,
    rows_of,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import SPLITS, Splits

__all__ = ["DIRECTIONS", "SUPPORTS", "ItemExperiment", "item_rows"]

DIRECTIONS = ("bidirectional", "causal")
SUPPORTS = {"all": "none", "exclusion": "hard"}
# The paper knows neither exclusion nor other splits.
PRINTED = {"support": "all", "split": "paper"}

Settings = Mapping[str, Any]
# Direction and support -> what was chosen for it.
Chosen = Mapping[tuple[str, str], Any]


@dataclass(frozen=True, kw_only=True)
class ItemExperiment:
    """What one such experiment is made of.

    `task`: what its tasks' names begin with; the direction follows
    `read`: name of a split -> its parts
    `efa`, `latent_factor`: estimator's parameters by direction and support, chosen by validation
    among `n_efa` and `n_latent_factor` configurations
    `latent_factors`: form of a latent factor model by name; "latent-factor" has the chosen
    parameters, all others those of `plain`
    `paper_efa`, `paper_fm`: the paper's nats by direction
    `reference_seconds`: CPU seconds of the authors' code by direction, where known
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
        for direction in DIRECTIONS:
            if options.wants(experiment.task + direction):
                table = _Table(experiment, options, splits, split, direction)
                jobs += _jobs(table)
    return gather(jobs)


@dataclass(frozen=True, eq=False)
class _Table:
    """A direction of an experiment on one split."""

    experiment: ItemExperiment
    options: Options
    splits: Splits
    split: str
    direction: str

    @property
    def task(self) -> str:
        return self.experiment.task + self.direction


def _jobs(table: _Table) -> list[Job]:
    jobs = []
    for support in SUPPORTS:
        place = {"support": support, "split": table.split}
        for contender in _contenders(table, place):
            work = partial(_fitted_rows, table, contender)
            jobs.append(Job(f"{table.task} {contender.model} {support} {table.split}", work))
        if table.split == "paper":
            work = partial(_recommender_rows, table, place)
            jobs.append(Job(f"{table.task} recommenders {support}", work))
    return jobs


def _contenders(table: _Table, place: Mapping[str, str]) -> list[Contender]:
    direction = table.direction
    common = {"direction": direction, "parts": "items", "support": SUPPORTS[place["support"]]}
    marginal = Contender(
        model="marginal", settings=place, fit=fitter(Marginal, common), chance=False
    )
    return [marginal, *_latent_factors(table, common, place), *_attention(table, common, place)]


def _attention(
    table: _Table, common: Mapping[str, str], place: Mapping[str, str]
) -> list[Contender]:
    """EFA with the positions of the order of items, without them, and with all defaults.

    Only the first sees the order; the others, like latent factors, see sets. A causal model that
    does not is no model of what comes next, so that there the defaults have positions as well.
    """
    experiment, direction = table.experiment, table.direction
    chosen = {**common, **experiment.efa[direction, place["support"]]}
    n_configurations = experiment.n_efa[direction, place["support"]]
    paper = {"nats": experiment.paper_efa[direction]} if place == PRINTED else {}
    forms: dict[str, tuple[Settings, int]] = {
        "efa-positions": ({**chosen, "encoding": "relative"}, n_configurations),
        "efa-set": ({**chosen, "encoding": "none"}, 1),
        "efa-defaults": (common if direction == "causal" else {**common, "encoding": "none"}, 1),
    }
    return [
        Contender(
            model=model,
            settings=place,
            fit=fitter(EFA, training_of(parameters, table.options)),
            ensemble=model != "efa-defaults",
            n_configurations=n,
            paper=paper if model == "efa-positions" else {},
        )
        for model, (parameters, n) in forms.items()
        if model != "efa-set" or direction == "bidirectional"
    ]


def _latent_factors(
    table: _Table, common: Mapping[str, str], place: Mapping[str, str]
) -> list[Contender]:
    experiment, direction = table.experiment, table.direction
    contenders = []
    for model, form in experiment.latent_factors.items():
        own, notebook = model == "latent-factor", model == "latent-factor-notebook"
        if place["split"] == "correct" and not own:
            continue
        chosen = experiment.latent_factor[direction, place["support"]] if own else experiment.plain
        mask = {"mask_vector": notebook and direction == "causal"}
        parameters = training_of({**common, **chosen, **form, **mask}, table.options)
        contenders.append(
            Contender(
                model=model,
                settings=place,
                fit=fitter(LatentFactor, parameters),
                n_configurations=experiment.n_latent_factor if own else 1,
                paper={"nats": experiment.paper_fm[direction]}
                if notebook and place == PRINTED
                else {},
            )
        )
    return contenders


def _fitted_rows(table: _Table, contender: Contender) -> list[Row]:
    experiment, task = table.experiment, table.task
    on_papers = table.split == "paper"
    usual = experiment.seeds if on_papers else experiment.correct_seeds
    fits = fit_seeds(contender, table.splits, seeds=table.options.n_seeds(usual))
    measure = _nats_and_ranking if on_papers else _nats
    rows = rows_of(contender, fits, table.splits, task=task, measure=measure)
    seconds = experiment.reference_seconds.get(table.direction)
    if contender.model == "efa-positions" and on_papers and seconds:
        rows.append(ratio_row(contender, fits, task=task, seconds=seconds))
    if experiment.more is not None and on_papers:
        rows += experiment.more(contender, fits, task)
    return rows


def _nats(estimator: GroupEstimator, groups: Groups) -> dict[str, float]:
    return {"nats": -estimator.score(groups)}


def _nats_and_ranking(estimator: GroupEstimator, groups: Groups) -> dict[str, float]:
    assert groups.item is not None
    item = groups.item[groups.elements()].astype(np.int64)
    rank = ranks(estimator.predict_proba(groups), item)
    return _nats(estimator, groups) | _ranking(rank)


def _ranking(rank: np.ndarray) -> dict[str, float]:
    return {
        "recall@10": recall_at(rank, k=10),
        "recall@20": recall_at(rank, k=20),
        "ndcg@10": ndcg_at(rank, k=10),
        "mrr": mrr(rank),
    }


def _recommender_rows(table: _Table, place: Mapping[str, str]) -> list[Row]:
    """Popularity, item-kNN and EASE, each with what ranks validation best."""
    train, experiment = table.splits.train, table.experiment
    tried: dict[str, dict[str, LinearRecommender]] = {
        "popularity": {"": popularity(train)},
        "item-knn": {
            f"{n} neighbors": item_knn(train, n_neighbors=n) for n in experiment.neighbors
        },
        "ease": {f"ridge {r:g}": ease(train, ridge=r) for r in experiment.ridges},
    }
    rows = []
    for model, choices in tried.items():
        rows += _best_ranking(table, place, model=model, choices=choices)
    return rows


def _best_ranking(
    table: _Table,
    place: Mapping[str, str],
    *,
    model: str,
    choices: Mapping[str, LinearRecommender],
) -> list[Row]:
    exclude = place["support"] == "exclusion"

    def figures(recommender: LinearRecommender, groups: Groups) -> dict[str, float]:
        rank = recommender.ranks(groups, direction=table.direction, exclude=exclude)
        return _ranking(rank)

    ranked = {name: figures(each, table.splits.validation) for name, each in choices.items()}
    best = max(ranked, key=lambda name: ranked[name]["ndcg@10"])
    test = figures(choices[best], table.splits.test)
    return [
        Row(
            task=table.task,
            model=model,
            settings=place,
            metric=metric,
            value=value,
            validation=ranked[best][metric],
            n_configurations=len(choices),
            note=best,
        )
        for metric, value in test.items()
    ]
