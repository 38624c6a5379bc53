"""What reflected vectors do to models of movies: EFA and CBOW with free and with tied vectors.

EFA's settings are those chosen in "efa-movielens-items" for free vectors. CBOW is trained on each
user's movies as a sentence; its learning rate and epochs are chosen by NDCG@10 on validation.
"count-vectors" is how many numbers the vectors of movies have.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.groups import Groups
from exfam.scores.metrics import ranks
from exfam.words import CBOW
from exfam_studies.common.fits import (
    Contender,
    Job,
    fitted_rows,
    fitter,
    gather,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import Splits, items_of
from exfam_studies.efa.items import ranking
from exfam_studies.efa.movielens_items import EFA_SETTINGS, SPLIT_SEED
from exfam_studies.efa.movielens_splits import movielens_items

TASKS = ("tied-efa-bidirectional", "tied-efa-causal", "tied-cbow")
SEEDS = 5
DIM = 32
EFA_TIES = ("none", "reflection")
CBOW_TIES = (None, "reflection", "random", "linear")
# What CBOW is chosen from.
RATES, EPOCHS = (0.025, 0.075, 0.2), (20, 80)
CBOW_SETTINGS: dict[str, Any] = {
    "dim": DIM, "subsample": 0.0, "min_count": 1, "deterministic": True, "seed": 0,
    "progress": False,
}  # fmt: skip


def run(options: Options) -> list[Row]:
    """Fit and score each model with each tie."""
    read = cache(lambda: smaller(movielens_items("paper", seed=SPLIT_SEED), options))
    efa, cbow = (partial(rows, read=read, options=options) for rows in (_efa_rows, _cbow_rows))
    jobs = []
    for task in filter(options.wants, TASKS):
        rows, ties = (cbow, CBOW_TIES) if task == TASKS[2] else (efa, EFA_TIES)
        jobs += [Job(f"{task} {tie}", partial(rows, task, tie)) for tie in ties]
    return gather(jobs)


def _efa_rows(task: str, tie: str, *, read: Callable[[], Splits], options: Options) -> list[Row]:
    direction = task.removeprefix("tied-efa-")
    chosen = EFA_SETTINGS[direction, "exclusion"]
    parameters = {"direction": direction, "parts": "items", "support": "hard", "tie": tie, **chosen}
    parameters |= {"base": "none"}
    fit = fitter(EFA, training_of(parameters, options))
    contender = Contender(model="efa", settings={"tie": tie}, fit=fit, n_configurations=1)
    n_seeds = options.n_seeds(SEEDS)
    return fitted_rows(contender, read(), task=task, measure=_efa_figures, seeds=n_seeds)


def _efa_figures(estimator: EFA, groups: Groups) -> dict[str, float]:
    rank = ranks(estimator.predict_proba(groups), items_of(groups))
    n_numbers = sum(
        parameter.numel()
        for name, parameter in estimator.members_[0].named_parameters()
        if name.endswith("table.weight") and "encoding" not in name
    )
    return {"nats": -estimator.score(groups), **_ranking(rank), "count-vectors": float(n_numbers)}


def _ranking(rank: np.ndarray) -> dict[str, float]:
    return {metric: ranking(rank)[metric] for metric in ("recall@10", "ndcg@10", "mrr")}


def _cbow_rows(
    task: str, tie: str | None, *, read: Callable[[], Splits], options: Options
) -> list[Row]:
    splits = read()
    grid = [
        {**CBOW_SETTINGS, "tie": tie, "learning_rate": rate, "epochs": epochs}
        for rate in (RATES[:1] if options.fast else RATES)
        for epochs in ((1,) if options.fast else EPOCHS)
    ]
    tried = [_cbow_figures(fit_cbow(splits, **settings), splits.validation) for settings in grid]
    best = grid[int(np.argmax([figures["ndcg@10"] for figures in tried]))]
    shown = {"tie": tie or "none", **{name: best[name] for name in ("learning_rate", "epochs")}}
    fit = partial(fit_cbow, **best)
    contender = Contender(model="cbow", settings=shown, fit=fit, n_configurations=len(grid))
    n_seeds = options.n_seeds(SEEDS)
    return fitted_rows(contender, splits, task=task, measure=_cbow_figures, seeds=n_seeds)


def fit_cbow(splits: Splits, **settings: Any) -> CBOW:
    """CBOW fitted to each user's movies as a sentence, all in one window."""
    users = _by_user(splits.train)
    sentences = [[f"m{item}" for item in items] for items in users if len(items) > 1]
    model = CBOW(**settings, window=max(map(len, sentences)))
    model.fit(sentences)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return model


def _by_user(groups: Groups) -> list[np.ndarray]:
    return np.split(items_of(groups), np.cumsum(groups.lengths)[:-1])


def _cbow_figures(model: CBOW, groups: Groups) -> dict[str, float]:
    rank = np.concatenate([_cbow_ranks(model, part) for part in _by_user(groups)])
    stored = model.matrices_.stored()
    n_numbers = sum(array.size for name, array in stored.items() if name != "signs")
    return {**_ranking(rank), "count-vectors": float(n_numbers)}


def _cbow_ranks(model: CBOW, items: np.ndarray) -> np.ndarray:
    """Movies by their probability: that of a yes, times that with which noise is drawn."""
    code = {int(word[1:]): index for index, word in enumerate(model.vocabulary_.words)}
    known = np.array([code[item] for item in items if item in code], dtype=np.int64)
    rank = np.full(len(items), np.inf)
    if len(known) < 2:
        return rank
    prior = model.noise_exponent * np.log(np.maximum(model.vocabulary_.counts, 1))
    vectors = model.input_vectors_[known]
    mean = (vectors.sum(0) - vectors) / (len(known) - 1)
    scores = mean @ model.output_vectors_.T + prior
    rows, columns = np.nonzero(~np.eye(len(known), dtype=bool))
    scores[rows, known[columns]] = -np.inf
    rank[[item in code for item in items]] = ranks(scores, known)
    return rank
