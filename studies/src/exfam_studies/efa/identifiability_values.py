"""The half of Theorem 1 that speaks of values: its counterexample, and fits of ratings.

"counterexample" is one distribution with two embeddings. "efa" are fits of simulated ratings that
differ in their seed alone: of each pair, how far their means are alike ("alike-means"), and how far
their embeddings are up to one affine map ("alike-context"), found on one half of the test users and
measured on the other, both ways.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from exfam.efa.efa import EFA
from exfam.families import Gaussian
from exfam.simulators import simulate_ratings
from exfam_studies.common.fits import Contender, fitter, training_of
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.splits import Splits
from exfam_studies.efa.identifiability import (
    ValueEmbeddings,
    affine_map,
    check_values,
    explained,
    value_counterexample,
    value_embeddings,
)
from exfam_studies.efa.identifiability_rows import NULL_SEED, fitted_with_nats

SEEDS = 5
SIZES, FAST_SIZES = (4_000, 500, 1_000), (40, 20, 20)
DATA_SEED = 1_004
DIMS = (4, 16)
N_RATINGS = 5
PARAMETERS: dict[str, Any] = {
    "direction": "causal", "parts": "values", "family": Gaussian(scale=1.0), "head_hidden_dim": 0,
    "connection": "residual", "dropout": 0.0, "weight_decay": 0.01, "learning_rate": 5e-3,
    "max_epochs": 30,
}  # fmt: skip


def value_rows(task: str, options: Options) -> list[Row]:
    """The counterexample, and pairs of fits."""
    rows = _counterexample_rows(task)
    for dims in DIMS:
        rows += _fitted_rows(task, dims, options)
    return rows


def _counterexample_rows(task: str) -> list[Row]:
    """One distribution, assumptions that hold, and no linear map; in one dimension there is one."""
    y = np.random.default_rng(NULL_SEED).normal(size=1_000)
    first, second = value_counterexample(y)
    one = replace(first, context=y[:, None], vector=np.ones(1))
    other = replace(first, context=-2 * y[:, None], vector=np.full(1, -0.5))
    rows = []
    for dims, pair in ((1, (one, other)), (2, (first, second))):
        check = check_values(*pair)
        figures = {
            "count-assumptions-failed": float(len(check.failed_assumptions)),
            "count-conclusions-failed": float(len(check.failed_conclusions)),
            "divergence-means": check.measured["means apart"],
            "alike-context-forward": check.measured["R2 of K, forward"],
            "alike-context-backward": check.measured["R2 of K, backward"],
        }
        place = Row(task=task, model="counterexample", settings={"dims": dims}, metric="")
        rows += [replace(place, metric=metric, value=value) for metric, value in figures.items()]
    return rows


def _fitted_rows(task: str, dims: int, options: Options) -> list[Row]:
    splits = _splits(options)
    contender = Contender(
        model="efa",
        settings={"dims": dims},
        fit=fitter(EFA, training_of({**PARAMETERS, "embed_dim": dims}, options)),
        n_configurations=1,
    )
    n_seeds = max(2, options.n_seeds(SEEDS))
    fits, rows = fitted_with_nats(contender, splits, task=task, n_seeds=n_seeds)
    first = [value_embeddings(fit.estimator.members_[0], splits.test) for fit in fits]
    others = {"seeds": first, "shuffled-contexts": [_shuffled(fit) for fit in first]}
    for against, second in others.items():
        pairs = [(first[i], second[j]) for i, j in combinations(range(len(fits)), 2)]
        settings: dict[str, str | int] = {"dims": dims, "against": against, "pairs": len(pairs)}
        row = Row(task=task, model="efa", settings=settings, metric="")
        rows += [replace(each, n_seeds=len(fits)) for each in _pair_rows(row, pairs)]
    return rows


def _splits(options: Options) -> Splits:
    sizes = FAST_SIZES if options.fast else SIZES
    groups = simulate_ratings(sum(sizes), seed=DATA_SEED)
    first, second = np.cumsum(sizes)[:2]
    return Splits(groups[:first], groups[first:second], groups[second:])


def _shuffled(fit: ValueEmbeddings) -> ValueEmbeddings:
    """Each context another's."""
    order = np.random.default_rng(NULL_SEED).permutation(len(fit.mean))
    return replace(fit, context=fit.context[order], mean=fit.mean[order])


def _pair_rows(row: Row, pairs: Sequence[tuple[ValueEmbeddings, ValueEmbeddings]]) -> list[Row]:
    means = [_share(first.mean[:, None], second.mean[:, None]) for first, second in pairs]
    contexts = [_share(first.context, second.context) for first, second in pairs]
    return [
        row_over_seeds(replace(row, metric="alike-means"), values=means),
        row_over_seeds(replace(row, metric="alike-context"), values=contexts),
    ]


def _share(first: np.ndarray, second: np.ndarray) -> float:
    """R^2 of affine maps from the first half of the users to the second, the mean of both ways."""
    half = N_RATINGS * (len(first) // N_RATINGS // 2)
    forward, backward = (
        explained(wanted[half:], affine_map(given[:half], wanted[:half])(given[half:]))
        for given, wanted in ((first, second), (second, first))
    )
    return (forward + backward) / 2
