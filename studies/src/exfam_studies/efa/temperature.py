"""Temperatures of 44 cities in October: Exponential Family Attention, section 6.4 and Figure 6.

Squared errors (degrees Fahrenheit, squared), nats, CRPS and the share of values in the central 90%
interval, of each value given all others of its day, and of one or two days before. "efa-site" has a
vector for each city, "efa-coordinates" can predict anywhere; "efa-ensemble" is the better of them
on validation, three fits together; "efa-l1" and so on are the paper's own choices. All of these are
networks alone; "efa-defaults" has the base inside that "field-gaussian" is. The day before 1
October is not in our file: such days are left out, and rows with "days" say how models without lags
do on those that have a history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.fields import (
    FieldClimatology,
    FieldEFA,
    FieldGaussian,
    FieldGaussianProcess,
    FieldKriging,
    FieldLatentFactor,
    FieldRidge,
    FieldRidgeCovariance,
)
from exfam.fields.field_estimator import FieldEstimator
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldProcess
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    figure_rows,
    fit_once,
    fit_seeds,
    fitter,
    gather,
    joined,
    rows_of,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, measured_rows
from exfam_studies.common.splits import Splits, values_of
from exfam_studies.efa.temperature_data import (
    draw_sites,
    field_splits,
    new_sites,
    read_temperatures,
    simulated_temperatures,
    true_conditional,
)

TASK = "temperature-"
# Task -> days before that are seen.
LAGS = {f"{TASK}same-day": 0, f"{TASK}one-lag": 1, f"{TASK}two-lags": 2}
NEW_SITES, SIMULATED = f"{TASK}new-sites", f"{TASK}simulated"
TASKS = (*LAGS, NEW_SITES, SIMULATED)
PLOTTED = {"mse": "k", "nats": None, "rmse": None}
SEEDS, SIMULATED_SEEDS = 5, 3
N_MEMBERS = 3
FAST_NEIGHBORS = (1, 5)
LEVEL, COVERAGE = 0.9, "coverage-90"

# Draws of 4 of the 44 cities.
NEW_SITES_SEED, NEW_SITES_SIZE = 1001, 4
NEW_SITES_MODELS = (
    "efa-coordinates", "field-gaussian", "gaussian-process", "kriging", "climatology"
)  # fmt: skip
DRAWS = {"fresh-1": 1001, "fresh-2": 1002, "fresh-3": 1003}
SIMULATED_LAGS = (0, 1)
SIMULATED_NEIGHBORS = (5,)

# Chosen on validation, for both modes and all lags alike.
EFA_SETTINGS: dict[str, Any] = {
    "base": "none", "read_out_heads": 16, "null_token": False, "hide": 0.1
}  # fmt: skip
# The paper's sizes and training, but for batches: a full one of its notebook needs more than 20 GB.
# Our layers have their norm before them, and keys made from each token alone.
PAPER_EFA_SETTINGS: dict[str, Any] = {
    "base": "none", "encoding": "none", "read_out_heads": 0, "null_token": False,
    "standardize": "global", "scale": "global", "embed_dim": 64, "n_heads": 2, "head_dim": 16,
    "feed_forward_dim": 64, "head_hidden_dim": 128, "hide": 0.0, "dropout": 0.0,
    "weight_decay": 0.0, "learning_rate": 1e-3, "batch_size": 32, "max_epochs": 150,
    "patience": 150,
}  # fmt: skip
# Chosen on validation, of all numbers of neighbors alike; values as they are, as in the paper.
LATENT_FACTOR_SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-3, "max_epochs": 200, "batch_size": 64, "patience": 200
}  # fmt: skip
# How many were tried: of EFA by lags, of latent factors.
N_EFA, N_LATENT_FACTOR = {0: 33, 1: 36, 2: 36}, 6

# Section 6.4 and Figure 6, as the authors' notebooks record them: by layers, lags and neighbors.
PAPER_EFA = {1: 17.135, 2: 11.522, 4: 11.224}
PAPER_LAGS = {1: 9.248, 2: 10.420}
PAPER_FM = {
    1: 37.39, 2: 31.90, 3: 23.06, 4: 22.77, 5: 22.68, 10: 29.92, 15: 34.26, 20: 40.50, 25: 47.63,
    30: 52.71, 35: 60.98, 40: 75.55,
}  # fmt: skip

MODES = ("efa-coordinates", "efa-site")
RIDGES = {"ridge": FieldRidge, "ridge-covariance": FieldRidgeCovariance}
# What is fitted with lags as well as without.
LAGGED = (*MODES, "efa-ensemble", *RIDGES, "gaussian-process", "field-gaussian")


def run(options: Options) -> list[Row]:
    """Fit and score all models of the wanted tasks."""
    jobs: list[Job] = []
    for task, lags in LAGS.items():
        if options.wants(task):
            jobs += _real_jobs(options, task=task, lags=lags)
    if options.wants(NEW_SITES):
        jobs += _new_sites_jobs(options)
    if options.wants(SIMULATED):
        for draw in list(DRAWS)[: 1 if options.fast else None]:
            jobs += _simulated_jobs(options, draw=draw)
    return gather(jobs)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Table:
    """Maps by part, and what the rows made of them say; further parts by what their days have."""

    task: str
    splits: Splits
    n_seeds: int
    where: Mapping[str, str | int] = field(default_factory=dict)
    days: Mapping[str, Splits] = field(default_factory=dict)


def _real_jobs(options: Options, *, task: str, lags: int) -> list[Job]:
    groups, days = read_temperatures(), dict[str, Splits]()
    contenders = [attention("efa-defaults", {"lags": lags}, options)]
    if not lags:
        for n in (1, 2):
            days[f"with-history-of-{n}"] = smaller(field_splits(groups, history=n), options)
        neighbors = FAST_NEIGHBORS if options.fast else tuple(PAPER_FM)
        factors = latent_factors(options, neighbors=neighbors)
        contenders = [*paper_forms(options), *factors, *contenders]
    splits = smaller(field_splits(groups, lags=lags, history=lags), options)
    table = _Table(task=task, splits=splits, n_seeds=options.n_seeds(SEEDS), days=days)
    return _jobs(table, contenders, options, lags=lags)


def _simulated_jobs(options: Options, *, draw: str) -> list[Job]:
    groups, truth = simulated_temperatures(DRAWS[draw])
    jobs, n_seeds = [], options.n_seeds(SIMULATED_SEEDS)
    for lags in SIMULATED_LAGS:
        splits = smaller(field_splits(groups, lags=lags, history=lags), options)
        where: dict[str, str | int] = {"draw": draw, "lags": lags}
        table = _Table(task=SIMULATED, splits=splits, n_seeds=n_seeds, where=where)
        factors = [] if lags else latent_factors(options, neighbors=SIMULATED_NEIGHBORS)
        jobs.append(Job(f"{SIMULATED} truth {draw}", partial(_truth_rows, truth, table)))
        jobs += _jobs(table, factors, options, lags=lags)
    return jobs


def _jobs(
    table: _Table, contenders: Sequence[Contender], options: Options, *, lags: int
) -> list[Job]:
    """The two modes of EFA, whose fits make the ensembles, the contenders, the baselines."""
    where = " ".join([table.task, *map(str, table.where.values())])
    jobs = [Job(f"{where} efa", partial(_efa_rows, table, modes(options, lags=lags)))]
    for contender in [*contenders, *baselines(lags=lags)]:
        jobs.append(Job(f"{where} {contender.model}", partial(_rows, table, contender)))
    return jobs


def _rows(table: _Table, contender: Contender, fits: Sequence[Fit] | None = None) -> list[Row]:
    """Rows of the task, and for models that elsewhere have lags those of the further days."""
    fits = fits or fit_seeds(contender, table.splits, seeds=table.n_seeds)
    if table.where:
        here = {**contender.settings, **table.where}
        contender = replace(contender, settings=here, paper={}, note="")
    measured = partial(rows_of, fits=fits, task=table.task, measure=field_figures)
    rows = measured(contender, splits=table.splits)
    if contender.model in LAGGED:
        for name, splits in table.days.items():
            there = replace(contender, settings={**contender.settings, "days": name})
            rows += measured(there, splits=splits)
    return rows


def _efa_rows(table: _Table, contenders: Sequence[Contender]) -> list[Row]:
    """Rows of both modes, and of ensembles of the one with the smaller error on validation."""
    fits = [fit_seeds(own, table.splits, seeds=table.n_seeds) for own in contenders]
    rows = [_rows(table, *own) for own in zip(contenders, fits, strict=True)]
    error = [next(row.validation or 0.0 for row in own if row.metric == "mse") for own in rows]
    better = int(np.argmin(error))
    if together := _ensembles(fits[better]):
        chosen, n_members = contenders[better], len(together[0].estimator.members_)
        note = "ensembles share fits: sd too small" if len(together) > 1 else ""
        named = replace(chosen, settings={"of": chosen.model, "members": n_members})
        named = replace(named, model="efa-ensemble", paper={}, note=note)
        rows.append(_rows(table, named, together))
    return list(chain.from_iterable(rows))


def _ensembles(fits: Sequence[Fit]) -> list[Fit]:
    """Each fit and those after it, the first following the last; each set of fits once."""
    if len(fits) <= N_MEMBERS:
        return [joined(fits)] if len(fits) > 1 else []
    around = [*fits, *fits]
    return [joined(around[first : first + N_MEMBERS]) for first in range(len(fits))]


def _new_sites_jobs(options: Options) -> list[Job]:
    labels, n_draws = read_temperatures().vocabulary["item"].tolist(), options.n_seeds(SEEDS)
    draws = draw_sites(labels, draws=n_draws, size=NEW_SITES_SIZE, seed=NEW_SITES_SEED)
    drawn = [[smaller(splits, options) for splits in new_sites(sites)] for sites in draws]
    return [
        Job(f"{NEW_SITES} {contender.model}", partial(_new_sites_rows, contender, drawn))
        for contender in [*modes(options, lags=0), *baselines()]
        if contender.model in NEW_SITES_MODELS
    ]


def _new_sites_rows(contender: Contender, draws: Sequence[Sequence[Splits]]) -> list[Row]:
    """One fit a draw, scored at the cities that were left out of it."""
    fits = [fit_once(contender, known, seed=seed) for seed, (known, _) in enumerate(draws)]
    pairs = [(fit.estimator, scored) for fit, (_, scored) in zip(fits, draws, strict=True)]
    return figure_rows(
        replace(contender, note=f"{len(draws)} draws of {NEW_SITES_SIZE} cities"),
        fits,
        task=NEW_SITES,
        tests=[new_site_figures(estimator, scored.test) for estimator, scored in pairs],
        validations=[new_site_figures(estimator, scored.validation) for estimator, scored in pairs],
    )


def modes(options: Options, *, lags: int) -> list[Contender]:
    """EFA by coordinates alone, and with a vector for each site."""
    return [
        attention(
            model,
            {**EFA_SETTINGS, "site_embedding": model == "efa-site", "lags": lags},
            options,
            n_configurations=N_EFA[lags],
            paper={"mse": PAPER_LAGS[lags]} if lags and model == "efa-coordinates" else {},
        )
        for model in MODES
    ]


def paper_forms(options: Options) -> list[Contender]:
    """The paper's own networks of 1, 2 and 4 layers, as near as our parts allow."""
    return [
        attention(f"efa-l{n}", {**PAPER_EFA_SETTINGS, "n_layers": n}, options, paper={"mse": mse})
        for n, mse in PAPER_EFA.items()
    ]


