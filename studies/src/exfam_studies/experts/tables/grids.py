"""The paper's tuned baselines: grids of scikit-learn models, 5-fold validation on accuracy.

Which model is chosen, and what it predicts, is what GridSearchCV finds on the same grid; but a
forest or a boosted model of 50 or 100 trees is read off the first trees of one of 200.
Source: appendix E of "Bidirectional attention as a mixture of continuous word experts".
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice, product
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

N_FOLDS = 5
Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Grid:
    """A model's grid: what is fitted, and how sizes below the largest are read off the fit.

    `values`: those of each hyperparameter, names sorted as in GridSearchCV, so that ties fall alike
    `sizes`: numbers of trees, the last the largest; none if models have no trees
    `stages`: probabilities of the fitted model's first 1, 2, … trees

    >>> {name: grid.n_configurations for name, grid in GRIDS.items()}
    {'random-forest': 18, 'gradient-boosting': 27, 'mlp': 9}
    """

    build: Callable[..., Any]
    values: Mapping[str, Sequence[Any]]
    sizes: tuple[int, ...] = ()
    stages: Callable[[Any, np.ndarray], Iterator[np.ndarray]] | None = None

    @property
    def n_configurations(self) -> int:
        """How many configurations the grid has."""
        return int(np.prod([len(v) for v in self.values.values()])) * max(1, len(self.sizes))


def fit_tuned(
    grid: Grid,
    train: Float[np.ndarray, "rows features"],
    train_y: Int64[np.ndarray, "rows"],
    *,
    seed: int,
) -> tuple[Any, dict[str, Any]]:
    """The configuration of highest accuracy over the folds, fitted on all rows, and what it is."""
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(N_FOLDS).split(train, train_y))
    accuracies: dict[tuple[Any, ...], float] = {}
    for values in product(*grid.values.values()):
        settings = dict(zip(grid.values, values, strict=True))
        right = []
        for fit, held_out in folds:
            model = _fit(grid, settings, train[fit], train_y[fit], seed)
            right.append(_accuracies(model, grid, train[held_out], train_y[held_out]))
        for size, accuracy in zip(grid.sizes or (0,), np.mean(right, axis=0), strict=True):
            accuracies[*values, size] = accuracy
    best = max(accuracies, key=lambda key: accuracies[key])  # the first of equals
    chosen, size = dict(zip(grid.values, best[:-1], strict=True)), best[-1]
    model = _fit(grid, chosen, train, train_y, seed, n_trees=size)
    return model, chosen | ({"n_estimators": size} if grid.sizes else {})


def _fit(
    grid: Grid, settings: Settings, x: np.ndarray, y: np.ndarray, seed: int, n_trees: int = 0
) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    trees = {"n_estimators": n_trees or grid.sizes[-1]} if grid.sizes else {}
    model = grid.build(**settings, **trees, random_state=seed)
    with warnings.catch_warnings():
        # The paper's perceptrons stop after 200 epochs as well.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, y)


def _accuracies(model: Any, grid: Grid, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Share of right predictions, of each size of the model."""
    if grid.stages is None:
        return [float(np.mean(model.predict(x) == y))]
    largest = grid.sizes[-1]
    return [
        float(np.mean(model.classes_[np.argmax(chances, axis=1)] == y))
        for size, chances in enumerate(islice(grid.stages(model, x), largest), start=1)
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


TREES = (50, 100, 200)
FOREST = Grid(
    partial(_sklearn, "ensemble", "RandomForestClassifier"),
    {"criterion": ("gini", "entropy"), "max_depth": (1, 3, None)},
    sizes=TREES,
    stages=_forest_stages,
)
BOOSTING = Grid(
    partial(_sklearn, "ensemble", "GradientBoostingClassifier"),
    {"learning_rate": (0.01, 0.1, 1.0), "max_depth": (1, 3, 5)},
    sizes=TREES,
    stages=lambda model, x: iter(model.staged_predict_proba(x)),
)
# The paper's grid also has learning_rate "constant" and "adaptive", which only the solver "sgd"
# knows: with the default, adam, both are the same fit.
PERCEPTRON = Grid(
    partial(_sklearn, "neural_network", "MLPClassifier"),
    {"alpha": (1e-4, 1e-3, 1e-2), "hidden_layer_sizes": ((50,), (100,), (100, 50))},
)
GRIDS = {"random-forest": FOREST, "gradient-boosting": BOOSTING, "mlp": PERCEPTRON}
