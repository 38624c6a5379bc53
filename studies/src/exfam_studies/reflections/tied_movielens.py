"""What reflected vectors do to models of movies: EFA and CBOW with free and with tied vectors.

The users and movies of "efa-movielens-items"; no movie of the context comes again. EFA's settings
are those chosen there for free vectors, and were not chosen anew for tied ones. CBOW, trained on
each user's movies as a sentence, is told by its learning rate and epochs, chosen by NDCG@10 on
validation. "count-vectors" is how many numbers the vectors of movies have.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.groups import Groups
from exfam.scores.metrics import mrr, ndcg_at, ranks, recall_at
from exfam.words import CBOW
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    fit_seeds,
    fitter,
    gather,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa.movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam_studies.efa.movielens_splits import movielens_items

__all__ = ["TASKS", "run"]

TASKS = ("tied-efa-bidirectional", "tied-efa-causal", "tied-cbow")
SEEDS = 5
DIM = 32
EFA_TIES = ("none", "reflection")
CBOW_TIES = (None, "reflection", "random", "linear")
# What CBOW is chosen from.
RATES, EPOCHS = (0.025, 0.075, 0.2), (20, 80)
_FAST_EPOCHS = (1,)


def run(options: Options) -> list[Row]:
    """Fit and score each model with each tie."""
    read = cache(lambda: smaller(movielens_items("paper", seed=SPLIT_SEED), options))
    jobs = [
        Job(f"{task} {tie}", partial(_efa_rows, task, tie, read=read, options=options))
        for task in TASKS[:2]
        if options.wants(task)
        for tie in EFA_TIES
    ]
    if options.wants(TASKS[2]):
        jobs += [
            Job(f"{TASKS[2]} {tie}", partial(_cbow_rows, tie, read=read, options=options))
            for tie in CBOW_TIES
        ]
    return gather(jobs)


def _efa_rows(task: str, tie: str, *, read: Any, options: Options) -> list[Row]:
    direction = task.removeprefix("tied-efa-")
    chosen = EFA_SETTINGS[direction, "exclusion"]
    parameters = {"direction": direction, "parts": "items", "support": "hard", "tie": tie, **chosen}
    contender = Contender(model="efa", fit=fitter(EFA, training_of(parameters, options)))
    splits = read()
    fits = fit_seeds(contender, splits, seeds=options.n_seeds(SEEDS))
    told = changed_parameters(fits[0].estimator)
    row = Row(
        task=task,
        model="efa",
        settings={"tie": tie},
        metric="",
        n_configurations=1,
        parameters=told,
    )
    return _rows(row, fits, splits, _efa_figures)


def _rows(row: Row, fits: list[Fit], splits: Splits, measure: Any) -> list[Row]:
    """A row a metric, over the fits."""
    tests, validations = (
        [measure(fit.estimator, groups) for fit in fits]
        for groups in (splits.test, splits.validation)
    )
    return [
        row_over_seeds(
            replace(row, metric=metric),
            values=[figures[metric] for figures in tests],
            validations=[figures[metric] for figures in validations],
            cpu_seconds=[fit.cpu_seconds for fit in fits],
            steps=[fit.steps for fit in fits if fit.steps is not None],
        )
        for metric in tests[0]
    ]


def _efa_figures(estimator: EFA, groups: Groups) -> dict[str, float]:
    rank = ranks(estimator.predict_proba(groups), _items(groups))
    network = estimator.members_[0]
    n_numbers = sum(
        parameter.numel()
        for name, parameter in network.named_parameters()
        if name.endswith("table.weight") and "encoding" not in name
    )
    return {
        "nats": -estimator.score(groups),
        **_ranking(rank),
        "count-vectors": float(n_numbers),
    }


def _items(groups: Groups) -> np.ndarray:
    assert groups.item is not None
    return groups.item[groups.elements()].astype(np.int64)


def _ranking(rank: np.ndarray) -> dict[str, float]:
    return {"recall@10": recall_at(rank, k=10), "ndcg@10": ndcg_at(rank, k=10), "mrr": mrr(rank)}


def _cbow_rows(tie: str | None, *, read: Any, options: Options) -> list[Row]:
    splits = read()
    sentences = _sentences(splits.train)
    grid = list(product(RATES[:1] if options.fast else RATES, _epochs(options)))
    tried = {
        (rate, epochs): _ndcg(_fit_cbow(sentences, tie, rate, epochs, seed=0), splits.validation)
        for rate, epochs in grid
    }
    rate, epochs = max(tried, key=lambda key: tried[key])
    fits = []
    for seed in range(options.n_seeds(SEEDS)):
        model = _fit_cbow(sentences, tie, rate, epochs, seed=seed)
        history = model.history_
        fits.append(Fit(model, history.cpu_seconds, history.steps))
    row = Row(
        task=TASKS[2],
        model="cbow",
        settings={"tie": tie or "none", "learning_rate": rate, "epochs": epochs},
        metric="",
        n_configurations=len(grid),
        parameters=changed_parameters(fits[0].estimator),
    )
    return _rows(row, fits, splits, _cbow_figures)


def _epochs(options: Options) -> tuple[int, ...]:
    return _FAST_EPOCHS if options.fast else EPOCHS


def _sentences(groups: Groups) -> list[list[str]]:
    items = _items(groups)
    return [
        [f"m{code}" for code in part]
        for part in np.split(items, np.cumsum(groups.lengths)[:-1])
        if len(part) > 1
    ]


def _fit_cbow(
    sentences: list[list[str]], tie: str | None, rate: float, epochs: int, *, seed: int
) -> CBOW:
    longest = max(map(len, sentences))
    model = CBOW(
        dim=DIM,
        tie=tie,
        window=longest,
        subsample=0.0,
        min_count=1,
        learning_rate=rate,
        epochs=epochs,
        deterministic=True,
        seed=seed,
        progress=False,
    )
    model.fit(sentences)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return model


def _ndcg(model: CBOW, groups: Groups) -> float:
    return _cbow_figures(model, groups)["ndcg@10"]


def _cbow_figures(model: CBOW, groups: Groups) -> Mapping[str, float]:
    """Movies by their probability: that of a yes, times that with which noise is drawn."""
    counts, words = model.vocabulary_.counts, model.vocabulary_.words
    prior = model.noise_exponent * np.log(np.maximum(counts, 1))
    code = {int(word[1:]): place for place, word in enumerate(words)}
    given, told = model.input_vectors_, model.output_vectors_
    found = []
    items = np.array([code.get(item, -1) for item in _items(groups)])
    for part in np.split(items, np.cumsum(groups.lengths)[:-1]):
        known = part[part >= 0]
        if len(known) < 2:
            found.append(np.full(len(part), np.inf))
            continue
        vectors = given[known]
        mean = (vectors.sum(0) - vectors) / (len(known) - 1)
        scores = mean @ told.T + prior
        others = ~np.eye(len(known), dtype=bool)
        rows, columns = np.nonzero(others)
        scores[rows, known[columns]] = -np.inf
        own = np.full(len(part), np.inf)
        own[part >= 0] = ranks(scores, known)
        found.append(own)
    stored = model.matrices_.stored()
    n_numbers = sum(array.size for name, array in stored.items() if name != "signs")
    return {**_ranking(np.concatenate(found)), "count-vectors": float(n_numbers)}
