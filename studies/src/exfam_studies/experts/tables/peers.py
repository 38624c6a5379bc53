"""Peers: ridge regression, ordered probit, and classifiers of tables of codes, also tuned.

Source: appendix E of "Bidirectional attention as a mixture of continuous word experts".
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.optimize import minimize
from scipy.special import ndtri
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from torch import Tensor
from torch.nn import functional

from exfam.families import Categorical
from exfam.layers import lend_generator
from exfam.tables.data import Column, TableSchema
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.batch import MASKED, CellBatch
from exfam.tables.networks.deep import DeepTableNetwork
from exfam.tables.networks.parts import TableSettings
from exfam_studies.experts.tables import fits
from exfam_studies.experts.tables.data import Columns, TableShift, learn_features, with_dropped

Numbers = Float[np.ndarray, "parameters"]

RIDGE_PENALTIES = np.logspace(-3, 4, 15)
N_FOLDS = 5
# Of cuts that fall together, where a code never occurs in training.
SMALLEST_LOG_STEP = -12.0
# Below the smallest normal number, for the logarithm of what underflows.
TINY = 1e-300


# With scikit-learn's defaults; logistic regression is run until it converges.
CLASSIFIERS: Mapping[str, Callable[..., Any]] = {
    "logistic-regression": partial(LogisticRegression, max_iter=2000),
    "random-forest": RandomForestClassifier,
    "gradient-boosting": GradientBoostingClassifier,
    "mlp": MLPClassifier,
}
_TREES = (50, 100, 200)
GRIDS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "random-forest": {
        "criterion": ("gini", "entropy"), "max_depth": (1, 3, None), "n_estimators": _TREES,
    },
    "gradient-boosting": {
        "learning_rate": (0.01, 0.1, 1.0), "max_depth": (1, 3, 5), "n_estimators": _TREES,
    },
    # The paper's grid also has learning_rate "constant" and "adaptive", which only the solver "sgd"
    # knows: with the default, adam, both are the same fit.
    "mlp": {"alpha": (1e-4, 1e-3, 1e-2), "hidden_layer_sizes": ((50,), (100,), (100, 50))},
}  # fmt: skip


def fit_one_hot(table: TableShift, *, seed: int, model: str, tuned: bool = False) -> fits.Fitted:
    """A classifier of a table of codes, with its library's settings or the best of its grid."""
    codes, n_levels = learn_features(table).codes, len(table.y_levels)
    eye = np.eye(n_levels)

    def matrix(columns: Columns) -> Float[np.ndarray, "rows features"]:
        numbers = codes(columns).astype(np.int64)
        return eye[numbers].reshape(len(numbers), -1)

    classifier = CLASSIFIERS[model](random_state=seed)
    if tuned:
        classifier = GridSearchCV(classifier, GRIDS[model], cv=N_FOLDS, scoring="accuracy")
    with warnings.catch_warnings():
        # The paper's perceptrons stop after 200 epochs as well.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(matrix(table.train), table.y_codes(table.train_y))

    def predict(columns: Columns) -> fits.Predicted:
        chances = classifier.predict_proba(matrix(columns))
        return fits.Predicted(chances=fits.spread(chances, classifier.classes_, n_levels=n_levels))

    chosen = classifier.best_params_.items() if tuned else ()
    return fits.Fitted(predict, {name: str(v) if isinstance(v, tuple) else v for name, v in chosen})


def fit_ridge(
    table: TableShift, *, seed: int, standardized: bool = True, dropped: bool = False
) -> fits.Fitted:
    """Ridge regression of y, or of its code; penalty and sd are of leave-one-out errors."""
    table = with_dropped(table, seed=seed) if dropped else table
    features = learn_features(table)
    matrix = features.design if standardized else features.codes
    model = RidgeCV(RIDGE_PENALTIES).fit(matrix(table.train), table.y_numbers)
    sd = float(np.sqrt(-model.best_score_))
    return fits.Fitted(
        lambda columns: fits.normal_prediction(model.predict(matrix(columns)), sd, table),
        {"alpha": float(model.alpha_)},
    )


def fit_ordered_probit(table: TableShift, *, seed: int) -> fits.Fitted:
    """Slopes and cuts of highest likelihood: p(y <= c | x) = Phi(cut_c - x . slope), x of codes."""
    n_levels, codes = len(table.y_levels), learn_features(table).codes

    def scores_of(columns: Columns) -> Float[np.ndarray, "rows columns"]:
        # The normal quantile at the middle of each code's share, codes being quantile bins.
        return np.asarray(ndtri((codes(columns) + 0.5) / n_levels))

    scores, y = scores_of(table.train), table.y_codes(table.train_y)
    n_slopes = scores.shape[1]
    share = np.bincount(y, minlength=n_levels).cumsum()[:-1] + 0.5
    cuts = ndtri(share / (len(y) + 1.0))
    steps = np.log(np.maximum(np.diff(cuts), np.exp(SMALLEST_LOG_STEP)))
    start = np.concatenate([np.zeros(n_slopes), cuts[:1], steps])
    bounds = [(None, None)] * (n_slopes + 1) + [(SMALLEST_LOG_STEP, None)] * len(steps)
    best = minimize(
        probit_loss, start, args=(scores, y), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 2000, "maxfun": 4000},
    )  # fmt: skip
    slopes, cuts = _parts(best.x, n_slopes)
    return fits.Fitted(
        lambda columns: fits.Predicted(
            chances=fits.gaussian_bins(scores_of(columns) @ slopes, 1.0, cuts)
        )
    )


