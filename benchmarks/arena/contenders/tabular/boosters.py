"""Boosted trees of four packages, as many as held-out rows want."""

from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.kind import Contender
from benchmarks.arena.tabular.choosing import Learned, Learning, fitting
from benchmarks.arena.tabular.coding import learn_coder
from benchmarks.arena.tabular.data import Rows

MOST_TREES, PATIENCE = 1_500, 30
RATE = 0.06
# Cells with texts beyond which CatBoost does without combinations of text columns.
MANY_TEXTS = 45_000
# What a probability is at least before its logarithm.
_LEAST = 1e-12


def learn_lightgbm(rows: Rows, given: Learning) -> Learned:
    import lightgbm

    coder = learn_coder(rows.cells)
    is_binary = given.n_labels == 2
    objective = "regression" if given.n_labels is None else "binary" if is_binary else "multiclass"
    parameters: dict[str, Any] = {
        **given.settings,
        "objective": objective,
        "learning_rate": RATE,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": given.seed,
        "deterministic": True,
        "num_threads": 1,
        "verbose": -1,
    }
    if objective == "multiclass":
        parameters["num_class"] = given.n_labels
    texts = coder.places(rows.cells)
    own = lightgbm.Dataset(coder.codes(rows.cells), rows.response, categorical_feature=texts)
    sets, callbacks = [], []
    if given.held_out is not None:
        held_out = coder.codes(given.held_out.cells), given.held_out.response
        sets = [own.create_valid(*held_out)]
        callbacks = [lightgbm.early_stopping(PATIENCE, verbose=False)]
    n_trees = given.size or most_trees(given)
    booster = lightgbm.train(parameters, own, n_trees, valid_sets=sets, callbacks=callbacks)

    def outputs(cells: pd.DataFrame) -> np.ndarray:
        raw = booster.predict(coder.codes(cells), raw_score=True)
        return _of_margins(np.asarray(raw), given)

    return Learned(outputs, booster.best_iteration or n_trees)


def learn_xgboost(rows: Rows, given: Learning) -> Learned:
    import xgboost

    coder = learn_coder(rows.cells)
    types = ["c" if name in coder.texts else "q" for name in rows.cells.columns]

    def matrix(cells: pd.DataFrame, response: np.ndarray | None = None) -> Any:
        codes = coder.codes(cells)
        return xgboost.DMatrix(codes, response, feature_types=types, enable_categorical=True)

    objective = {None: "reg:squarederror", 2: "binary:logistic"}.get(
        given.n_labels, "multi:softprob"
    )
    parameters: dict[str, Any] = {
        **given.settings,
        "objective": objective,
        "eta": RATE,
        "subsample": 0.8,
        "tree_method": "hist",
        "nthread": 1,
        "seed": given.seed,
    }
    if objective == "multi:softprob":
        parameters["num_class"] = given.n_labels
    options: dict[str, Any] = {"verbose_eval": False}
    if given.held_out is not None:
        held_out = matrix(given.held_out.cells, given.held_out.response)
        options |= {"evals": [(held_out, "held_out")], "early_stopping_rounds": PATIENCE}
    n_trees = given.size or most_trees(given)
    booster = xgboost.train(parameters, matrix(rows.cells, rows.response), n_trees, **options)
    size = n_trees if given.held_out is None else booster.best_iteration + 1

    def outputs(cells: pd.DataFrame) -> np.ndarray:
        raw = booster.predict(matrix(cells), output_margin=True, iteration_range=(0, size))
        return _of_margins(raw.astype(np.float64), given)

    return Learned(outputs, size)


def learn_catboost(rows: Rows, given: Learning) -> Learned:
    return _catboost(rows, given, _CATBOOST_LOSS.get(given.n_labels, "MultiClass"))


def learn_catboost_normal(rows: Rows, given: Learning) -> Learned:
    """Location and logarithm of the spread of a normal distribution."""
    return _catboost(rows, given, "RMSEWithUncertainty")