def attention(
    model: str, parameters: Mapping[str, Any], options: Options, **more: Any
) -> Contender:
    """EFA with these parameters."""
    fit = fitter(FieldEFA, training_of(parameters, options))
    return Contender(model=model, fit=fit, **{"n_configurations": 1, **more})


def latent_factors(options: Options, *, neighbors: tuple[int, ...]) -> list[Contender]:
    """Latent factor models over that many of the nearest sites."""
    settings = training_of(LATENT_FACTOR_SETTINGS, options)
    return [
        Contender(
            model=f"latent-factor-k{k}",
            settings={"k": k},
            fit=fitter(FieldLatentFactor, {**settings, "k": k}),
            n_configurations=N_LATENT_FACTOR,
            paper={"mse": PAPER_FM[k]},
        )
        for k in neighbors
    ]


def baselines(*, lags: int = 0) -> list[Contender]:
    """Baselines in closed form, without chance.

    Ridges predict values as they are, with the penalty that is best on validation: of what was
    tried there, this did best.
    """
    kinds: list[tuple[str, Any, dict[str, Any]]] = [
        *((model, kind, {"lags": lags, "standardize": "none"}) for model, kind in RIDGES.items()),
        ("gaussian-process", FieldGaussianProcess, {"lags": lags}),
        ("field-gaussian", FieldGaussian, {"lags": lags}),
    ]
    if not lags:
        kinds += [
            ("kriging", FieldKriging, {}),
            ("climatology", FieldClimatology, {"standardize": "site"}),
            ("climatology", FieldClimatology, {"standardize": "seasonal"}),
        ]
    return [
        Contender(
            model=model,
            settings=parameters if model == "climatology" else {},
            fit=fitter(kind, parameters, validate=model in RIDGES),
            chance=False,
        )
        for model, kind, parameters in kinds
    ]


