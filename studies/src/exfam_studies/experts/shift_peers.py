"""Peers on tables with a natural shift: ridge, and boosted trees that a validation part tuned.

Boosted trees are fitted to four fifths of the training rows with all settings of a small grid, each
stopped early on the other fifth, then to all of them with the settings and number of trees that did
best there. No row to report on
is seen. Where a normal law is predicted, its sd is that of errors on the rows held out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64, Shaped

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_features import Features, learn_features
from exfam_studies.experts.table_peers import RIDGE_PENALTIES, spread
from exfam_studies.experts.table_rules import figures_of, gaussian_bins, mean_nats

__all__ = [
    "CATBOOST",
    "LIGHTGBM",
    "Boosting",
    "Predicted",
    "ShiftContender",
    "ShiftFitted",
    "ShiftPeer",
    "fit_shift_boosting",
    "fit_shift_ridge",
    "hold_out",
    "normal_law",
    "shift_figures",
    "shift_peers",
    "y_chances",
    "y_codes",
    "y_levels",
    "y_numbers",
]

Columns = Mapping[str, Shaped[np.ndarray, "rows"]]
HELD_OUT = 0.2
PATIENCE = 30
MOST_TREES = 600
# Of a uniform law in the nats that settings are chosen by, so that none is infinite.
MIXED_IN = 1e-6


@dataclass(frozen=True, eq=False)
class Predicted:
    """What is predicted of rows: chances of all levels of y, or the mean and sd of a normal law.

    `log_prob`: of a number, where its law is no normal one of one `sd`; in nats

    >>> Predicted(mean=np.zeros(1), sd=2.0).sd
    2.0
    """

    chances: Float[np.ndarray, "rows levels"] | None = None
    mean: Float[np.ndarray, "rows"] | None = None
    sd: float | None = None
    log_prob: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class ShiftFitted:
    """A fitted peer: predictions of rows, and what was chosen by validation.

    >>> ShiftFitted(lambda rows: Predicted(mean=rows["x"], sd=1.0)).predict({"x": np.ones(1)}).mean
    array([1.])
    """

    predict: Callable[[Columns], Predicted]
    chosen: Mapping[str, float | int | str] = field(default_factory=dict)


@runtime_checkable
class ShiftPeer(Protocol):
    """Fits a peer to the training rows of a table."""

    def __call__(self, shift: TableShift, *, seed: int) -> ShiftFitted:
        """The peer, fitted."""
        ...


def y_levels(shift: TableShift) -> list[Any]:
    """The levels of y in order: those fixed beforehand, else those of the training rows."""
    fixed = shift.levels.get("y")
    return list(np.unique(shift.train_y)) if fixed is None else list(fixed)


def y_codes(y: Shaped[np.ndarray, "rows"], levels: Sequence[Any]) -> Int64[np.ndarray, "rows"]:
    """The place of each value among the levels.

    >>> y_codes(np.array([5, 3]), [3, 4, 5])
    array([2, 0])
    """
    place = {level: code for code, level in enumerate(levels)}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)


def shift_figures(
    predicted: Predicted, y: Shaped[np.ndarray, "rows"], *, shift: TableShift
) -> dict[str, float | None]:
    """Figures of predictions: those of `figures_of`, or "mse", "r2" and "nats" of a number.

    "r2" is against the mean of the rows reported on; nats are exact, in the unit of y.
    """
    if predicted.chances is not None:
        return figures_of(predicted.chances, y_codes(y, y_levels(shift)))
    assert predicted.mean is not None and predicted.sd is not None
    error = predicted.mean - y
    mse = float(np.mean(error**2))
    nats = 0.5 * mse / predicted.sd**2 + float(np.log(predicted.sd)) + 0.5 * np.log(2 * np.pi)
    return {"mse": mse, "r2": 1 - mse / float(np.var(y)), "nats": float(nats)}


def fit_shift_ridge(shift: TableShift, *, seed: int) -> ShiftFitted:
    """Ridge regression of y, or of its code, on standardized numbers and labels as 0 and 1.

    Its penalty, and the sd of its normal law, are those of leave-one-out errors.
    """
    from sklearn.linear_model import RidgeCV

    features = learn_features(shift.train, shift.kinds)
    y = y_numbers(shift)
    model = RidgeCV(RIDGE_PENALTIES, store_cv_results=True)
    model.fit(features.design(shift.train), y)
    place = int(np.flatnonzero(model.alpha_ == RIDGE_PENALTIES)[0])
    sd = float(np.sqrt(model.cv_results_[:, place].mean()))

    def predict(columns: Columns) -> Predicted:
        return normal_law(model.predict(features.design(columns)), sd, shift)

    return ShiftFitted(predict, {"alpha": float(model.alpha_)})


def y_numbers(shift: TableShift) -> Float[np.ndarray, "rows"]:
    """y as a number to regress on."""
    if shift.task == "regression":
        return shift.train_y.astype(np.float64)
    return y_codes(shift.train_y, y_levels(shift)).astype(np.float64)


def normal_law(mean: Float[np.ndarray, "rows"], sd: float, shift: TableShift) -> Predicted:
    """A normal law of y, or of levels the chances it has of what lies nearest to each code."""
    if shift.task == "regression":
        return Predicted(mean=mean, sd=sd)
    edges = np.arange(1, len(y_levels(shift))) - 0.5
    return Predicted(chances=gaussian_bins(mean, np.array([sd]), edges))


Matrix = np.ndarray
# Rows of a matrix, and their y.
Rows = tuple[np.ndarray, np.ndarray]


@runtime_checkable
class _Fit(Protocol):
    """Fits boosted trees to rows; `stop_on`: rows on which to stop early, None for all trees."""

    def __call__(
        self,
        rows: Rows,
        stop_on: Rows | None,
        *,
        settings: Mapping[str, Any],
        classes: bool,
        unordered: Sequence[int],
        seed: int,
    ) -> Any:
        """The fitted model."""
        ...


@dataclass(frozen=True, eq=False)
class Boosting:
    """A boosting library: its fit, the matrix it takes of features, its grid.

    `n_trees`: how many trees a model that was stopped early is best with

    >>> list(LIGHTGBM.grid)
    ['num_leaves', 'learning_rate', 'min_child_samples']
    """

    fit: _Fit
    matrix: Callable[[Features, Columns], Matrix]
    grid: Mapping[str, Sequence[Any]]
    n_trees: Callable[[Any], int]


def fit_shift_boosting(
    shift: TableShift, *, seed: int, library: Boosting, classes: bool, copies: int = 1
) -> ShiftFitted:
    """A boosting library with the settings that did best on held-out training rows.

    `classes`: predict chances of levels; else a number, or of levels a normal law of their codes
    `copies`: how many times all training rows come, one time after another: those of one row are
        held out together (default 1)
    """
    features = learn_features(shift.train, shift.kinds)
    x, y = library.matrix(features, shift.train), y_numbers(shift)
    y = y.astype(np.int64) if classes else y
    told: dict[str, Any] = {"classes": classes, "unordered": features.unordered, "seed": seed}
    fit_on, stop_on = hold_out(x, y, classes=classes, seed=seed, copies=copies)
    tried: list[tuple[float, dict[str, Any]]] = []
    for values in product(*library.grid.values()):
        settings = dict(zip(library.grid, values, strict=True))
        model = library.fit(fit_on, stop_on, settings={**settings, "trees": MOST_TREES}, **told)
        settings["trees"] = max(1, library.n_trees(model))
        tried.append((_loss(model, *stop_on, classes=classes), settings))
    loss, chosen = min(tried, key=lambda each: each[0])
    final = library.fit((x, y), None, settings=chosen, **told)

    def predict(columns: Columns) -> Predicted:
        matrix = library.matrix(features, columns)
        if classes:
            return Predicted(chances=y_chances(final, matrix, len(y_levels(shift))))
        mean = np.asarray(final.predict(matrix), dtype=np.float64)
        return normal_law(mean, float(np.sqrt(loss)), shift)

    return ShiftFitted(predict, chosen)


def hold_out(
    x: np.ndarray, y: np.ndarray, *, classes: bool, seed: int, copies: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on, and rows to stop on, of which none has a class that the others lack."""
    held_out = np.tile(np.random.default_rng(seed).random(len(y) // copies) < HELD_OUT, copies)
    stop = held_out & np.isin(y, y[~held_out]) if classes else held_out
    return (x[~held_out], y[~held_out]), (x[stop], y[stop])


def y_chances(model: Any, matrix: np.ndarray, n_levels: int) -> Float[np.ndarray, "rows levels"]:
    """Chances of all levels by a fitted classifier of their codes."""
    found = np.asarray(model.predict_proba(matrix), dtype=np.float64)
    classes = np.asarray(model.classes_).astype(np.int64).ravel()
    return spread(found, classes, n_categories=n_levels)


def _loss(model: Any, x: Matrix, y: Shaped[np.ndarray, "rows"], *, classes: bool) -> float:
    """Nats of chances, or the squared error of numbers."""
    if not classes:
        return float(np.mean((np.asarray(model.predict(x)) - y) ** 2))
    n_levels = 1 + int(np.max(model.classes_))
    return mean_nats(y_chances(model, x, n_levels), y, mixed_in=MIXED_IN)


def _fit_lightgbm(
    rows: Rows,
    stop_on: Rows | None,
    *,
    settings: Mapping[str, Any],
    classes: bool,
    unordered: Sequence[int],
    seed: int,
) -> Any:
    import lightgbm

    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    rest = {name: value for name, value in settings.items() if name != "trees"}
    model = kind(
        n_estimators=settings["trees"], random_state=seed, n_jobs=1, verbose=-1,
        cat_feature=list(unordered), **rest,
    )  # fmt: skip
    if stop_on is None:
        return model.fit(*rows)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    # LightGBM codes the labels of rows to fit on, but not those of `eval_y`.
    stop_y = np.searchsorted(np.unique(rows[1]), stop_on[1]) if classes else stop_on[1]
    return model.fit(*rows, eval_X=stop_on[0], eval_y=stop_y, callbacks=[stop])


def _fit_catboost(
    rows: Rows,
    stop_on: Rows | None,
    *,
    settings: Mapping[str, Any],
    classes: bool,
    unordered: Sequence[int],
    seed: int,
) -> Any:
    import catboost

    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    rest = {name: value for name, value in settings.items() if name != "trees"}
    model = kind(
        iterations=settings["trees"], random_seed=seed, thread_count=1, verbose=False,
        allow_writing_files=False, cat_features=list(unordered),
        loss_function="MultiClass" if classes else "RMSE", **rest,
    )  # fmt: skip
    if stop_on is None:
        return model.fit(*rows)
    return model.fit(*rows, eval_set=stop_on, early_stopping_rounds=PATIENCE)


def _as_text(features: Features, columns: Columns) -> Matrix:
    """Codes of labels as texts, which is how CatBoost knows them from numbers."""
    matrix = features.codes(columns).astype(object)
    for place in features.unordered:
        matrix[:, place] = [str(code) for code in matrix[:, place]]
    return matrix


LIGHTGBM = Boosting(
    _fit_lightgbm,
    Features.codes,
    {"num_leaves": (7, 31), "learning_rate": (0.03, 0.1), "min_child_samples": (5, 20)},
    n_trees=lambda model: int(model.best_iteration_),
)
CATBOOST = Boosting(
    _fit_catboost,
    _as_text,
    {"depth": (4, 6), "learning_rate": (0.03, 0.1)},
    n_trees=lambda model: int(model.get_best_iteration()) + 1,
)


@dataclass(frozen=True, eq=False)
class ShiftContender:
    """A peer of tables with a natural shift, and the package it needs if any.

    `n_configurations`: how many were tried by validation, in each fit

    >>> ShiftContender(fit_shift_ridge).package is None
    True
    """

    fit: ShiftPeer
    package: str | None = None
    n_configurations: int | None = None


def shift_peers(task: str) -> dict[str, ShiftContender]:
    """The peers for a task, by name; of levels in order also those that regress on their codes.

    >>> list(shift_peers("ordinal"))
    ['ridge', 'lightgbm', 'lightgbm-regression', 'catboost', 'catboost-regression']
    """
    peers = {"ridge": ShiftContender(fit_shift_ridge)}
    for name, library in (("lightgbm", LIGHTGBM), ("catboost", CATBOOST)):
        n = int(np.prod([len(values) for values in library.grid.values()]))
        kinds = {name: task != "regression"}
        if task == "ordinal":
            kinds[f"{name}-regression"] = False
        for model, classes in kinds.items():
            fit = partial(fit_shift_boosting, library=library, classes=classes)
            peers[model] = ShiftContender(fit, package=name, n_configurations=n)
    return peers
