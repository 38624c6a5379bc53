"""Peers that predict a coded response from coded columns: linear models, forests, boosting.

Models of scikit-learn see a column of 0 and 1 for each code; boosting libraries, ridge and the
ordered probit see the codes as numbers. Nothing but the rows to fit on is seen by any of them.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam_studies.experts.table_grids import GRIDS, Grid, fit_tuned
from exfam_studies.experts.table_rules import Fitted, gaussian_bins

__all__ = [
    "fit_catboost",
    "fit_gradient_boosting",
    "fit_lightgbm",
    "fit_logistic_regression",
    "fit_mlp",
    "fit_random_forest",
    "fit_ridge",
    "fit_tuned_peer",
    "fit_xgboost",
    "one_hot",
    "spread",
]

CodedRows = Int64[np.ndarray, "rows columns"]
CodedY = Int64[np.ndarray, "rows"]
RIDGE_PENALTIES = np.logspace(-3, 4, 15)


def one_hot(
    codes: Int64[np.ndarray, "rows columns"], *, n_categories: int
) -> Float[np.ndarray, "rows features"]:
    """A column of 0 and 1 for each code of each column.

    >>> one_hot(np.array([[1, 0]]), n_categories=2)
    array([[0., 1., 1., 0.]])
    """
    return np.eye(n_categories)[codes].reshape(len(codes), -1)


def spread(
    chances: Float[np.ndarray, "rows classes"],
    classes: Int64[np.ndarray, "classes"],
    *,
    n_categories: int,
) -> Float[np.ndarray, "rows categories"]:
    """Probabilities of all categories from those of the classes that occurred in training.

    >>> spread(np.array([[0.25, 0.75]]), np.array([0, 2]), n_categories=3)
    array([[0.25, 0.  , 0.75]])
    """
    whole = np.zeros((len(chances), n_categories))
    whole[:, classes] = chances
    return whole


def fit_tuned_peer(
    train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int, grid: Grid
) -> Fitted:
    """The best of a grid by 5-fold accuracy, on one-hot features; see `fit_tuned`."""
    predict, classes, chosen = fit_tuned(
        grid, one_hot(train_x, n_categories=n_categories), train_y, seed=seed
    )

    def chances(test: CodedRows) -> Float[np.ndarray, "rows categories"]:
        found = predict(one_hot(test, n_categories=n_categories))
        return spread(found, classes, n_categories=n_categories)

    return Fitted(chances, {name: _plain(value) for name, value in chosen.items()})


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, tuple) else value


def fit_logistic_regression(
    train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int
) -> Fitted:
    """Multinomial logistic regression with scikit-learn's penalty, run until it converges."""
    from sklearn.linear_model import LogisticRegression

    return _fit_one_hot(LogisticRegression(max_iter=2000), train_x, train_y, n_categories)


def fit_random_forest(
    train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int
) -> Fitted:
    """A random forest with scikit-learn's defaults."""
    return _fit_one_hot(
        GRIDS["random-forest"].build(random_state=seed), train_x, train_y, n_categories
    )


def fit_gradient_boosting(
    train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int
) -> Fitted:
    """Boosted trees with the defaults of scikit-learn's GradientBoostingClassifier."""
    return _fit_one_hot(
        GRIDS["gradient-boosting"].build(random_state=seed), train_x, train_y, n_categories
    )


def fit_mlp(train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int) -> Fitted:
    """A perceptron of one hidden layer with scikit-learn's defaults: it stops after 200 epochs."""
    return _fit_one_hot(GRIDS["mlp"].build(random_state=seed), train_x, train_y, n_categories)


def _fit_one_hot(model: Any, train_x: CodedRows, train_y: CodedY, n_categories: int) -> Fitted:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # What the paper compares with stops after 200 epochs too.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(one_hot(train_x, n_categories=n_categories), train_y)

    def chances(test: CodedRows) -> Float[np.ndarray, "rows categories"]:
        found = model.predict_proba(one_hot(test, n_categories=n_categories))
        return spread(found, model.classes_, n_categories=n_categories)

    return Fitted(chances)


def fit_lightgbm(train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int) -> Fitted:
    """LightGBM with its defaults."""
    import lightgbm

    model = lightgbm.LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)
    return _fit_boosting(model, train_x, train_y, n_categories)


def fit_xgboost(train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int) -> Fitted:
    """XGBoost with its defaults."""
    import xgboost

    model = xgboost.XGBClassifier(random_state=seed, n_jobs=1, verbosity=0)
    return _fit_boosting(model, train_x, train_y, n_categories)


def fit_catboost(train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int) -> Fitted:
    """CatBoost with its defaults."""
    import catboost

    model = catboost.CatBoostClassifier(
        random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False,
        loss_function="MultiClass",
    )  # fmt: skip
    return _fit_boosting(model, train_x, train_y, n_categories)


def _fit_boosting(model: Any, train_x: CodedRows, train_y: CodedY, n_categories: int) -> Fitted:
    # Classes without a gap: XGBoost takes no others.
    classes, place = np.unique(train_y, return_inverse=True)
    model.fit(train_x.astype(np.float64), place)

    def chances(test: CodedRows) -> Float[np.ndarray, "rows categories"]:
        found = np.asarray(model.predict_proba(test.astype(np.float64)), dtype=np.float64)
        return spread(found, classes, n_categories=n_categories)

    return Fitted(chances)


def fit_ridge(train_x: CodedRows, train_y: CodedY, *, n_categories: int, seed: int) -> Fitted:
    """Ridge regression of the code on the codes, its penalty by leave-one-out validation.

    Probabilities are those of a normal law about the prediction, with the sd of its leave-one-out
    errors, of the intervals of half a code about each code.

    >>> x = np.arange(6).reshape(-1, 1) % 3
    >>> fitted = fit_ridge(x, x[:, 0], n_categories=3, seed=0)
    >>> fitted.predict_proba(x[:3]).argmax(axis=1)
    array([0, 1, 2])
    """
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(RIDGE_PENALTIES, store_cv_results=True)
    model.fit(train_x, train_y)
    penalty = int(np.flatnonzero(model.alpha_ == RIDGE_PENALTIES)[0])
    sd = np.sqrt(model.cv_results_[:, penalty].mean(keepdims=True))

    def chances(test: CodedRows) -> Float[np.ndarray, "rows categories"]:
        return gaussian_bins(model.predict(test), sd, np.arange(1, n_categories) - 0.5)

    return Fitted(chances, {"alpha": float(model.alpha_)})