def prediction_figures(
    predicted: Prediction, value: Float[np.ndarray, "rows"], among: Any = slice(None)
) -> dict[str, float]:
    """Means over the rows `among` all: squared error, nats, CRPS, share in the 90% interval."""
    columns = {
        "mse": (predicted.mean - value) ** 2,
        "nats": -predicted.log_prob(value),
        "crps": predicted.crps(value),
        COVERAGE: np.abs(predicted.cdf(value) - 0.5) <= LEVEL / 2,
    }
    return {metric: float(column[among].mean()) for metric, column in columns.items()}


def field_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of all values of the maps, each given the others."""
    return prediction_figures(estimator.predict_dist(groups), values_of(groups))


def new_site_figures(estimator: FieldEstimator, groups: Groups) -> dict[str, float]:
    """The figures of the values that are hidden, each given those that are not."""
    assert groups.observed is not None
    hidden = ~groups.observed[groups.elements()]
    figures = prediction_figures(estimator.predict_dist(groups), values_of(groups), hidden)
    rmse = float(np.sqrt(figures["mse"]))
    return {"rmse": rmse, "nats": figures["nats"], COVERAGE: figures[COVERAGE]}


def _truth_rows(process: FieldProcess, table: _Table) -> list[Row]:
    """What one who knows the process achieves: no model can be expected to have fewer nats."""
    tests, validations = (
        prediction_figures(true_conditional(process, groups), values_of(groups))
        for groups in (table.splits.test, table.splits.validation)
    )
    row = Row(task=table.task, model="truth", settings=table.where, metric="")
    return measured_rows(row, tests, validations)
