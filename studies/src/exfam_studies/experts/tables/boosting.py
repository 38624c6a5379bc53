"""Boosted trees, with a library's own settings or with those that a validation part chose.

Tuned ones are fitted to four fifths of the training rows with all settings of a grid, stopped early
on the other fifth, then to all rows with the settings and number of trees that did best there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from exfam_studies.experts.tables import data, fits

HELD_OUT = 0.2
PATIENCE = 30
MOST_TREES = 600
# Of a uniform distribution in the nats that settings are chosen by, so that none is infinite.
MIXED_IN = 1e-6
# Rows of a matrix, and their y.
Rows = tuple[np.ndarray, np.ndarray]
Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Boosting:
    """A boosting library: its classes of models, and what they take besides what is tuned.

    `matrix`: what it takes of features; `unordered`: its parameter of columns whose numbers are
        names; `stopping`: what its `fit` takes to stop early on some rows; `n_trees`: how many
        trees are then best; `trees`: how many it has by itself; `grid`: what is tried
    """

    package: str
    classifier: str
    regressor: str
    of_both: Mapping[str, Any]
    of_classifier: Mapping[str, Any] = field(default_factory=dict)
    matrix: Callable[[data.Features, data.Columns], np.ndarray] = data.Features.codes
    unordered: str | None = None
    trees: int = 100
    stopping: Callable[[Rows], dict[str, Any]] = lambda rows: {}
    n_trees: Callable[[Any], int] = lambda model: int(model.best_iteration_)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def n_configurations(self) -> int:
        return math.prod(map(len, self.grid.values()))

    def build(self, settings: Settings, classes: bool, unordered: list[int], seed: int) -> Any:
        kind = getattr(import_module(self.package), self.classifier if classes else self.regressor)
        rest = {"n_estimators" if name == "trees" else name: v for name, v in settings.items()}
        if self.unordered is not None:
            rest[self.unordered] = unordered
        if classes:
            rest |= self.of_classifier
        return kind(random_state=seed, **self.of_both, **rest)


@dataclass(frozen=True, eq=False)
class _Trees:
    """A fitted model; `classes` are codes of levels, None of a regression."""

    model: Any
    classes: np.ndarray | None

    def predict(self, matrix: np.ndarray, n_levels: int) -> np.ndarray:
        if self.classes is None:
            return np.asarray(self.model.predict(matrix), dtype=np.float64)
        return fits.spread(self.model.predict_proba(matrix), self.classes, n_levels=n_levels)

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        if self.classes is None:
            return float(np.mean((self.predict(x, 0) - y) ** 2))
        chances = self.predict(x, 1 + int(self.classes.max()))
        return float(fits.nats(chances, y, mixed_in=MIXED_IN).mean())


def fit_boosting(
    table: data.TableShift,
    *,
    seed: int,
    library: Boosting,
    classes: bool,
    tuned: bool = False,
    dropped: bool = False,
) -> fits.Fitted:
    """A library with its own settings, or with those that did best on held-out training rows.

    `classes`: predict chances of levels; else a number, or of levels the normal chances of codes
    """
    n_rows = len(table.train_y)
    table = data.with_dropped(table, seed=seed) if dropped else table
    features, y = data.learn_features(table), table.y_numbers
    whole = library.matrix(features, table.train), y.astype(np.int64) if classes else y
    rows, held = hold_out(*whole, classes=classes, seed=seed, copies=len(y) // n_rows)

    def fit(rows: Rows, settings: Settings, *, stop: bool = False) -> _Trees:
        model, (x, y) = library.build(settings, classes, features.unordered, seed), rows
        # Classes without a gap: XGBoost takes no others.
        labels, y = np.unique(y, return_inverse=True) if classes else (None, y)
        stop_y = held[1] if labels is None else np.searchsorted(labels, held[1])
        stopping = library.stopping((held[0], stop_y)) if stop else {}
        return _Trees(model.fit(x, y, **stopping), labels)

    loss, chosen = 0.0, {"trees": library.trees}
    if tuned:
        loss, chosen = _tune(partial(fit, rows, stop=True), library, held)
    elif not classes:
        loss = fit(rows, chosen).loss(*held)
    trees, n_levels = fit(whole, chosen), len(table.y_levels) if classes else 0

    def predict(columns: data.Columns) -> fits.Predicted:
        result = trees.predict(library.matrix(features, columns), n_levels)
        if classes:
            return fits.Predicted(chances=result)
        return fits.normal_prediction(result, float(np.sqrt(loss)), table)

    return fits.Fitted(predict, chosen)


def _tune(
    fit: Callable[[Settings], _Trees], library: Boosting, held: Rows
) -> tuple[float, dict[str, Any]]:
    tried = []
    for values in product(*library.grid.values()):
        settings = dict(zip(library.grid, values, strict=True))
        trees = fit({**settings, "trees": MOST_TREES})
        settings["trees"] = max(1, library.n_trees(trees.model))
        tried.append((trees.loss(*held), settings))
    return min(tried, key=lambda trial: trial[0])


def hold_out(
    x: np.ndarray, y: np.ndarray, *, classes: bool, seed: int, copies: int
) -> tuple[Rows, Rows]:
    """Rows to fit on, and rows to stop on, of which none has a class that the others lack.

    `copies`: how many times all rows come; those of one row go together
    """
    held_out = np.tile(np.random.default_rng(seed).random(len(y) // copies) < HELD_OUT, copies)
    stop = held_out & np.isin(y, y[~held_out]) if classes else held_out
    return (x[~held_out], y[~held_out]), (x[stop], y[stop])


def _stop_lightgbm(rows: Rows) -> dict[str, Any]:
    import lightgbm

    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    return {"eval_X": rows[0], "eval_y": rows[1], "callbacks": [stop]}


def _as_text(features: data.Features, columns: data.Columns) -> np.ndarray:
    """Codes of labels as texts, by which CatBoost separates them from numbers."""
    matrix = features.codes(columns).astype(object)
    for index in features.unordered:
        matrix[:, index] = [str(code) for code in matrix[:, index]]
    return matrix


LIBRARIES = {
    "lightgbm": Boosting(
        "lightgbm", "LGBMClassifier", "LGBMRegressor", {"n_jobs": 1, "verbose": -1},
        unordered="cat_feature", stopping=_stop_lightgbm,
        grid={"num_leaves": (7, 31), "learning_rate": (0.03, 0.1), "min_child_samples": (5, 20)},
    ),
    "catboost": Boosting(
        "catboost", "CatBoostClassifier", "CatBoostRegressor",
        {"thread_count": 1, "verbose": False, "allow_writing_files": False},
        of_classifier={"loss_function": "MultiClass"}, unordered="cat_features", matrix=_as_text,
        trees=1000, grid={"depth": (4, 6), "learning_rate": (0.03, 0.1)},
        stopping=lambda rows: {"eval_set": rows, "early_stopping_rounds": PATIENCE},
        n_trees=lambda model: int(model.get_best_iteration()) + 1,
    ),
    "xgboost": Boosting("xgboost", "XGBClassifier", "XGBRegressor", {"n_jobs": 1, "verbosity": 0}),
}  # fmt: skip
