"""All models of tables, by the name that rows give them.

To add one: a function from a table and a seed to `Fitted`, and a line in `coded_models` or
`shift_models`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exfam_studies.common.fits import Contender
from exfam_studies.experts.tables.boosting import LIBRARIES, fit_boosting
from exfam_studies.experts.tables.features import with_dropped
from exfam_studies.experts.tables.masked import CODED_SETTINGS, SHIFT_SETTINGS, fit_masked
from exfam_studies.experts.tables.ordered_probit import fit_ordered_probit
from exfam_studies.experts.tables.peers import GRIDS, fit_one_hot, fit_ridge
from exfam_studies.experts.tables.predictions import Fitted
from exfam_studies.experts.tables.public import TableShift
from exfam_studies.experts.tables.reference import fit_reference

# The models that others are compared with, pair by pair.
OURS = ("masked-table", "masked-table-missing", "masked-table-ensemble")
# On how many data sets of a simulated setting slow models are fitted, from the first.
_FEW, _TUNED = 5, 2


def coded_models(*, fast: bool) -> dict[str, Contender]:
    """The models of tables of codes, or those of a smoke run."""
    models = [
        Contender(
            model=name,
            fit=partial(fit_masked, settings=settings),
            n_configurations=None if "ordinal" in settings else _n_recipes(settings),
            fast=name == OURS[0],
        )
        for name, settings in CODED_SETTINGS.items()
    ]
    models.append(Contender(model="reference", fit=fit_reference, fast=False, most_fits=_FEW))
    models += [
        Contender(
            model=name,
            fit=partial(fit_one_hot, model=name),
            chance=name in GRIDS,
            fast=name != "gradient-boosting",
        )
        for name in ("logistic-regression", *GRIDS)
    ]
    models += [
        Contender(
            model=f"{name}-tuned",
            fit=partial(fit_one_hot, model=name, tuned=True),
            n_configurations=grid.n_configurations,
            fast=False,
            most_fits=_TUNED,
        )
        for name, grid in GRIDS.items()
    ]
    models += [
        Contender(
            model=name,
            fit=partial(fit_boosting, library=LIBRARIES[name], classes=True),
            chance=name == "catboost",
            package=name,
            fast=name != "catboost",
        )
        for name in ("lightgbm", "xgboost", "catboost")
    ]
    ridge = partial(fit_ridge, standardized=False)
    models.append(Contender(model="ridge", fit=ridge, chance=False))
    models.append(Contender(model="ordered-probit", fit=fit_ordered_probit, chance=False))
    return _wanted(models, fast)


def shift_models(task: str, *, fast: bool) -> dict[str, Contender]:
    """The models of tables with a natural shift, or those of a smoke run.

    >>> list(shift_models("regression", fast=True))
    ['masked-table', 'ridge']
    """
    classes, more = task != "regression", {"max_epochs": 2} if fast else {}
    ours = {name: (settings, classes) for name, settings in SHIFT_SETTINGS.items()}
    if task == "ordinal":
        ours["masked-table-regression"] = ({}, False)
    models = [
        Contender(
            model=name,
            fit=partial(fit_masked, settings={**settings, **more}, classes=of_classes),
            n_configurations=_n_recipes(settings) + 2,
            fast=name == OURS[0],
        )
        for name, (settings, of_classes) in ours.items()
    ]
    models.append(Contender(model="ridge", fit=fit_ridge))
    models.append(Contender(model="ridge-dropped", fit=_fit_ridge_dropped, fast=False))
    for name in ("lightgbm", "catboost"):
        variants: dict[str, dict[str, bool]] = {
            f"{name}-tuned": {"tuned": True},
            f"{name}-dropped": {"tuned": True, "dropped": True},
            name: {},
        }
        if task == "ordinal":
            variants[f"{name}-tuned-regression"] = {"tuned": True, "classes": False}
        models += [
            Contender(
                model=model,
                fit=partial(
                    fit_boosting, library=LIBRARIES[name], **{"classes": classes, **variant}
                ),
                package=name,
                n_configurations=LIBRARIES[name].n_configurations if variant else None,
                fast=False,
            )
            for model, variant in variants.items()
        ]
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


def _n_recipes(settings: Mapping[str, Any]) -> int:
    """How many recipes are tried by validation at most: ordinal or not, extra masking or not."""
    return 2 ** sum(name not in settings for name in ("ordinal", "extra_masking"))


def _fit_ridge_dropped(table: TableShift, *, seed: int) -> Fitted:
    return fit_ridge(with_dropped(table, seed=seed), seed=seed)


def _wanted(models: Sequence[Contender], fast: bool) -> dict[str, Contender]:
    return {contender.model: contender for contender in models if contender.fast or not fast}