def _parts(parameters: Numbers, n_slopes: int) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and increasing cuts: the first one, then logarithms of steps."""
    first, steps = parameters[n_slopes : n_slopes + 1], np.exp(parameters[n_slopes + 1 :])
    return parameters[:n_slopes], np.cumsum(np.concatenate([first, steps]))


def probit_loss(
    parameters: Numbers, scores: Float[np.ndarray, "rows columns"], y: Int64[np.ndarray, "rows"]
) -> tuple[float, Numbers]:
    """Mean of -log p(y | x) and its gradient."""
    slopes, cuts = _parts(parameters, scores.shape[1])
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    latent = scores @ slopes
    low, high = edges[y] - latent, edges[y + 1] - latent
    p = np.maximum(fits.normal_mass(low, high), TINY)
    to_low, to_high = norm.pdf(low) / p, norm.pdf(high) / p
    of_edges = np.bincount(y, to_low, len(edges) - 1) - np.bincount(y + 1, to_high, len(edges))[:-1]
    # Each cut after the first moves with all steps before it.
    of_steps = np.cumsum(of_edges[:0:-1])[::-1]
    of_steps[1:] *= np.exp(parameters[len(slopes) + 1 :])
    gradient = np.concatenate([scores.T @ (to_high - to_low), of_steps]) / len(y)
    return float(-np.log(p).mean()), gradient


Codes = Int64[Tensor, "tables rows columns"]

EPOCHS, BATCH, LEARNING_RATE = 200, 128, 1e-3
EMBED, HEADS, HEAD, HIDDEN, DROPOUT = 20, 5, 4, 5, 0.1
_ROWS_AT_ONCE = 4096


def reference_network(
    n_tables: int, n_columns: int, n_categories: int, *, seed: int
) -> DeepTableNetwork:
    """The paper's network, one for each table."""
    labels = np.arange(n_categories)
    columns = tuple(Column(f"x{number}", "categorical", labels) for number in range(n_columns))
    settings = TableSettings(
        network="deep", categories="shared", ordinal=(False,) * n_tables, embed_dim=EMBED,
        n_heads=HEADS, head_dim=HEAD, n_layers=1, feed_forward_dim=HIDDEN, dropout=DROPOUT,
        norm="post", masked_columns=(),
    )  # fmt: skip
    model = build_masked_table(
        TableSchema(columns), settings, families=[Categorical(n_categories)] * n_columns,
        cells=None, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    assert isinstance(model.network, DeepTableNetwork)
    return model.network


def fit_reference_tables(
    tables: Sequence[TableShift], *, seed: int, epochs: int = EPOCHS
) -> list[fits.Fitted]:
    """The paper's model of each of several tables of codes of one size."""
    rows = [np.column_stack([*table.train.values(), table.train_y]) for table in tables]
    codes = torch.from_numpy(np.stack(rows))
    n_levels = len(tables[0].y_levels)
    network = reference_network(len(codes), codes.shape[-1], n_levels, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with lend_generator(generator, network):
        _train(network, codes, epochs=epochs, generator=generator)
    network.eval()
    return [fits.Fitted(partial(_predict, network, index)) for index in range(len(codes))]


def _train(
    network: DeepTableNetwork, codes: Codes, *, epochs: int, generator: torch.Generator
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, eps=1e-7, fused=True)
    tables, rows, columns = codes.shape
    network.train()
    for _ in range(epochs):
        orders = [torch.randperm(rows * columns, generator=generator) for _ in range(tables)]
        for chosen in torch.stack(orders).split(BATCH, dim=1):
            row, column = chosen // columns, chosen % columns
            batch = codes.take_along_dim(row[..., None], 1)
            logits = _logits(network, batch, column).flatten(0, 1)
            hidden = batch.take_along_dim(column[..., None], 2).flatten()
            # Each table's own mean, so that each network has the step that it has alone.
            total = functional.cross_entropy(logits, hidden, reduction="sum")
            optimizer.zero_grad(set_to_none=True)
            (total / chosen.shape[1]).backward()
            optimizer.step()


def _logits(
    network: DeepTableNetwork, codes: Codes, column: Int64[Tensor, "tables batch"]
) -> Float[Tensor, "tables batch categories"]:
    batch = CellBatch(codes, None, torch.zeros(codes.shape))
    return network.readout(network.of_copies(batch, column)[:, :, None], [0])[:, :, 0]


@torch.inference_mode()
def _predict(network: DeepTableNetwork, index: int, columns: Columns) -> fits.Predicted:
    x = np.column_stack(list(columns.values()))
    codes = torch.from_numpy(np.column_stack([x, np.full(len(x), MASKED)]))
    tables, parts = network.n_members, []
    for part in codes.split(math.ceil(_ROWS_AT_ONCE / tables)):
        column = torch.full((tables, len(part)), codes.shape[1] - 1)
        logits = _logits(network, part.expand(tables, -1, -1), column)[index]
        parts.append(logits.double().softmax(-1))
    return fits.Predicted(chances=torch.cat(parts).numpy())
