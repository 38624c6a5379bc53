"""All models of tables with a natural shift, by the name that rows give them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_features import learn_features, with_missing
from exfam_studies.experts.shift_ours import SHIFT_SETTINGS, fit_shift_masked
from exfam_studies.experts.shift_peers import (
    CATBOOST,
    LIGHTGBM,
    Boosting,
    Predicted,
    ShiftFitted,
    ShiftPeer,
    fit_shift_boosting,
    fit_shift_ridge,
    hold_out,
    normal_law,
    y_chances,
    y_levels,
    y_numbers,
)

__all__ = [
    "OURS",
    "SHARES",
    "ShiftModel",
    "copies_of",
    "shift_models",
    "shift_parameters",
    "with_dropped",
]

SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
# The models that others are compared with, pair by pair.
OURS = ("masked-table", "masked-table-missing", "masked-table-ensemble")
# Trees of the libraries' own defaults.
_DEFAULT_TREES = {"lightgbm": 100, "catboost": 1000}
_LIBRARIES = {"lightgbm": LIGHTGBM, "catboost": CATBOOST}
# What a smoke run changes in our models.
_FAST = {"max_epochs": 2}
# Of longer tables each row comes once where cells are dropped in training.
_FEW_ROWS = 5000
# Longer trainings that a masked table tries by itself, if its rows are many.
_N_LENGTHS = 2


@dataclass(frozen=True, eq=False)
class ShiftModel:
    """A model and how it enters the experiment.

    `package`: what must be installed, if not always there
    `n_configurations`: how many were tried by validation, in each fit
    `of_dropped`: whether it is only for tables of which cells are dropped at test
    `fast`: whether a smoke run fits it

    >>> ShiftModel(fit_shift_ridge, package="no_such_package").is_installed
    False
    """

    fit: ShiftPeer
    package: str | None = None
    n_configurations: int | None = None
    of_dropped: bool = False
    fast: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether the package it needs is there."""
        return self.package is None or find_spec(self.package) is not None


def with_dropped(shift: TableShift, *, copies: int, seed: int) -> TableShift:
    """The table with cells of its training rows dropped, as they are at test.

    Each row comes `copies` times, each time with another of the shares of SHARES dropped.
    """
    turn = np.arange(len(shift.train_y)) % len(SHARES)
    hidden = [
        with_missing(shift.train, share=share, by="cell", seed=seed + place)
        for place, share in enumerate(SHARES)
    ]
    columns = {}
    for name in shift.train:
        by_share = np.stack([each[name].astype(object) for each in hidden])
        rows = [
            by_share[(turn + copy) % len(SHARES), np.arange(len(turn))] for copy in range(copies)
        ]
        whole = np.concatenate(rows)
        columns[name] = whole.astype(np.float64) if shift.kinds[name] == "numeric" else whole
    return replace(shift, train=columns, train_y=np.tile(shift.train_y, copies))


def copies_of(shift: TableShift) -> int:
    """How many times each row comes where cells of training rows are dropped."""
    return len(SHARES) if len(shift.train_y) <= _FEW_ROWS else 1


def shift_parameters(model: str, *, task: str) -> dict[str, Any]:
    """The settings of a model that differ from its defaults, or the grid that it is tuned on.

    >>> shift_parameters("masked-table-ensemble", task="regression")["ensemble"]
    10
    """
    if model.startswith("masked-table"):
        regression = task == "regression" or model == "masked-table-regression"
        estimator = "MaskedTableRegressor" if regression else "MaskedTableClassifier"
        return {"estimator": estimator, **SHIFT_SETTINGS.get(model, {})}
    library, _, how = model.partition("-")
    if library not in _LIBRARIES or not how:
        return {}
    return {"grid": {name: list(each) for name, each in _LIBRARIES[library].grid.items()}}


