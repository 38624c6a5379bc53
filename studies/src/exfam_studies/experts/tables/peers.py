"""Peers of scikit-learn: ridge regression, and classifiers of tables of codes.

Classifiers see a column of 0 and 1 for each code. Nothing but the training rows is seen by any.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam_studies.experts.tables.features import learn_features
from exfam_studies.experts.tables.grids import GRIDS, fit_tuned
from exfam_studies.experts.tables.predictions import (
    Columns,
    Fitted,
    Predicted,
    normal_prediction,
    spread,
    y_codes,
    y_levels,
    y_numbers,
)
from exfam_studies.experts.tables.public import TableShift

RIDGE_PENALTIES = np.logspace(-3, 4, 15)


def one_hot(table: TableShift) -> Callable[[Columns], Float[np.ndarray, "rows features"]]:
    """A column of 0 and 1 for each code of each column of a table of codes."""
    codes, eye = learn_features(table).codes, np.eye(len(y_levels(table)))

    def matrix(columns: Columns) -> Float[np.ndarray, "rows features"]:
        numbers = codes(columns).astype(np.int64)
        return eye[numbers].reshape(len(numbers), -1)

    return matrix


def fit_one_hot(table: TableShift, *, seed: int, model: str) -> Fitted:
    """A classifier with scikit-learn's defaults: logistic regression, or one of GRIDS untuned."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    # Logistic regression is run until it converges; a perceptron stops after 200 epochs.
    build = GRIDS[model].build if model in GRIDS else partial(LogisticRegression, max_iter=2000)
    matrix, y = one_hot(table), y_codes(table.train_y, y_levels(table))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = build(random_state=seed).fit(matrix(table.train), y)
    return Fitted(partial(_predict, fitted, matrix, len(y_levels(table))))


def fit_tuned_peer(table: TableShift, *, seed: int, model: str) -> Fitted:
    """The best configuration of one of GRIDS by 5-fold accuracy; see `fit_tuned`."""
    matrix, y = one_hot(table), y_codes(table.train_y, y_levels(table))
    fitted, chosen = fit_tuned(GRIDS[model], matrix(table.train), y, seed=seed)
    plain = {name: str(v) if isinstance(v, tuple) else v for name, v in chosen.items()}
    return Fitted(partial(_predict, fitted, matrix, len(y_levels(table))), plain)


def _predict(model: Any, matrix: Any, n_levels: int, columns: Columns) -> Predicted:
    chances = model.predict_proba(matrix(columns))
    return Predicted(chances=spread(chances, model.classes_, n_levels=n_levels))


def fit_ridge(table: TableShift, *, seed: int, standardized: bool = True) -> Fitted:
    """Ridge regression of y, or of its code; its penalty and sd are those of leave-one-out errors.

    `standardized`: on standardized numbers and labels as 0 and 1; else on numbers as they are
    """
    from sklearn.linear_model import RidgeCV

    features = learn_features(table)
    matrix = features.design if standardized else features.codes
    model = RidgeCV(RIDGE_PENALTIES, store_cv_results=True)
    model.fit(matrix(table.train), y_numbers(table))
    index = int(np.flatnonzero(model.alpha_ == RIDGE_PENALTIES)[0])
    sd = float(np.sqrt(model.cv_results_[:, index].mean()))

    def predict(columns: Columns) -> Predicted:
        return normal_prediction(model.predict(matrix(columns)), sd, table)

    return Fitted(predict, {"alpha": float(model.alpha_)})
