"""Fits boosted trees with scikit-learn, as large and as many as held-out rows prefer."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from exfam.checks import DataError, check_choice
from exfam.tables.base.forest import Forest, forest_of, forest_of_trees

_MOST_ROUNDS = 500
_PATIENCE = 15
# Scikit-learn splits columns of at most so many labels by sets of labels.
_MOST_LABELS = 255
# Leaves of a tree, and the fewest rows in a leaf: sizes to choose from.
_SIZES = ((8, 10), (16, 10), (31, 10), (63, 5))
# Sizes are compared with steps that are so many times as large, and at most so many trees.
_FASTER = 2.0
_MOST_COMPARED = 1_500
# Fewer held-out rows choose nothing.
_FEWEST_TO_CHOOSE = 50


@dataclass(frozen=True)
class ForestSettings:
    """How trees are grown: the size of a step, of a tree and of its leaves, and what is shrunk."""

    learning_rate: float
    max_leaf_nodes: int
    min_samples_leaf: int
    l2_regularization: float
    max_features: float


def forest_settings(kind: str, n_rows: int) -> ForestSettings:
    """The usual settings for labels or numbers, by the number of training rows."""
    size, rate = 1, 0.05
    if n_rows > 10_000:
        size, rate = 2, 0.08
    elif n_rows < 1_000:
        size = 0
    l2, share = (20.0, 0.3) if kind == "labels" else (3.0, 0.6)
    return ForestSettings(rate, *_SIZES[size], l2, share)


@dataclass(frozen=True, eq=False)
class ForestRows:
    """Rows to learn from: inputs with NaN where missing, the response, and weights or None.

    `y`: codes of labels, or numbers
    """

    x: Float64[np.ndarray, "rows columns"]
    y: Shaped[np.ndarray, "rows"]
    weight: Float64[np.ndarray, "rows"] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def where(self, keep: Bool[np.ndarray, "rows"]) -> "ForestRows":
        """The rows where `keep` is true."""
        return ForestRows(
            self.x[keep], self.y[keep], None if self.weight is None else self.weight[keep]
        )

    def zeroed(self, columns: Bool[np.ndarray, "columns"]) -> "ForestRows":
        """The rows with 0 in these columns."""
        return replace(self, x=np.where(columns, 0.0, self.x))


def fit_forest(
    train: ForestRows,
    validation: ForestRows,
    *,
    kind: str,
    by_label: Bool[np.ndarray, "columns"],
    seed: int,
    settings: ForestSettings | None = None,
) -> Forest:
    """A forest that predicts labels or numbers, of as many rounds as are best in validation.

    `kind`: "labels" for logits of the codes in `y`, "numbers" for means
    `by_label`: the input columns that hold codes of labels without order; they are split by sets
        of labels, or as numbers where training rows have more than 255 of them
    `settings`: None has the usual ones for the number of training rows

    Without validation rows, or with nothing to split, the forest is its baseline.
    """
    task = _task(train, validation, kind=kind, by_label=by_label, seed=seed)
    if task is None:
        return _baseline(train, kind=kind)
    settings = forest_settings(kind, len(train)) if settings is None else settings
    model = task.grown(settings, n_rounds=_MOST_ROUNDS)
    # The first score is that of the baseline alone.
    return forest_of(model, n_rounds=int(np.argmax(model.validation_score_)))


def choose_forest(
    train: ForestRows,
    validation: ForestRows,
    *,
    kind: str,
    by_label: Bool[np.ndarray, "columns"],
    seed: int,
) -> ForestSettings:
    """The usual settings with trees of the size that is best in validation, given as `fit_forest`.

    From the usual size on, sizes are tried as long as they are better than the one before. The
    step becomes larger where the most rounds that are fitted would end too early. Few held-out
    rows choose nothing.
    """
    settings = forest_settings(kind, len(train))
    task = _task(train, validation, kind=kind, by_label=by_label, seed=seed)
    if task is None or len(validation) < _FEWEST_TO_CHOOSE:
        return settings
    n_outputs = len(np.unique(train.y)) if kind == "labels" else 1
    most = max(_PATIENCE, min(_MOST_ROUNDS, _MOST_COMPARED // n_outputs))
    first = _SIZES.index((settings.max_leaf_nodes, settings.min_samples_leaf))
    fast = replace(settings, learning_rate=settings.learning_rate * _FASTER)
    best, score, rounds = first, *task.score(_sized(fast, first), n_rounds=most)
    for sizes in (range(first + 1, len(_SIZES)), range(first - 1, -1, -1)):
        if best != first:
            break
        for size in sizes:
            own, own_rounds = task.score(_sized(fast, size), n_rounds=most)
            if own <= score:
                break
            best, score, rounds = size, own, own_rounds
    more = 1.0 if rounds * _FASTER <= _MOST_ROUNDS else _FASTER
    if rounds >= most:
        more = _FASTER**2
    return _sized(replace(settings, learning_rate=settings.learning_rate * more), best)


def _sized(settings: ForestSettings, size: int) -> ForestSettings:
    leaves, least = _SIZES[size]
    return replace(settings, max_leaf_nodes=leaves, min_samples_leaf=least)


@dataclass(frozen=True, eq=False)
class _Task:
    """Rows to fit to and to judge by, as scikit-learn takes them."""

    train: ForestRows
    validation: ForestRows
    kind: str
    by_set: Bool[np.ndarray, "columns"]
    seed: int

    def score(self, settings: ForestSettings, *, n_rounds: int) -> tuple[float, int]:
        """The best score of the rows to judge by, and after how many rounds."""
        scores = self.grown(settings, n_rounds=n_rounds).validation_score_
        return float(np.max(scores)), int(np.argmax(scores))

    def grown(self, settings: ForestSettings, *, n_rounds: int) -> Any:
        """The fitted booster."""
        labels = self.kind == "labels"
        build = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
        model = build(
            **vars(settings),
            categorical_features=self.by_set if self.by_set.any() else None,
            max_iter=n_rounds,
            early_stopping=True,
            n_iter_no_change=_PATIENCE,
            scoring="loss",
            tol=0.0,
            random_state=self.seed,
        )
        return model.fit(
            self.train.x,
            self.train.y,
            sample_weight=self.train.weight,
            X_val=self.validation.x,
            y_val=self.validation.y,
            sample_weight_val=self.validation.weight,
        )


def _task(
    train: ForestRows,
    validation: ForestRows,
    *,
    kind: str,
    by_label: Bool[np.ndarray, "columns"],
    seed: int,
) -> _Task | None:
    """The task of a forest, None where it is its baseline."""
    check_choice("kind", kind, ("labels", "numbers"))
    if not len(train):
        raise DataError("`train` must have at least one row, got none.")
    if kind == "labels":
        # The loss of a label that training does not have is infinite, whatever the trees.
        validation = validation.where(np.isin(validation.y, train.y))
    constant = kind == "labels" and len(np.unique(train.y)) == 1
    if not len(validation) or not train.x.shape[1] or constant:
        return None
    held = np.array([np.unique(column[~np.isnan(column)]).size for column in train.x.T])
    # Scikit-learn cannot bin a column without a single number.
    train, validation = (rows.zeroed(held == 0) for rows in (train, validation))
    if _alike(train) and _alike(validation):
        # Scikit-learn bins, sums and splits in half the time without weights, to the same bits.
        train, validation = (replace(rows, weight=None) for rows in (train, validation))
    by_set = by_label & (held > 0) & (held <= _MOST_LABELS)
    return _Task(train, validation, kind, by_set, seed)


def _alike(rows: ForestRows) -> bool:
    """Whether all rows count once."""
    return rows.weight is None or bool((rows.weight == 1).all())


def _baseline(train: ForestRows, *, kind: str) -> Forest:
    """The forest without trees: the mean, or the logarithms of the labels' shares."""
    weight = np.ones(len(train)) if train.weight is None else train.weight
    classes = np.empty(0, np.int64)
    if kind == "numbers":
        baseline = np.array([np.average(train.y, weights=weight)])
    else:
        classes, code = np.unique(train.y.astype(np.int64), return_inverse=True)
        with np.errstate(divide="ignore"):
            baseline = np.log(np.bincount(code, weight) / weight.sum())
        if len(classes) == 2:
            baseline = baseline[1:] - baseline[:1]
    labels = [None] * train.x.shape[1]
    return forest_of_trees([], baseline=baseline, classes=classes, labels=labels)
