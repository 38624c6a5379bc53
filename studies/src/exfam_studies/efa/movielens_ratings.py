"""How movies are rated: Exponential Family Attention, Table 2.

The paper fits Poisson laws, v1 to ratings from 1 and v2 with the rate 1 + exp, and prints a loss
without log (y - 1)! or log y! ("paper-loss"). Beside it stand exact negative log-likelihoods
("nats"), also of families that fit ratings 1, 2, 3; those do not depend on the version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.efa.baselines import Marginal, ShrunkOffset
from exfam.efa.efa import EFA
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.latent_factor import LatentFactor
from exfam.families import Binomial, Categorical, Family, Ordinal, Poisson
from exfam.groups import Groups
from exfam.scores.metrics import mean_given_true, paired_bootstrap
from exfam_studies.common.bars import draw_bars
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    Measure,
    ensemble_of,
    fit_seeds,
    fitter,
    gather,
    ratio_row,
    rows_of,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import Splits
from exfam_studies.efa.movielens_splits import movielens_ratings

__all__ = ["TASKS", "plot", "run"]

TASK = "movielens-ratings-"
DIRECTIONS = ("bidirectional", "causal")
VERSIONS = {"v1": Poisson(shift=1), "v2": Poisson(link="one-plus-exp")}
TASKS = tuple(f"{TASK}{version}-{direction}" for version in VERSIONS for direction in DIRECTIONS)
SEEDS = 5
# The chosen EFA has the shrunk offset inside, the best of the cheap baselines, and no positions.
WITH_OFFSET = "efa-offset"
DIFFERENCE = "nats-difference-to-shrunk-offset"
# Of the correct split: never used while choosing anything.
SPLIT_SEED = 1001

# Families of ratings 1, 2, 3. A binomial counts from 0: it is fitted to ratings less 1.
FAMILIES: dict[str, Family] = {
    "binomial": Binomial(2),
    "categorical": Categorical(3, start=1),
    "ordinal": Ordinal(3, start=1),
}
SHRUNK_FAMILIES: dict[str, Family] = {"binomial": Binomial(2), "poisson": Poisson(shift=1)}

# Chosen on validation of the paper's split among N_CONFIGURATIONS["efa"] configurations.
EFA_COMMON: dict[str, Any] = {
    "encoding": "none", "head_hidden_dim": 0, "group_offset": True, "dropout": 0.3,
    "learning_rate": 3e-3, "batch_size": 16, "max_epochs": 40, "patience": 8,
}  # fmt: skip
EFA_SETTINGS: dict[str, dict[str, Any]] = {
    "bidirectional": {"weight_decay": 0.1, **EFA_COMMON},
    "causal": {"weight_decay": 0.1, **EFA_COMMON},
}
# For FAMILIES, chosen in the same way among N_CONFIGURATIONS["efa-families"], by the categorical.
EFA_FAMILY_SETTINGS: dict[str, dict[str, Any]] = {
    "bidirectional": {**EFA_COMMON, "weight_decay": 1.0, "dropout": 0.5},
    "causal": {**EFA_COMMON, "weight_decay": 1.0},
}
# Of "latent-factor", chosen in the same way among N_CONFIGURATIONS["latent-factor"]; for FAMILIES
# by the ordinal one.
LATENT_FACTOR_SETTINGS: dict[str, dict[str, Any]] = {
    "bidirectional": {"dim": 16, "weight_decay": 1.0, "learning_rate": 1e-2, "batch_size": 32},
    "causal": {"dim": 16, "weight_decay": 3.0, "learning_rate": 1e-2, "batch_size": 32},
}
LATENT_FACTOR_FAMILY_SETTINGS: dict[str, dict[str, Any]] = {
    "bidirectional": {"dim": 64, "weight_decay": 1.0, "learning_rate": 1e-2, "batch_size": 32},
    "causal": {"dim": 16, "weight_decay": 1.0, "learning_rate": 1e-2, "batch_size": 32},
}
# Of the paper's forms: as many factors as its EFA has dimensions, nothing chosen.
PAPER_SETTINGS: dict[str, Any] = {"dim": 32, "learning_rate": 1e-2, "batch_size": 32}
N_CONFIGURATIONS = {"efa": 14, "efa-families": 7, "latent-factor": 12}
# The notebooks' means over the context; the paper's formulas, which divide by the group's final
# length minus 1; ours.
LATENT_FACTORS: dict[str, dict[str, Any]] = {
    "latent-factor-notebook": {"pooling": "mean", "intercept": False},
    "latent-factor-printed": {"pooling": "paper", "intercept": False},
    "latent-factor": {"pooling": "mean", "intercept": True},
}

# Table 2: the loss, then mean predictions where the truth is 1, 2, 3. CPU seconds of the authors'
# code were measured on a machine like ours.
PAPER_METRICS = ("paper-loss", "mean-given-1", "mean-given-2", "mean-given-3")
PAPER_EFA = {
    "v1-bidirectional": (0.945, 1.93, 2.06, 2.30),
    "v1-causal": (0.953, 1.98, 2.09, 2.29),
    "v2-bidirectional": (0.494, 1.94, 2.08, 2.31),
    "v2-causal": (0.499, 1.98, 2.09, 2.29),
}
PAPER_FM = {
    "v1-bidirectional": (0.971, 2.06, 2.10, 2.21),
    "v1-causal": (0.972, 2.06, 2.09, 2.20),
    "v2-bidirectional": (0.507, 2.06, 2.10, 2.21),
    "v2-causal": (0.508, 2.06, 2.10, 2.20),
}
REFERENCE_SECONDS = {"v1-bidirectional": 62.0}


def run(options: Options) -> list[Row]:
    """Fit and score all models of the wanted tasks."""
    jobs: list[Job] = []
    for split in ("paper", "correct"):
        splits = smaller(movielens_ratings(split, seed=SPLIT_SEED), options)
        for direction in DIRECTIONS:
            wanted = [v for v in VERSIONS if options.wants(f"{TASK}{v}-{direction}")]
            for version in wanted:
                name = f"{version}-{direction}"
                for contender in _poisson_contenders(options, name=name, split=split):
                    work = partial(_poisson_rows, contender, splits, options, name=name)
                    jobs.append(Job(f"{TASK}{name} {contender.model} {split}", work))
            tasks = [f"{TASK}{version}-{direction}" for version in wanted]
            work = partial(_family_rows, splits, options, tasks=tasks, split=split)
            if tasks:
                jobs.append(Job(f"{TASK}{direction} families {split}", work))
    return gather(jobs)


def plot(rows: list[Row], folder: Path) -> None:
    """Bars of all models beside the paper's figures, one picture a task and metric."""
    for metric in ("paper-loss", "nats"):
        draw_bars(rows, folder, experiment="efa", metric=metric)


