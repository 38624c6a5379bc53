"""All models of the experiments on coded tables, by the name that rows give them.

To add one: a function of the form of `Fitter`, and a line in TABLE_MODELS.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from exfam_studies.experts.ordered_probit import fit_ordered_probit
from exfam_studies.experts.table_grids import GRIDS
from exfam_studies.experts.table_ours import N_RECIPES, OUR_SETTINGS, fit_masked_table
from exfam_studies.experts.table_peers import (
    fit_catboost,
    fit_gradient_boosting,
    fit_lightgbm,
    fit_logistic_regression,
    fit_mlp,
    fit_random_forest,
    fit_ridge,
    fit_tuned_peer,
    fit_xgboost,
)
from exfam_studies.experts.table_reference import fit_reference, fit_reference_tables
from exfam_studies.experts.table_rules import Fitter, SideBySide

__all__ = ["OURS", "PEERS", "TABLE_MODELS", "TableContender", "models_of", "table_parameters"]

ALL, FEW, TUNED = 20, 5, 2
# The model that all others are compared with, pair by pair.
OURS = "masked-table"


@dataclass(frozen=True, eq=False)
class TableContender:
    """A model and how it enters an experiment.

    `n_data_sets`: on how many data sets of a simulated setting it is fitted, from the first
    `chance`: whether two seeds give two fits
    `package`: what must be installed, if not always there
    `n_configurations`: how many were tried by validation, in each fit
    `fast`: whether a smoke run fits it
    `side_by_side`: fits several tables of one size at once; each one's CPU seconds are its share

    >>> TableContender(fit_ridge, package="no_such_package").is_installed
    False
    """

    fit: Fitter
    n_data_sets: int = ALL
    chance: bool = True
    package: str | None = None
    n_configurations: int | None = None
    fast: bool = True
    side_by_side: SideBySide | None = None

    @property
    def is_installed(self) -> bool:
        """Whether the package it needs is there."""
        return self.package is None or find_spec(self.package) is not None


PEERS: Mapping[str, TableContender] = {
    "logistic-regression": TableContender(fit_logistic_regression, chance=False),
    "random-forest": TableContender(fit_random_forest),
    "gradient-boosting": TableContender(fit_gradient_boosting, fast=False),
    "mlp": TableContender(fit_mlp),
    **{
        f"{name}-tuned": TableContender(
            partial(fit_tuned_peer, grid=grid),
            n_data_sets=TUNED,
            n_configurations=grid.n_configurations,
            fast=False,
        )
        for name, grid in GRIDS.items()
    },
    "lightgbm": TableContender(fit_lightgbm, chance=False, package="lightgbm"),
    "xgboost": TableContender(fit_xgboost, chance=False, package="xgboost"),
    "catboost": TableContender(fit_catboost, package="catboost", fast=False),
    "ridge": TableContender(fit_ridge, chance=False),
    "ordered-probit": TableContender(fit_ordered_probit, chance=False),
}
TABLE_MODELS: dict[str, TableContender] = {
    **{
        name: TableContender(
            partial(fit_masked_table, settings=settings),
            n_configurations=None if "ordinal" in settings else N_RECIPES,
            fast=name == OURS,
        )
        for name, settings in OUR_SETTINGS.items()
    },
    "reference": TableContender(
        fit_reference, n_data_sets=FEW, fast=False, side_by_side=fit_reference_tables
    ),
    **PEERS,
}


def table_parameters(model: str) -> dict[str, Any]:
    """The settings of a model that differ from its defaults, or the grid that it is tuned on.

    >>> table_parameters("masked-table-ensemble")["ensemble"]
    10
    """
    if model in OUR_SETTINGS:
        kinds = {"kinds": "all columns ordered"}
        return {"estimator": "MaskedTableClassifier", **OUR_SETTINGS[model], **kinds}
    grid = GRIDS.get(model.removesuffix("-tuned")) if model.endswith("-tuned") else None
    return {} if grid is None else {"grid": {k: list(map(str, v)) for k, v in grid.values.items()}}


def models_of(*, fast: bool) -> dict[str, TableContender]:
    """All models, or those of a smoke run.

    >>> "ridge" in models_of(fast=True), "mlp-tuned" in models_of(fast=True)
    (True, False)
    """
    return {name: each for name, each in TABLE_MODELS.items() if each.fast or not fast}
