"""Random forests, which take missing cells as they are, and networks, which get their means."""

import warnings
from typing import Any

import numpy as np
from benchmarks.arena.kind import Contender
from benchmarks.arena.tabular.choosing import Learned, Learning, fitting
from benchmarks.arena.tabular.coding import learn_coder, learn_features
from benchmarks.arena.tabular.data import Rows

N_TREES, MOST_EPOCHS, PATIENCE = 200, 150, 12
FORESTS: tuple[dict[str, Any], ...] = (
    {"min_samples_leaf": 2, "max_features": 0.4},
    {"min_samples_leaf": 5, "max_features": 0.4},
    {"min_samples_leaf": 1, "max_features": "sqrt"},
)
NETWORKS: tuple[dict[str, Any], ...] = (
    {"hidden_layer_sizes": (64, 64), "alpha": 0.1},
    {"hidden_layer_sizes": (128, 64), "alpha": 1e-3},
    {"hidden_layer_sizes": (32,), "alpha": 1.0},
)
# What a probability is at least before its logarithm.
_LEAST = 1e-4


def learn_forest(rows: Rows, given: Learning) -> Learned:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    coder = learn_coder(rows.cells)
    build = RandomForestRegressor if given.n_labels is None else RandomForestClassifier
    model = build(N_TREES, **given.settings, random_state=given.seed, n_jobs=1)
    model.fit(coder.codes(rows.cells), rows.response)
    return Learned(lambda cells: _outputs(model, coder.codes(cells), given))


def learn_network(rows: Rows, given: Learning) -> Learned:
    """Adam, stopped by a tenth of the rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    features = learn_features(rows.cells)
    build = MLPRegressor if given.n_labels is None else MLPClassifier
    model = build(
        **given.settings,
        learning_rate_init=2e-3,
        batch_size=min(128, max(16, len(rows) // 20)),
        max_iter=MOST_EPOCHS,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        tol=0.0,
        random_state=given.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features.matrix(rows.cells), rows.response)
    return Learned(lambda cells: _outputs(model, features.matrix(cells), given))


def _outputs(model: Any, x: np.ndarray, given: Learning) -> np.ndarray:
    if given.n_labels is None:
        return model.predict(x)
    return np.log(np.maximum(model.predict_proba(x), _LEAST))


CONTENDERS = {
    "random-forest": Contender(
        label="random forest", fit=fitting(learn_forest, FORESTS), is_random=True
    ),
    "network": Contender(
        label="MLP (scikit-learn)", fit=fitting(learn_network, NETWORKS), is_random=True
    ),
}