def _poisson_contenders(options: Options, *, name: str, split: str) -> list[Contender]:
    version, direction = name.split("-")
    family, place = VERSIONS[version], {"family": "poisson", "split": split}
    common = {"direction": direction, "family": family, "parts": "values"}
    paper_efa, paper_fm = (
        dict(zip(PAPER_METRICS, table[name], strict=True)) if split == "paper" else {}
        for table in (PAPER_EFA, PAPER_FM)
    )
    efa = Contender(
        model=WITH_OFFSET,
        settings=place,
        fit=fitter(EFA, training_of({**common, **EFA_SETTINGS[direction]}, options)),
        ensemble=True,
        n_configurations=N_CONFIGURATIONS["efa"],
        paper=paper_efa,
    )
    return [
        Contender(model="marginal", settings=place, fit=fitter(Marginal, common), chance=False),
        _shrunk_offset(family, direction=direction, place=place),
        *_latent_factors(common, options, place=place, paper=paper_fm),
        efa,
        _defaults(common, options, place=place),
    ]


def _defaults(
    common: Mapping[str, Any], options: Options, *, place: Mapping[str, str]
) -> Contender:
    fit = fitter(EFA, training_of(common, options))
    return Contender(model="efa-defaults", settings=place, fit=fit, n_configurations=1)


