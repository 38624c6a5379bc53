"""Peers of scikit-learn: ridge regression, and classifiers of tables of codes, also tuned.

Classifiers see a column of 0 and 1 for each code. Tuned ones have the paper's grids and 5-fold
validation on accuracy, as GridSearchCV; but a forest or a boosted model of 50 or 100 trees is read
off the first trees of one of 200.
Source: appendix E of "Bidirectional attention as a mixture of continuous word experts".
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice, product
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam_studies.experts.tables.features import learn_features
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
N_FOLDS = 5
TREES = (50, 100, 200)


@dataclass(frozen=True, eq=False)
class Grid:
    """A model's grid: what is fitted, and how sizes below the largest are read off the fit.

    `values`: those of each hyperparameter, names sorted as in GridSearchCV, so that ties fall alike
    `sizes`: numbers of trees, the last the largest; none if models have no trees
    `stages`: probabilities of the fitted model's first 1, 2, … trees
    """

    build: Callable[..., Any]
    values: Mapping[str, Sequence[Any]]
    sizes: tuple[int, ...] = ()
    stages: Callable[[Any, np.ndarray], Iterator[np.ndarray]] | None = None

    @property
    def n_configurations(self) -> int:
        """How many configurations the grid has."""
        return math.prod(map(len, self.values.values())) * max(1, len(self.sizes))

    def fit(self, x: np.ndarray, y: np.ndarray, seed: int, settings: Mapping[str, Any]) -> Any:
        """A model of these settings, of the largest size unless they name one."""
        from sklearn.exceptions import ConvergenceWarning

        size = {"n_estimators": self.sizes[-1]} if self.sizes else {}
        with warnings.catch_warnings():
            # The paper's perceptrons stop after 200 epochs as well.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.build(**{**size, **settings}, random_state=seed).fit(x, y)


def tune(grid: Grid, x: np.ndarray, y: np.ndarray, *, seed: int) -> tuple[Any, dict[str, Any]]:
    """The configuration of highest accuracy over the folds, fitted on all rows, and what it is."""
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(N_FOLDS).split(x, y))
    tried: list[tuple[float, dict[str, Any]]] = []
    for values in product(*grid.values.values()):
        settings = dict(zip(grid.values, values, strict=True))
        right = []
        for fit, held_out in folds:
            model = grid.fit(x[fit], y[fit], seed, settings)
            right.append(_accuracies(model, grid, x[held_out], y[held_out]))
        sizes = [{"n_estimators": size} for size in grid.sizes] or [{}]
        for size, accuracy in zip(sizes, np.mean(right, axis=0), strict=True):
            tried.append((accuracy, {**settings, **size}))
    _, chosen = max(tried, key=lambda trial: trial[0])  # the first of equals
    return grid.fit(x, y, seed, chosen), chosen


def _accuracies(model: Any, grid: Grid, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Share of right predictions, of each size of the model."""
    if grid.stages is None:
        return [float(np.mean(model.predict(x) == y))]
    return [
        float(np.mean(model.classes_[np.argmax(chances, axis=1)] == y))
        for size, chances in enumerate(islice(grid.stages(model, x), grid.sizes[-1]), start=1)
        if size in grid.sizes
    ]


def _forest_stages(model: Any, x: np.ndarray) -> Iterator[np.ndarray]:
    """A forest's votes are the mean over trees, and tree k does not know how many follow."""
    x = x.astype(np.float32)
    total = np.zeros((len(x), len(model.classes_)))
    for count, tree in enumerate(model.estimators_, start=1):
        total = total + tree.predict_proba(x)
        yield total / count


def _sklearn(module: str, name: str, **settings: Any) -> Any:
    return getattr(import_module(f"sklearn.{module}"), name)(**settings)


GRIDS = {
    "random-forest": Grid(
        partial(_sklearn, "ensemble", "RandomForestClassifier"),
        {"criterion": ("gini", "entropy"), "max_depth": (1, 3, None)},
        sizes=TREES,
        stages=_forest_stages,
    ),
    "gradient-boosting": Grid(
        partial(_sklearn, "ensemble", "GradientBoostingClassifier"),
        {"learning_rate": (0.01, 0.1, 1.0), "max_depth": (1, 3, 5)},
        sizes=TREES,
        stages=lambda model, x: iter(model.staged_predict_proba(x)),
    ),
    # The paper's grid also has learning_rate "constant" and "adaptive", which only the solver "sgd"
    # knows: with the default, adam, both are the same fit.
    "mlp": Grid(
        partial(_sklearn, "neural_network", "MLPClassifier"),
        {"alpha": (1e-4, 1e-3, 1e-2), "hidden_layer_sizes": ((50,), (100,), (100, 50))},
    ),
}
# With scikit-learn's defaults; logistic regression is run until it converges.
_UNTUNED = {
    "logistic-regression": Grid(
        partial(_sklearn, "linear_model", "LogisticRegression", max_iter=2000), {}
    ),
    **{name: Grid(grid.build, {}) for name, grid in GRIDS.items()},
}


def one_hot(table: TableShift) -> Callable[[Columns], Float[np.ndarray, "rows features"]]:
    """A column of 0 and 1 for each code of each column of a table of codes."""
    codes, eye = learn_features(table).codes, np.eye(len(y_levels(table)))

    def matrix(columns: Columns) -> Float[np.ndarray, "rows features"]:
        numbers = codes(columns).astype(np.int64)
        return eye[numbers].reshape(len(numbers), -1)

    return matrix


def fit_one_hot(table: TableShift, *, seed: int, model: str, tuned: bool = False) -> Fitted:
    """A classifier of a table of codes, with its library's settings or the best of its grid."""
    matrix, levels = one_hot(table), y_levels(table)
    x, y, chosen = matrix(table.train), y_codes(table.train_y, levels), dict[str, Any]()
    if tuned:
        fitted, chosen = tune(GRIDS[model], x, y, seed=seed)
    else:
        fitted = _UNTUNED[model].fit(x, y, seed, {})

    def predict(columns: Columns) -> Predicted:
        chances = fitted.predict_proba(matrix(columns))
        return Predicted(chances=spread(chances, fitted.classes_, n_levels=len(levels)))

    plain = {name: str(v) if isinstance(v, tuple) else v for name, v in chosen.items()}
    return Fitted(predict, plain)


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
    return Fitted(
        lambda columns: normal_prediction(model.predict(matrix(columns)), sd, table),
        {"alpha": float(model.alpha_)},
    )