def shift_models(task: str, *, fast: bool) -> dict[str, ShiftModel]:
    """The models for a task, or those of a smoke run; the most wanted ones first.

    >>> list(shift_models("regression", fast=True))
    ['masked-table', 'ridge']
    """
    models = {**_ours(task, more=_FAST if fast else {}), **_peers(task)}
    return {name: model for name, model in models.items() if model.fast or not fast}


def _ours(task: str, *, more: Mapping[str, int]) -> dict[str, ShiftModel]:
    classes = task != "regression"
    models = {
        name: ShiftModel(
            partial(fit_shift_masked, settings={**settings, **more}, classes=classes),
            n_configurations=_n_recipes(settings),
            of_dropped=name.endswith("-missing"),
            fast=name == OURS[0],
        )
        for name, settings in SHIFT_SETTINGS.items()
    }
    if task == "ordinal":
        fit = partial(fit_shift_masked, settings=more, classes=False)
        models["masked-table-regression"] = ShiftModel(fit, n_configurations=_n_recipes({}))
    return models


def _n_recipes(settings: Mapping[str, object]) -> int:
    """Recipes tried by validation at most: ordinal or not, extra masking or not, more lengths."""
    return 2 ** sum(name not in settings for name in ("ordinal", "extra_masking")) + _N_LENGTHS


def _peers(task: str) -> dict[str, ShiftModel]:
    models = {
        "ridge": ShiftModel(fit_shift_ridge, fast=True),
        "ridge-dropped": ShiftModel(_fit_ridge_dropped, of_dropped=True),
    }
    for name, library in _LIBRARIES.items():
        classes = task != "regression"
        n = int(np.prod([len(values) for values in library.grid.values()]))
        tuned = partial(fit_shift_boosting, library=library, classes=classes)
        dropped = partial(_fit_boosting_dropped, library=library, classes=classes)
        plain = partial(_fit_default, library=library, classes=classes, trees=_DEFAULT_TREES[name])
        models[f"{name}-tuned"] = ShiftModel(tuned, name, n)
        models[f"{name}-dropped"] = ShiftModel(dropped, name, n, of_dropped=True)
        models[name] = ShiftModel(plain, name)
        if task == "ordinal":
            numbers = partial(fit_shift_boosting, library=library, classes=False)
            models[f"{name}-tuned-regression"] = ShiftModel(numbers, name, n)
    return models


def _fit_ridge_dropped(shift: TableShift, *, seed: int) -> ShiftFitted:
    return fit_shift_ridge(with_dropped(shift, copies=copies_of(shift), seed=seed), seed=seed)


def _fit_boosting_dropped(
    shift: TableShift, *, seed: int, library: Boosting, classes: bool
) -> ShiftFitted:
    copies = copies_of(shift)
    dropped = with_dropped(shift, copies=copies, seed=seed)
    return fit_shift_boosting(dropped, seed=seed, library=library, classes=classes, copies=copies)


def _fit_default(
    shift: TableShift, *, seed: int, library: Boosting, classes: bool, trees: int
) -> ShiftFitted:
    """A library with its own settings; the sd of a normal law is that of held-out errors."""
    features = learn_features(shift.train, shift.kinds)
    x, y = library.matrix(features, shift.train), y_numbers(shift)
    y = y.astype(np.int64) if classes else y
    settings = {"trees": trees}
    fit = partial(
        library.fit, settings=settings, classes=classes, unordered=features.unordered, seed=seed
    )
    model = fit((x, y), None)
    sd = 0.0
    if not classes:
        rows, (held_x, held_y) = hold_out(x, y, classes=False, seed=seed, copies=1)
        errors = np.asarray(fit(rows, None).predict(held_x)) - held_y
        sd = float(np.sqrt(np.mean(errors**2)))

    def predict(columns: Mapping[str, np.ndarray]) -> Predicted:
        matrix = library.matrix(features, columns)
        if classes:
            return Predicted(chances=y_chances(model, matrix, len(y_levels(shift))))
        return normal_law(np.asarray(model.predict(matrix), dtype=np.float64), sd, shift)

    return ShiftFitted(predict, settings)