def _latent_factors(
    common: Mapping[str, Any],
    options: Options,
    *,
    place: Mapping[str, str],
    paper: Mapping[str, float],
) -> list[Contender]:
    """The paper's forms, on its split only, and ours."""
    contenders = []
    for model, form in LATENT_FACTORS.items():
        own = model == "latent-factor"
        if place["split"] == "correct" and not own:
            continue
        chosen = LATENT_FACTOR_SETTINGS[common["direction"]] if own else PAPER_SETTINGS
        contenders.append(
            Contender(
                model=model,
                settings=place,
                fit=fitter(LatentFactor, training_of({**common, **chosen, **form}, options)),
                n_configurations=N_CONFIGURATIONS["latent-factor"] if own else 1,
                paper=paper if model == "latent-factor-notebook" else {},
            )
        )
    return contenders


def _shrunk_offset(family: Family, *, direction: str, place: Mapping[str, str]) -> Contender:
    parameters = {"direction": direction, "family": family, "k": None}
    fit = fitter(ShrunkOffset, parameters)
    return Contender(model="shrunk-offset", settings=place, fit=fit, chance=False)


def _poisson_rows(
    contender: Contender, splits: Splits, options: Options, *, name: str
) -> list[Row]:
    fits = fit_seeds(contender, splits, seeds=options.n_seeds(SEEDS))
    measure = _measure(contender)
    rows = rows_of(contender, fits, splits, task=TASK + name, measure=measure)
    seconds = REFERENCE_SECONDS.get(name)
    if contender.model == WITH_OFFSET and contender.paper and seconds:
        rows.append(ratio_row(contender, fits, task=TASK + name, seconds=seconds))
    return rows


def _family_rows(
    splits: Splits, options: Options, *, tasks: Sequence[str], split: str
) -> list[Row]:
    """Rows of families that fit ratings: the same for both versions, so fitted once."""
    direction = tasks[0].rpartition("-")[2]
    seeds = options.n_seeds(SEEDS)
    rows: list[Row] = []
    efa: dict[str, list[Fit]] = {}
    shrunk: dict[str, list[Fit]] = {}
    for contender in _family_contenders(options, direction=direction, split=split):
        family = str(contender.settings["family"])
        data, start = _for_family(splits, family)
        fits = fit_seeds(contender, data, seeds=seeds)
        if contender.model == WITH_OFFSET:
            efa[family] = fits
        if contender.model == "shrunk-offset":
            shrunk[family] = fits
        measure = _measure(contender, start=start)
        rows += rows_of(contender, fits, data, task=tasks[0], measure=measure)
    rows += _difference_rows(efa, shrunk, splits, task=tasks[0], split=split)
    return [replace(row, task=task) for task in tasks for row in rows]


def _family_contenders(options: Options, *, direction: str, split: str) -> list[Contender]:
    contenders = []
    for name, family in FAMILIES.items():
        common = {"direction": direction, "family": family, "parts": "values"}
        latent = {**common, **LATENT_FACTOR_FAMILY_SETTINGS[direction]}
        efa = {**common, **EFA_FAMILY_SETTINGS[direction]}
        place = {"family": name, "split": split}
        if name == "categorical":
            fit = fitter(Marginal, common)
            contenders.append(Contender(model="marginal", settings=place, fit=fit, chance=False))
        if name in SHRUNK_FAMILIES:
            contenders.append(_shrunk_offset(family, direction=direction, place=place))
        contenders += [
            Contender(
                model="latent-factor",
                settings=place,
                fit=fitter(LatentFactor, training_of(latent, options)),
                n_configurations=N_CONFIGURATIONS["latent-factor"],
            ),
            Contender(
                model=WITH_OFFSET,
                settings=place,
                fit=fitter(EFA, training_of(efa, options)),
                ensemble=True,
                n_configurations=N_CONFIGURATIONS["efa-families"],
            ),
            _defaults(common, options, place=place),
        ]
    return contenders


