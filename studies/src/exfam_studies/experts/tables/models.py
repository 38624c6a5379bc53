"""All models of tables, by the name that rows give them.

To add one: a function of the form of `Fit`, and a line in `coded_models` or `shift_models`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.tables.boosting import (
    LIBRARIES,
    fit_boosting,
    fit_dropped_boosting,
    fit_tuned_boosting,
)
from exfam_studies.experts.tables.features import n_copies, with_dropped
from exfam_studies.experts.tables.grids import GRIDS
from exfam_studies.experts.tables.masked import (
    CODED_SETTINGS,
    SHIFT_SETTINGS,
    fit_masked,
    n_recipes,
)
from exfam_studies.experts.tables.ordered_probit import fit_ordered_probit
from exfam_studies.experts.tables.peers import fit_one_hot, fit_ridge, fit_tuned_peer
from exfam_studies.experts.tables.predictions import Fit, Fitted
from exfam_studies.experts.tables.reference import fit_reference, fit_reference_tables

__all__ = ["OURS", "TableModel", "coded_models", "model_parameters", "shift_models"]

# The models that others are compared with, pair by pair.
OURS = ("masked-table", "masked-table-missing", "masked-table-ensemble")
_FAST = {"max_epochs": 2}
_ALL, _FEW, _TUNED = 20, 5, 2


@dataclass(frozen=True, eq=False)
class TableModel:
    """A model and how it enters an experiment.

    `chance`: whether two seeds give two fits
    `package`: what must be installed, if not always there
    `n_configurations`: how many were tried by validation, in each fit
    `fast`: whether a smoke run fits it
    `n_tables`: on how many data sets of a simulated setting it is fitted, from the first
    `of_dropped`: whether it is only for tables of which cells are dropped at test
    `together`: fits several tables of one size at once; each one's CPU seconds are its share
    """

    fit: Fit
    chance: bool = True
    package: str | None = None
    n_configurations: int | None = None
    fast: bool = True
    n_tables: int = _ALL
    of_dropped: bool = False
    together: Callable[..., Sequence[Fitted]] | None = None

    @property
    def is_installed(self) -> bool:
        """Whether the package it needs is there."""
        return self.package is None or find_spec(self.package) is not None


def coded_models(*, fast: bool) -> dict[str, TableModel]:
    """The models of tables of codes, or those of a smoke run."""
    models = {
        name: TableModel(
            partial(fit_masked, settings=settings),
            n_configurations=None if "ordinal" in settings else n_recipes(settings, lengths=0),
            fast=name == OURS[0],
        )
        for name, settings in CODED_SETTINGS.items()
    }
    models["reference"] = TableModel(
        fit_reference, fast=False, n_tables=_FEW, together=fit_reference_tables
    )
    models["logistic-regression"] = TableModel(
        partial(fit_one_hot, model="logistic-regression"), chance=False
    )
    for name in GRIDS:
        slow = name == "gradient-boosting"
        models[name] = TableModel(partial(fit_one_hot, model=name), fast=not slow)
    for name, grid in GRIDS.items():
        models[f"{name}-tuned"] = TableModel(
            partial(fit_tuned_peer, model=name),
            n_configurations=grid.n_configurations,
            fast=False,
            n_tables=_TUNED,
        )
    for name in ("lightgbm", "xgboost", "catboost"):
        fit = partial(fit_boosting, library=LIBRARIES[name], classes=True)
        slow = name == "catboost"
        models[name] = TableModel(fit, chance=slow, package=name, fast=not slow)
    models["ridge"] = TableModel(partial(fit_ridge, standardized=False), chance=False)
    models["ordered-probit"] = TableModel(fit_ordered_probit, chance=False)
    return _wanted(models, fast)


def shift_models(task: str, *, fast: bool) -> dict[str, TableModel]:
    """The models of tables with a natural shift, or those of a smoke run.

    >>> list(shift_models("regression", fast=True))
    ['masked-table', 'ridge']
    """
    classes, more = task != "regression", _FAST if fast else {}
    models = {
        name: TableModel(
            partial(fit_masked, settings={**settings, **more}, classes=classes),
            n_configurations=n_recipes(settings, lengths=2),
            fast=name == OURS[0],
            of_dropped=name.endswith("-missing"),
        )
        for name, settings in SHIFT_SETTINGS.items()
    }
    if task == "ordinal":
        fit = partial(fit_masked, settings=more, classes=False)
        models["masked-table-regression"] = TableModel(
            fit, n_configurations=n_recipes({}, lengths=2), fast=False
        )
    models["ridge"] = TableModel(fit_ridge)
    models["ridge-dropped"] = TableModel(_fit_ridge_dropped, fast=False, of_dropped=True)
    for name in ("lightgbm", "catboost"):
        models |= _boosting_models(name, classes=classes, numbers=task == "ordinal")
    return _wanted(models, fast)


def model_parameters(model: str, *, task: str | None = None) -> dict[str, Any]:
    """The settings of a model that differ from its defaults, or the grid that it is tuned on.

    `task`: of a table with a natural shift; None for tables of codes
    """
    if model.startswith("masked-table"):
        if task is None:
            kinds = {"kinds": "all columns ordered"}
            return {"estimator": "MaskedTableClassifier", **CODED_SETTINGS[model], **kinds}
        regression = task == "regression" or model == "masked-table-regression"
        estimator = "MaskedTableRegressor" if regression else "MaskedTableClassifier"
        return {"estimator": estimator, **SHIFT_SETTINGS.get(model, {})}
    grid: Mapping[str, Sequence[Any]] = {}
    if task is None and model.endswith("-tuned"):
        grid = {k: list(map(str, v)) for k, v in GRIDS[model.removesuffix("-tuned")].values.items()}
    elif task is not None and "-" in model and model.partition("-")[0] in LIBRARIES:
        grid = {k: list(v) for k, v in LIBRARIES[model.partition("-")[0]].grid.items()}
    return {"grid": grid} if grid else {}


def _boosting_models(name: str, *, classes: bool, numbers: bool) -> dict[str, TableModel]:
    """A library tuned, tuned to rows with cells dropped, and as it comes.

    `numbers`: also tuned as a regression on the codes of levels
    """
    library = LIBRARIES[name]
    n = library.n_configurations
    tuned = partial(fit_tuned_boosting, library=library, classes=classes)
    dropped = partial(fit_dropped_boosting, library=library, classes=classes)
    plain = partial(fit_boosting, library=library, classes=classes)
    models = {
        f"{name}-tuned": TableModel(tuned, package=name, n_configurations=n, fast=False),
        f"{name}-dropped": TableModel(
            dropped, package=name, n_configurations=n, fast=False, of_dropped=True
        ),
        name: TableModel(plain, package=name, fast=False),
    }
    if numbers:
        fit = partial(fit_tuned_boosting, library=library, classes=False)
        models[f"{name}-tuned-regression"] = TableModel(
            fit, package=name, n_configurations=n, fast=False
        )
    return models


def _fit_ridge_dropped(table: TableShift, *, seed: int) -> Fitted:
    return fit_ridge(with_dropped(table, copies=n_copies(table), seed=seed), seed=seed)


def _wanted(models: dict[str, TableModel], fast: bool) -> dict[str, TableModel]:
    return {name: model for name, model in models.items() if model.fast or not fast}
