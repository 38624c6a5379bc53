"""Boosted decision trees of scikit-learn as plain arrays, answered by our own kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt32
from scipy.special import log_expit, log_softmax

from exfam.checks import DataError, ModelFileError
from exfam.kernels.trees import Trees, add_leaves, add_steps, average_leaves

# What there is of every tree, one after the other.
_EMPTY: dict[str, np.ndarray] = {
    "feature": np.empty(0, np.int32),
    "threshold": np.empty(0, np.float64),
    "missing_left": np.empty(0, bool),
    "left": np.empty(0, np.int32),
    "right": np.empty(0, np.int32),
    "bitset": np.empty(0, np.int32),
    "value": np.empty(0, np.float64),
    "count": np.empty(0, np.int64),
    "bitsets": np.empty((0, 8), np.uint32),
    "starts": np.empty(0, np.int64),
    "output": np.empty(0, np.int32),
}


@dataclass(frozen=True, eq=False)
class Forest:
    """The sum of many decision trees, each of which adds to one output.

    Nodes of all trees lie in flat arrays, as `exfam.kernels.trees.Trees` describes them.

    `baseline`: what every row begins with, of each output
    `classes`: codes of the labels that were learned, rising; none of a forest of numbers. Two have
        one output, the logit of the second; several have one each
    `labels`, `label_starts`: the labels of column j that splits know, rising, are
        labels[label_starts[j] : label_starts[j + 1]]; any other label is taken as missing
    `by_label`: the columns that are split by sets of labels
    """

    feature: Int32[np.ndarray, "nodes"]
    threshold: Float64[np.ndarray, "nodes"]
    missing_left: Bool[np.ndarray, "nodes"]
    left: Int32[np.ndarray, "nodes"]
    right: Int32[np.ndarray, "nodes"]
    bitset: Int32[np.ndarray, "nodes"]
    value: Float64[np.ndarray, "nodes"]
    bitsets: UInt32[np.ndarray, "splits 8"]
    starts: Int64[np.ndarray, "trees"]
    output: Int32[np.ndarray, "trees"]
    baseline: Float64[np.ndarray, "outputs"]
    classes: Int64[np.ndarray, "classes"]
    labels: Float64[np.ndarray, "labels"]
    label_starts: Int64[np.ndarray, "bounds"]
    by_label: Bool[np.ndarray, "columns"]

    @property
    def expected(self) -> Float64[np.ndarray, "outputs"]:
        """The mean of `raw` over the training rows: baseline and the mean of every tree."""
        means = self.value[self.starts]
        return self.baseline + np.bincount(self.output, means, minlength=len(self.baseline))

    def raw(self, x: Float64[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows outputs"]:
        """The sum of the trees: a number, or logits of `classes`. NaN is a missing cell."""
        sums = np.tile(self.baseline, (len(x), 1))
        add_leaves(self._trees(), self._encoded(x), sums)
        return sums

    def log_probs(
        self, x: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "rows classes"]:
        """Log-probabilities of `classes`. Raises DataError for a forest of numbers."""
        if not len(self.classes):
            raise DataError("`log_probs` must be of a forest of labels, got one of numbers.")
        raw = self.raw(x)
        if len(self.classes) == 2:
            return log_expit(np.concatenate([-raw, raw], axis=1))
        return log_softmax(raw, axis=1)

    def attributions(
        self, x: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "rows columns outputs"]:
        """What each column adds to `raw`: over the columns it sums to `raw(x) - expected`.

        On a row's path through a tree every split moves the mean of the training rows that are
        left; the change goes to the column that is split. This is a path attribution, not a Shapley
        value: a column that is split near the root is given less than one split below it.
        Source: Saabas (2014), "Interpreting random forests".
        """
        steps = np.zeros((*x.shape, len(self.baseline)))
        add_steps(self._trees(), self._encoded(x), steps)
        return steps

    def arrays(self) -> dict[str, np.ndarray]:
        """All fields by name, plain arrays, to be stored."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Forest":
        """The forest of `arrays`. Raises ModelFileError if one is missing."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ModelFileError(
                f"`arrays` must hold all arrays of a forest, got none named {', '.join(missing)}."
            )
        return cls(**{name: np.ascontiguousarray(arrays[name]) for name in names})

    def _trees(self) -> Trees:
        return Trees(*(getattr(self, name) for name in Trees._fields))

    def _encoded(
        self, x: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "rows columns"]:
        """Labels as their index among those that splits know, others as missing."""
        if x.shape[1] != len(self.by_label):
            raise DataError(
                f"`x` must have the {len(self.by_label)} columns of training, got {x.shape[1]}."
            )
        encoded = np.array(x, order="C")
        for column in np.flatnonzero(self.by_label):
            encoded[:, column] = _index_of(self._labels_of(column), x[:, column])
        return encoded

    def _labels_of(self, column: Any) -> Float64[np.ndarray, "_"]:
        return self.labels[self.label_starts[column] : self.label_starts[column + 1]]


def _index_of(
    labels: Float64[np.ndarray, "labels"], cells: Float64[np.ndarray, "rows"]
) -> Float64[np.ndarray, "rows"]:
    """The index of each cell among `labels`, NaN for a cell that is none of them."""
    if not len(labels):
        return np.full(len(cells), np.nan)
    index = np.searchsorted(labels, cells).clip(max=len(labels) - 1)
    return np.where(labels[index] == cells, index, np.nan)


def forest_of(model: Any, *, n_rounds: int | None = None) -> Forest:
    """The trees of a fitted HistGradientBoostingClassifier or HistGradientBoostingRegressor.

    `n_rounds`: of boosting, from the first; None is all
    """
    # Scikit-learn has no public way to read its trees. All private names of it that we use are in
    # this function: `_predictors` by round and output, with their `nodes` and sets of labels;
    # `_baseline_prediction`; and the encoder in `_preprocessor`, which codes the labels of a column
    # from 0 and puts columns of labels before the others.
    labels: list[Any] = [None] * model.n_features_in_
    order = np.arange(len(labels))
    if model.is_categorical_ is not None:
        order = np.argsort(~model.is_categorical_, kind="stable")
        known = model._preprocessor.named_transformers_["encoder"].categories_
        for column, categories in zip(order, known, strict=False):
            labels[column] = categories[~np.isnan(categories)].astype(np.float64)
    parts, n_nodes, n_sets = [], 0, 0
    for output, tree in (
        pair for trees in model._predictors[:n_rounds] for pair in enumerate(trees)
    ):
        nodes, sets = tree.nodes, tree.raw_left_cat_bitsets
        part = {
            "feature": np.where(nodes["is_leaf"], -1, order[nodes["feature_idx"]]),
            "threshold": nodes["num_threshold"],
            "missing_left": nodes["missing_go_to_left"],
            "left": nodes["left"].astype(np.int64) + n_nodes,
            "right": nodes["right"].astype(np.int64) + n_nodes,
            "bitset": np.where(
                nodes["is_categorical"], nodes["bitset_idx"].astype(np.int64) + n_sets, -1
            ),
            "value": nodes["value"],
            "count": nodes["count"],
            "bitsets": sets.reshape(-1, 8),
            "starts": np.array([n_nodes]),
            "output": np.array([output]),
        }
        parts.append(part)
        n_nodes, n_sets = n_nodes + len(nodes), n_sets + len(sets)
    baseline = model._baseline_prediction[0].astype(np.float64)
    classes = np.asarray(getattr(model, "classes_", []), np.int64)
    return forest_of_trees(parts, baseline=baseline, classes=classes, labels=labels)


def forest_of_trees(
    parts: Sequence[Mapping[str, np.ndarray]],
    *,
    baseline: Float64[np.ndarray, "outputs"],
    classes: Int64[np.ndarray, "classes"],
    labels: Sequence[Float64[np.ndarray, "_"] | None],
) -> Forest:
    """The forest of the arrays of each tree; `labels`: by column, None for one of numbers."""
    joined = {
        name: np.concatenate([empty, *(part[name] for part in parts)]).astype(empty.dtype)
        for name, empty in _EMPTY.items()
    }
    count = joined.pop("count")
    average_leaves(joined["left"], joined["right"], joined["feature"], count, joined["value"])
    held = [np.empty(0) if known is None else known for known in labels]
    return Forest(
        **joined,
        baseline=baseline,
        classes=classes,
        labels=np.concatenate([np.empty(0), *held]),
        label_starts=np.cumsum([0, *map(len, held)]),
        by_label=np.array([known is not None for known in labels], dtype=bool),
    )