def _for_family(splits: Splits, family: str) -> tuple[Splits, float]:
    """The ratings as the family counts them, and what to add to get ratings again."""
    if family != "binomial":
        return splits, 0.0
    parts = (splits.train, splits.validation, splits.test)
    return Splits(*(part.with_(values={"value": part.values["value"] - 1}) for part in parts)), 1.0


def _values(groups: Groups) -> Float[np.ndarray, "own"]:
    return groups.values["value"][groups.elements()]


def _measure(contender: Contender, *, start: float = 0.0) -> Measure:
    """Losses; on the paper's split mean predictions too, which only its table has."""
    return partial(_figures, start=start, means=contender.settings["split"] == "paper")


def _figures(
    estimator: GroupEstimator, groups: Groups, *, start: float, means: bool
) -> dict[str, float]:
    """Exact nats, mean predictions by true rating and, of a Poisson law, the paper's loss."""
    nats = -estimator.log_prob(groups)
    figures = {}
    family = estimator.schema_.families["value"]
    if isinstance(family, Poisson):
        # -log p without the base measure; for an ensemble too, whose h is the members'.
        base = family.log_base_measure(torch.as_tensor(_values(groups))).numpy()
        figures["paper-loss"] = float((nats + base).mean())
    figures["nats"] = float(nats.mean())
    if means:
        given = mean_given_true(_values(groups) + start, estimator.predict(groups) + start)
        figures |= {f"mean-given-{rating:g}": mean for rating, mean in given.items()}
    return figures


def _difference_rows(
    efa: Mapping[str, Sequence[Fit]],
    shrunk: Mapping[str, Sequence[Fit]],
    splits: Splits,
    *,
    task: str,
    split: str,
) -> list[Row]:
    """EFA's nats minus shrunk-offset's, each with the family that is best on validation.

    The intervals say what other users would change, not other seeds.
    """
    best, rival = _best_family(efa, splits.validation), _best_family(shrunk, splits.validation)
    together = ensemble_of(efa[best])
    models = {
        WITH_OFFSET: efa[best],
        f"{WITH_OFFSET}-ensemble": [] if together is None else [together],
    }
    place = {"family": best, "split": split, "against": rival}
    rows = []
    for model, fits in models.items():
        if fits:
            row = Row(
                task=task,
                model=model,
                settings=place,
                metric=DIFFERENCE,
                n_seeds=len(fits),
                parameters=changed_parameters(fits[0].estimator),
            )
            rows.append(_with_interval(row, fits, shrunk[rival], splits))
    return rows


def _with_interval(row: Row, fits: Sequence[Fit], rivals: Sequence[Fit], splits: Splits) -> Row:
    """The row with the mean difference in nats of two models and its interval over users."""
    family, rival = str(row.settings["family"]), str(row.settings["against"])
    test, validation = (
        _nats(fits, groups, family) - _nats(rivals, groups, rival)
        for groups in (splits.test, splits.validation)
    )
    user = np.repeat(np.arange(len(splits.test)), splits.test.lengths)
    mean, low, high = paired_bootstrap(test, user, seed=0)
    return replace(
        row,
        settings={**row.settings, "low": round(low, 4), "high": round(high, 4)},
        value=mean,
        validation=float(validation.mean()),
        note="low, high: 95% interval over users",
    )


def _best_family(fits: Mapping[str, Sequence[Fit]], validation: Groups) -> str:
    """The family of least nats on validation."""
    return min(fits, key=lambda family: float(_nats(fits[family], validation, family).mean()))


def _nats(fits: Sequence[Fit], groups: Groups, family: str) -> Float[np.ndarray, "own"]:
    """Negative log-probability of each rating, mean over the fits."""
    data, _ = _for_family(Splits(groups, groups, groups), family)
    return -np.mean([fit.estimator.log_prob(data.test) for fit in fits], axis=0)