def _catboost(rows: Rows, given: Learning, loss: str) -> Learned:
    import catboost

    texts = learn_coder(rows.cells).texts
    places = [index for index, name in enumerate(rows.cells.columns) if name in texts]

    def pool(cells: pd.DataFrame, response: np.ndarray | None = None) -> Any:
        columns = {name: cells[name].astype(object).fillna("missing") for name in texts}
        return catboost.Pool(cells.assign(**columns), response, cat_features=places)

    many = len(rows) * len(texts) > MANY_TEXTS
    build = catboost.CatBoostRegressor if given.n_labels is None else catboost.CatBoostClassifier
    model = build(
        **given.settings,
        iterations=given.size or most_trees(given),
        learning_rate=RATE,
        loss_function=loss,
        max_ctr_complexity=1 if many else None,
        random_seed=given.seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    options: dict[str, Any] = {}
    if given.held_out is not None:
        held_out = pool(given.held_out.cells, given.held_out.response)
        options = {"eval_set": held_out, "early_stopping_rounds": PATIENCE}
    model.fit(pool(rows.cells, rows.response), **options)

    def outputs(cells: pd.DataFrame) -> np.ndarray:
        raw = model.predict(pool(cells), prediction_type="RawFormulaVal", thread_count=1)
        return _of_margins(np.asarray(raw, dtype=np.float64), given)

    return Learned(outputs, model.tree_count_)


def learn_histograms(rows: Rows, given: Learning) -> Learned:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    coder = learn_coder(rows.cells)
    is_number = given.n_labels is None
    build = HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier
    model = build(
        **given.settings,
        learning_rate=RATE,
        max_iter=given.size or most_trees(given),
        categorical_features=coder.places(rows.cells) or None,
        early_stopping=given.held_out is not None,
        n_iter_no_change=PATIENCE,
        tol=0.0,
        random_state=given.seed,
    )
    options: dict[str, Any] = {}
    if given.held_out is not None:
        held_out = given.held_out
        options = {"X_val": coder.codes(held_out.cells), "y_val": held_out.response}
    model.fit(coder.codes(rows.cells), rows.response, **options)

    def outputs(cells: pd.DataFrame) -> np.ndarray:
        codes = coder.codes(cells)
        if is_number:
            return model.predict(codes)
        return np.log(np.maximum(model.predict_proba(codes), _LEAST))

    return Learned(outputs, model.n_iter_)


def most_trees(given: Learning) -> int:
    """Fewer rounds where each has a tree for every label."""
    return MOST_TREES if (given.n_labels or 0) <= 2 else max(100, MOST_TREES * 3 // given.n_labels)


def _of_margins(raw: np.ndarray, given: Learning) -> np.ndarray:
    """Margins of two labels as those of each."""
    return np.stack([np.zeros_like(raw), raw], axis=1) if given.n_labels == 2 else raw


def _with_labels(data: Any) -> str | None:
    """Why the data cannot have a spread, if so."""
    return None if data.labels is None else "labels have no spread"


_CATBOOST_LOSS = {None: "RMSE", 2: "Logloss"}
LIGHTGBM = (
    {"num_leaves": 7, "min_data_in_leaf": 10, "feature_fraction": 0.8},
    {"num_leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 0.8},
    {"num_leaves": 15, "min_data_in_leaf": 5, "feature_fraction": 0.5, "lambda_l2": 5.0},
)
XGBOOST = (
    {"max_depth": 3, "min_child_weight": 2, "colsample_bytree": 0.8},
    {"max_depth": 6, "min_child_weight": 5, "colsample_bytree": 0.8},
    {"max_depth": 4, "min_child_weight": 2, "colsample_bytree": 0.5, "lambda": 5.0},
)
CATBOOST = ({"depth": 4}, {"depth": 6}, {"depth": 6, "l2_leaf_reg": 10.0})
HISTOGRAMS = (
    {"max_leaf_nodes": 8, "min_samples_leaf": 10},
    {"max_leaf_nodes": 31, "min_samples_leaf": 20},
    {"max_leaf_nodes": 15, "min_samples_leaf": 5, "l2_regularization": 5.0, "max_features": 0.5},
)
CONTENDERS = {
    "lightgbm": Contender(
        label="LightGBM", fit=fitting(learn_lightgbm, LIGHTGBM), is_random=True, needs="lightgbm"
    ),
    "xgboost": Contender(
        label="XGBoost", fit=fitting(learn_xgboost, XGBOOST), is_random=True, needs="xgboost"
    ),
    "catboost": Contender(
        label="CatBoost", fit=fitting(learn_catboost, CATBOOST), is_random=True, needs="catboost"
    ),
    "catboost-normal": Contender(
        label="CatBoost with spread",
        fit=fitting(learn_catboost_normal, CATBOOST),
        is_random=True,
        needs="catboost",
        unsuited=_with_labels,
    ),
    "histogram-trees": Contender(
        label="HistGradientBoosting", fit=fitting(learn_histograms, HISTOGRAMS), is_random=True
    ),
}
