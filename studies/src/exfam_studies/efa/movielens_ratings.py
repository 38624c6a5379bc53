"""How movies are rated: Exponential Family Attention, Table 2.

The paper fits Poisson distributions, v1 to ratings from 1 and v2 with the rate 1 + exp, and prints
a loss without log (y - 1)! or log y! ("paper-loss"). Beside it stand exact negative
log-likelihoods ("nats"), also of families that fit ratings 1, 2, 3, which need no version.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.efa.baselines import Marginal
from exfam.efa.group_estimator import GroupEstimator
from exfam.families import Binomial, Categorical, Family, Ordinal, Poisson
from exfam.groups import Groups
from exfam.scores.metrics import paired_bootstrap
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    Measure,
    ensemble_of,
    fit_seeds,
    fitted_rows,
    gather,
    rows_of,
    smaller,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.common.splits import SPLITS, Splits, values_of
from exfam_studies.efa.contenders import (
    DIRECTIONS,
    VALUE_FORMS,
    attention,
    closed_form,
    latent_factors,
)
from exfam_studies.efa.movielens_splits import movielens_ratings
from exfam_studies.efa.shrunk_offset import ShrunkOffset

TASK = "movielens-ratings-"
VERSIONS = {"v1": Poisson(shift=1), "v2": Poisson(link="one-plus-exp")}
TASKS = tuple(f"{TASK}{version}-{direction}" for version in VERSIONS for direction in DIRECTIONS)
PLOTTED = dict.fromkeys(("paper-loss", "nats"))
SEEDS = 5
# The chosen EFA has the shrunk offset inside, the best of the cheap baselines, and no positions.
WITH_OFFSET = "efa-offset"
DIFFERENCE = "nats-difference-to-shrunk-offset"
# Of the correct split: never used while choosing anything.
SPLIT_SEED = 1001

# Families of ratings 1, 2, 3. A binomial counts from 0: it is fitted to ratings less 1.
FAMILIES: tuple[Family, ...] = (Binomial(2), Categorical(3, start=1), Ordinal(3, start=1))
STARTS = {"binomial": 1.0}

# Chosen on validation of the paper's split: of Poisson, then of FAMILIES; EFA by the categorical,
# "latent-factor" by the ordinal one.
EFA_COMMON: dict[str, Any] = {
    "encoding": "none", "head_hidden_dim": 0, "group_offset": True, "dropout": 0.3,
    "weight_decay": 1.0, "learning_rate": 3e-3, "batch_size": 16, "max_epochs": 40, "patience": 8,
}  # fmt: skip
EFA_SETTINGS: dict[str, dict[str, Any]] = {
    "poisson": dict.fromkeys(DIRECTIONS, {**EFA_COMMON, "weight_decay": 0.1}),
    "families": {"bidirectional": {**EFA_COMMON, "dropout": 0.5}, "causal": EFA_COMMON},
}
LATENT_FACTOR_COMMON = {"dim": 16, "weight_decay": 1.0, "learning_rate": 1e-2, "batch_size": 32}
_MORE_DECAY: dict[str, Any] = {**LATENT_FACTOR_COMMON, "weight_decay": 3.0}
_MORE_FACTORS: dict[str, Any] = {**LATENT_FACTOR_COMMON, "dim": 64}
LATENT_FACTOR_SETTINGS: dict[str, dict[str, Any]] = {
    "poisson": {"bidirectional": LATENT_FACTOR_COMMON, "causal": _MORE_DECAY},
    "families": {"bidirectional": _MORE_FACTORS, "causal": LATENT_FACTOR_COMMON},
}
N_EFA, N_LATENT_FACTOR = {"poisson": 14, "families": 7}, 12
# Of the paper's forms: as many factors as its EFA has dimensions, nothing chosen.
PAPER_SETTINGS: dict[str, Any] = {"dim": 32, "learning_rate": 1e-2, "batch_size": 32}

# Table 2: the loss, then mean predictions where the truth is 1, 2, 3; of EFA and of latent factors.
PAPER_METRICS = ("paper-loss", "mean-given-1", "mean-given-2", "mean-given-3")
PAPER = {
    "v1-bidirectional": ((0.945, 1.93, 2.06, 2.30), (0.971, 2.06, 2.10, 2.21)),
    "v1-causal": ((0.953, 1.98, 2.09, 2.29), (0.972, 2.06, 2.09, 2.20)),
    "v2-bidirectional": ((0.494, 1.94, 2.08, 2.31), (0.507, 2.06, 2.10, 2.21)),
    "v2-causal": ((0.499, 1.98, 2.09, 2.29), (0.508, 2.06, 2.10, 2.20)),
}
# CPU seconds of the authors' code, measured on a machine like ours.
REFERENCE_SECONDS = {"v1-bidirectional": 62.0}


def run(options: Options) -> list[Row]:
    """Fit and score all models of the wanted tasks."""
    jobs: list[Job] = []
    for split in SPLITS:
        splits = smaller(movielens_ratings(split, seed=SPLIT_SEED), options)
        rows_of_seeds = partial(fitted_rows, seeds=options.n_seeds(SEEDS), measure=_measure(split))
        for direction in DIRECTIONS:
            tasks = []
            for version, family in VERSIONS.items():
                task = f"{TASK}{version}-{direction}"
                if not options.wants(task):
                    continue
                tasks.append(task)
                printed = f"{version}-{direction}" if split == "paper" else None
                for own in _contenders(options, direction, split, family, printed):
                    fit = partial(rows_of_seeds, own, splits, task=task)
                    jobs.append(Job(f"{task} {own.model} {split}", fit))
            if tasks:
                of_families = partial(_family_rows, options, splits, tasks, direction, split)
                jobs.append(Job(f"{TASK}{direction} families {split}", of_families))
    return gather(jobs)


def _contenders(
    options: Options, direction: str, split: str, family: Family, printed: str | None = None
) -> list[Contender]:
    """Models of one family, `printed` where Table 2 prints them.

    Of the families of ratings, the marginal is that of the categorical and the shrunk offset that
    of the binomial one.
    """
    chosen = "poisson" if family.name == "poisson" else "families"
    where = {"family": family.name, "split": split}
    common = {"direction": direction, "family": family, "parts": "values"}
    offset = {"direction": direction, "family": family, "k": None}
    paper_efa, paper_fm = (
        ({}, None)
        if printed is None
        else (dict(zip(PAPER_METRICS, figures, strict=True)) for figures in PAPER[printed])
    )
    closed = [
        closed_form("marginal", Marginal, common, where=where),
        closed_form("shrunk-offset", ShrunkOffset, offset, where=where),
    ]
    wanted = {"poisson": closed, "categorical": closed[:1], "binomial": closed[1:]}
    return [
        *wanted.get(family.name, []),
        *latent_factors(
            VALUE_FORMS,
            options,
            where=where,
            own={**common, **LATENT_FACTOR_SETTINGS[chosen][direction]},
            n_own=N_LATENT_FACTOR,
            plain={**common, **PAPER_SETTINGS},
            paper=paper_fm,
        ),
        attention(
            WITH_OFFSET,
            {**common, **EFA_SETTINGS[chosen][direction]},
            options,
            where=where,
            n_configurations=N_EFA[chosen],
            paper=paper_efa,
            reference_seconds=REFERENCE_SECONDS.get(printed or ""),
        ),
        attention("efa-defaults", common, options, where=where),
    ]


def _family_rows(
    options: Options, splits: Splits, tasks: Sequence[str], direction: str, split: str
) -> list[Row]:
    """Families that fit ratings: the same for both versions, so fitted once."""
    rows: list[Row] = []
    fits: dict[str, dict[str, list[Fit]]] = {}
    for family in FAMILIES:
        data = Splits(*(_counted(part, family.name) for part in vars(splits).values()))
        measure = _measure(split, family.name)
        for own in _contenders(options, direction, split, family):
            of_seeds = fit_seeds(own, data, seeds=options.n_seeds(SEEDS))
            fits.setdefault(own.model, {})[family.name] = of_seeds
            rows += rows_of(own, of_seeds, data, task=tasks[0], measure=measure)
    # EFA's nats minus shrunk-offset's, each with the family that is best on validation.
    (best, chosen), (rival, rivals) = (
        min(fits[model].items(), key=lambda own: _nats(own[1], splits.validation, own[0]).mean())
        for model in (WITH_OFFSET, "shrunk-offset")
    )
    models, together = {WITH_OFFSET: chosen}, ensemble_of(chosen)
    if together is not None:
        models[f"{WITH_OFFSET}-ensemble"] = [together]
    user = np.repeat(np.arange(len(splits.test)), splits.test.lengths)
    for model, members in models.items():
        test, validation = (
            _nats(members, groups, best) - _nats(rivals, groups, rival)
            for groups in (splits.test, splits.validation)
        )
        # The interval says what other users would change, not other seeds.
        interval = paired_bootstrap(test, user, seed=0)
        where = {"family": best, "split": split, "against": rival}
        row = Row(
            task=tasks[0],
            model=model,
            settings={**where, **interval_settings(interval)},
            metric=DIFFERENCE,
            value=interval.mean,
            validation=float(validation.mean()),
            n_seeds=len(members),
            parameters=changed_parameters(members[0].estimator),
            note="low, high: 95% interval over users",
        )
        rows.append(row)
    return [replace(row, task=task) for task in tasks for row in rows]


def _counted(groups: Groups, family: str) -> Groups:
    """The ratings as the family counts them."""
    return groups.with_(values={"value": groups.values["value"] - STARTS.get(family, 0.0)})


def _measure(split: str, family: str = "poisson") -> Measure:
    """Losses; on the paper's split mean predictions too, which only its table has."""
    return partial(_figures, start=STARTS.get(family, 0.0), means=split == "paper")


def _figures(
    estimator: GroupEstimator, groups: Groups, *, start: float, means: bool
) -> dict[str, float]:
    """Exact nats, mean predictions by true rating and, of Poisson, the paper's loss."""
    nats, value, figures = -estimator.log_prob(groups), values_of(groups), {}
    family = estimator.schema_.families["value"]
    if isinstance(family, Poisson):
        # -log p without the base measure; for an ensemble too, whose h is the members'.
        base = family.log_base_measure(torch.as_tensor(value)).numpy()
        figures["paper-loss"] = float((nats + base).mean())
    figures["nats"] = float(nats.mean())
    if means:
        rating, mean = value + start, estimator.predict(groups) + start
        for true in np.unique(rating).tolist():
            figures[f"mean-given-{true:g}"] = float(mean[rating == true].mean())
    return figures


def _nats(fits: Sequence[Fit], groups: Groups, family: str) -> Float[np.ndarray, "own"]:
    """Negative log-probability of each rating, mean over the fits."""
    counted = _counted(groups, family)
    return -np.mean([fit.estimator.log_prob(counted) for fit in fits], axis=0)
