"""All models of tables, by the name that rows give them. Nothing was tuned for ours.

Those named "masked-table-base" are exfam's default; other ones named "masked-table" are the
attention network, the paper's model among them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from exfam.tables import MaskedTableClassifier, MaskedTableRegressor
from exfam_studies.common.fits import Contender
from exfam_studies.experts.tables import peers
from exfam_studies.experts.tables.boosting import LIBRARIES, fit_boosting
from exfam_studies.experts.tables.data import Columns, TableShift
from exfam_studies.experts.tables.fits import Fitted, Predicted, spread

# The models that others are compared with, pair by pair.
OURS = ("masked-table", "masked-table-missing", "masked-table-ensemble")
# On how many data sets of a simulated setting slow models are fitted, from the first.
_FEW, _TUNED = 5, 2

# exfam's default, and without its network; all others of ours are the attention network.
BASES: Mapping[str, Mapping[str, Any]] = {
    "masked-table-base": {"base": "auto"},
    "masked-table-base-fast": {"base": "auto", "fast": True},
}
_ENSEMBLE = {"ensemble": 10}
# As the paper's model: one space of categories for all columns, and MASK tokens in the context.
_SHARED: Mapping[str, Any] = {
    "categories": "shared", "ordinal": False, "extra_masking": 0.7, "masked_as": "mask",
}  # fmt: skip
# What differs from the defaults, by model: of tables of codes, and of those with a natural shift.
CODED_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-ensemble": _ENSEMBLE,
    "masked-table-linear": {"ordinal": False, "extra_masking": 0.0},
    "masked-table-ordinal": {"ordinal": True, "extra_masking": 0.0},
    "masked-table-shared": _SHARED,
    "masked-table-shared-ensemble": {**_SHARED, **_ENSEMBLE},
    **BASES,
}
SHIFT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "masked-table": {},
    "masked-table-missing": {"extra_masking": 0.7},
    "masked-table-deep": {"network": "deep", "ordinal": True, "extra_masking": 0.5},
    "masked-table-ensemble": _ENSEMBLE,
    **BASES,
}


def fit_masked(
    table: TableShift, *, seed: int, settings: Mapping[str, Any], classes: bool = True
) -> Fitted:
    """A masked table of the training rows; categories unseen there are like missing cells.

    `classes`: predict chances of levels; else a number, or of levels the chances around each code
    """
    levels = table.y_levels if table.task != "regression" else []
    kinds: dict[str, Any] = {
        name: list(table.levels.get(name, ())) or kind for name, kind in table.kinds.items()
    }
    if classes and table.task == "ordinal":
        # Only labels in order can be declared before they are seen.
        kinds["y"] = levels
    estimator = MaskedTableClassifier if classes else MaskedTableRegressor
    own = {"base": "none", "kinds": kinds, "seed": seed, "progress": False, **settings}
    model: Any = estimator(**own)
    model.fit(dict(table.train), table.train_y if classes else table.y_numbers)

    def predict(columns: Columns) -> Predicted:
        if classes:
            codes = table.y_codes(model.classes_)
            chances = model.predict_proba(dict(columns))
            return Predicted(chances=spread(chances, codes, n_levels=len(levels)))
        distribution = model.predict_dist(dict(columns))
        if not levels:
            return Predicted(mean=distribution.center, log_prob=distribution.log_prob)
        edges = np.arange(1, len(levels)) - 0.5
        below = [distribution.cdf(np.full(len(distribution), edge)) for edge in edges]
        chances = np.diff(np.stack(below, axis=1), prepend=0.0, append=1.0)
        return Predicted(chances=np.clip(chances, 0, 1))

    return Fitted(predict, {} if model.recipe_ is None else asdict(model.recipe_))


def coded_models(*, fast: bool) -> dict[str, Contender]:
    """The models of tables of codes, or those of a smoke run."""
    models = []
    for name, settings in CODED_SETTINGS.items():
        fit, n = partial(fit_masked, settings=settings), _n_recipes(settings)
        tried = None if name in BASES or "ordinal" in settings else n
        models.append(Contender(model=name, fit=fit, n_configurations=tried, fast=name == OURS[0]))
    slow = partial(Contender, fast=False)
    models.append(slow(model="reference", fit=_fit_reference, most_fits=_FEW))
    for name in peers.CLASSIFIERS:
        fit, quick = partial(peers.fit_one_hot, model=name), name != "gradient-boosting"
        models.append(Contender(model=name, fit=fit, chance=name in peers.GRIDS, fast=quick))
    for name, grid in peers.GRIDS.items():
        fit = partial(peers.fit_one_hot, model=name, tuned=True)
        n = math.prod(map(len, grid.values()))
        models.append(slow(model=f"{name}-tuned", fit=fit, n_configurations=n, most_fits=_TUNED))
    for name in ("lightgbm", "xgboost", "catboost"):
        fit = partial(fit_boosting, library=LIBRARIES[name], classes=True)
        chance = name == "catboost"
        models.append(Contender(model=name, fit=fit, chance=chance, package=name, fast=not chance))
    ridge = partial(peers.fit_ridge, standardized=False)
    models.append(Contender(model="ridge", fit=ridge, chance=False))
    models.append(Contender(model="ordered-probit", fit=peers.fit_ordered_probit, chance=False))
    return {model.model: model for model in models if model.fast or not fast}


def shift_models(task: str, *, fast: bool) -> dict[str, Contender]:
    """The models of tables with a natural shift, or those of a smoke run."""
    classes, more = task != "regression", {"max_epochs": 2} if fast else {}
    ours = {name: (settings, classes) for name, settings in SHIFT_SETTINGS.items()}
    if task == "ordinal":
        ours["masked-table-regression"] = ({}, False)
    models = []
    for name, (settings, of_classes) in ours.items():
        fit = partial(fit_masked, settings={**settings, **more}, classes=of_classes)
        n = None if name in BASES else _n_recipes(settings) + 2
        models.append(Contender(model=name, fit=fit, n_configurations=n, fast=name == OURS[0]))
    slow = partial(Contender, fast=False)
    models.append(Contender(model="ridge", fit=peers.fit_ridge))
    models.append(slow(model="ridge-dropped", fit=partial(peers.fit_ridge, dropped=True)))
    for name in ("lightgbm", "catboost"):
        variants: dict[str, dict[str, Any]] = {
            f"{name}-tuned": {"tuned": True},
            f"{name}-dropped": {"tuned": True, "dropped": True},
            name: {},
        }
        if task == "ordinal":
            variants[f"{name}-tuned-regression"] = {"tuned": True, "classes": False}
        library = LIBRARIES[name]
        for model, variant in variants.items():
            fit = partial(fit_boosting, library=library, **{"classes": classes, **variant})
            tried = library.n_configurations if variant else None
            models.append(slow(model=model, fit=fit, package=name, n_configurations=tried))
    return {model.model: model for model in models if model.fast or not fast}


def model_parameters(model: str, *, task: str | None = None) -> dict[str, Any]:
    """The settings of a model that differ from its defaults, or the grid that it is tuned on."""
    if model.startswith("masked-table"):
        if task is None:
            settings = {**CODED_SETTINGS[model], "kinds": "all columns ordered"}
            return {"estimator": "MaskedTableClassifier", **settings}
        regression = task == "regression" or model == "masked-table-regression"
        estimator = "MaskedTableRegressor" if regression else "MaskedTableClassifier"
        return {"estimator": estimator, **SHIFT_SETTINGS.get(model, {})}
    grid: Mapping[str, Sequence[Any]] = {}
    if task is None and model.endswith("-tuned"):
        own = peers.GRIDS[model.removesuffix("-tuned")].items()
        grid = {k: list(map(str, v)) for k, v in own if k != "n_estimators"}
    elif task is not None and "-" in model and model.partition("-")[0] in LIBRARIES:
        grid = {k: list(v) for k, v in LIBRARIES[model.partition("-")[0]].grid.items()}
    return {"grid": grid} if grid else {}


def _n_recipes(settings: Mapping[str, Any]) -> int:
    """How many recipes are tried by validation at most: ordinal or not, extra masking or not."""
    return 2 ** sum(name not in settings for name in ("ordinal", "extra_masking"))


def _fit_reference(table: TableShift, *, seed: int) -> Fitted:
    return peers.fit_reference_tables([table], seed=seed)[0]
