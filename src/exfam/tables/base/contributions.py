"""What each cell adds to a prediction of the default model, exactly, and what is left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import log_softmax

from exfam.columns.results import PlottedResult, in_rows
from exfam.tables.base.forest import Forest
from exfam.tables.base.later import pool_of_rows
from exfam.tables.base.linear_heads import LinearHead
from exfam.tables.base.response import FoldMembers, ResponseModel
from exfam.tables.base.table_base import TableBase
from exfam.tables.base.views import View, view_of
from exfam.tables.data import Cells

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False, repr=False)
class TableContributions(PlottedResult):
    """What each cell adds to the outputs of each target, beside those of an average row.

    Outputs are log-probabilities of labels, less their mean over the labels, and of numbers the
    location, in the unit or on the scale (of logarithms, roots or inverse hyperbolic sines) that
    the family has it in. A cell that is missing adds what its column being missing says, and the
    product of two columns' numbers adds one half of its term to each. Targets with fewer outputs
    have zeros after their own.

    `linear`: by the linear predictors; `trees`: by the paths through boosted trees
    `start`: of an average row; `rest`: of members without exact parts, which are the network and
        ordered labels' scores
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    linear: Float64[np.ndarray, "rows targets columns outputs"]
    trees: Float64[np.ndarray, "rows targets columns outputs"]
    start: Float64[np.ndarray, "rows targets outputs"]
    rest: Float64[np.ndarray, "rows targets outputs"]

    picture = "column_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `target`, `column`, `output` (a number), `linear`, `trees`, `part`."""
        axes = {"row": None, "target": self.targets, "column": self.columns, "output": None}
        return in_rows(axes, {"linear": self.linear, "trees": self.trees, "part": self.parts})

    @property
    def parts(self) -> Float64[np.ndarray, "rows targets columns outputs"]:
        """What each column adds, by linear predictors and trees together."""
        return self.linear + self.trees

    @property
    def outputs(self) -> Float64[np.ndarray, "rows targets outputs"]:
        """The outputs: the start, all parts and the rest."""
        return self.start + self.parts.sum(2) + self.rest


@dataclass(frozen=True, eq=False, repr=False)
class ContributionSummary(PlottedResult):
    """What each column adds to each target, over all rows.

    `size`, `spread`: mean length of what the column adds to the outputs, and its standard deviation
    `rest`: mean length of what has no exact parts, for each target
    """

    targets: tuple[str, ...]
    columns: tuple[str, ...]
    size: Float64[np.ndarray, "targets columns"]
    spread: Float64[np.ndarray, "targets columns"]
    rest: Float64[np.ndarray, "targets"]

    picture = "size_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """One entry for each target and column: names, size and spread."""
        axes = {"target": self.targets, "column": self.columns}
        return in_rows(axes, {"size": self.size, "spread": self.spread})


def cell_contributions(base: TableBase, cells: Cells, targets: Sequence[str]) -> TableContributions:
    """Of all rows at once: give some hundreds."""
    names = base.schema.names
    indices = [base.schema.index(name) for name in targets]
    sizes = [base.column(k).n_labels or 1 for k in indices]
    shape = len(cells), len(indices), len(names), max(sizes)
    linear, trees = np.zeros(shape), np.zeros(shape)
    start, rest = np.zeros((shape[0], shape[1], shape[3])), np.zeros((shape[0], shape[1], shape[3]))
    for t, (k, size) in enumerate(zip(indices, sizes, strict=True)):
        parts = _Parts(base.columns[k], cells)
        own = list(base.columns[k].code.columns)
        linear[:, t, own, :size], trees[:, t, own, :size] = parts.linear, parts.trees
        start[:, t, :size] = parts.start
        rest[:, t, :size] = parts.outputs - parts.start - (parts.linear + parts.trees).sum(1)
    return TableContributions(names, tuple(targets), linear, trees, start, rest)


def summarize(base: TableBase, cells: Cells, targets: Sequence[str]) -> ContributionSummary:
    """Means over all rows of what each column adds."""
    size, rest, first, second = (np.zeros(()) for _ in range(4))
    for block in _blocks(base, cells, targets):
        parts = block.parts
        size = size + np.linalg.norm(parts, axis=-1).sum(0)
        rest = rest + np.linalg.norm(block.rest, axis=-1).sum(0)
        first, second = first + parts.sum(0), second + (parts**2).sum(0)
    n = len(cells)
    spread = np.sqrt(np.maximum(second / n - (first / n) ** 2, 0.0).sum(-1))
    return ContributionSummary(tuple(targets), base.schema.names, size / n, spread, rest / n)


def importance(base: TableBase, cells: Cells, target: str) -> Float64[np.ndarray, "rows columns"]:
    """How much each cell matters to a target: the length of what it adds."""
    blocks = _blocks(base, cells, [target])
    return np.concatenate([np.linalg.norm(block.parts[:, 0], axis=-1) for block in blocks])


def _blocks(base: TableBase, cells: Cells, targets: Sequence[str]) -> Iterator[TableContributions]:
    for first in range(0, len(cells), _ROWS_AT_ONCE):
        yield cell_contributions(base, cells[first : first + _ROWS_AT_ONCE], targets)


class _Parts:
    """The parts of one column's model."""

    def __init__(self, model: ResponseModel, cells: Cells) -> None:
        self.model, self.view = model, view_of(model.code, model.fill, cells)
        n_rows, n_columns = len(cells), len(model.code.columns)
        self.size = model.n_labels or 1
        self.linear = np.zeros((n_rows, n_columns, self.size))
        self.trees = np.zeros((n_rows, n_columns, self.size))
        self.start = np.zeros((n_rows, self.size))
        weights = pool_of_rows(self.view, model.pool, model.later).weights
        self.weights = dict(zip(model.members, (weights / len(model.folds)).T, strict=True))
        for fold in model.folds:
            self._add_constant(fold)
            self._add_linear(
                fold, fold.linear, self.weights["linear"] + self.weights.get("network", 0.0)
            )
            for name in ("products", "ridge"):
                if name in self.weights:
                    self._add_linear(fold, getattr(fold, name), self.weights[name])
            for name in ("trees", "trees_masked"):
                if name in self.weights:
                    self._add_trees(fold, getattr(fold, name), self.weights[name])
        if model.n_labels is None:
            self.linear, self.trees = (
                self.linear * model.unit.spread,
                self.trees * model.unit.spread,
            )
            self.start = self.start * model.unit.spread + model.unit.center

    @property
    def outputs(self) -> Float64[np.ndarray, "rows outputs"]:
        """What the model says, as `TableContributions` has it."""
        eta = self.model.eta_of(self.view)
        if self.model.n_labels is not None:
            return _centered(log_softmax(eta, axis=1))
        unit = self.model.unit
        location = eta[:, :1]
        if unit.scale == "identity":
            return unit.center + unit.spread * location
        # Those of roots and of inverse hyperbolic sines are on their scale as they are.
        return location + (unit.center if unit.scale == "log" else 0.0)

    def _add_constant(self, fold: FoldMembers) -> None:
        constant = fold.constant[None]
        if self.model.n_labels is not None:
            constant = _centered(constant)
        self.start += self.weights["constant"][:, None] * constant

    def _add_linear(
        self, fold: FoldMembers, linear: LinearHead, weight: Float64[np.ndarray, "rows"]
    ) -> None:
        """Those of a linear predictor; on the first the network's member builds as well."""
        by_column = _by_column(self.model, fold, linear, self.view)
        bias = linear.bias[None]
        if self.model.n_labels is not None:
            by_column, bias = _centered(by_column), _centered(bias)
        self.linear += weight[:, None, None] * by_column
        self.start += weight[:, None] * bias

    def _add_trees(
        self, fold: FoldMembers, forest: Forest, weight: Float64[np.ndarray, "rows"]
    ) -> None:
        steps = forest.attributions(fold.seen(self.view).for_trees)
        steps, expected = self._labels(forest, steps), self._labels(forest, forest.expected[None])
        # After the table's columns comes how many cells are missing, which is none of them.
        n_columns = self.trees.shape[1]
        self.trees += weight[:, None, None] * steps[:, :n_columns]
        if fold.statistics is not None:
            for k, own in enumerate(fold.statistics.column_of_number):
                self.trees[:, own] += weight[:, None] * steps[:, n_columns + 1 + k]
        self.start += weight[:, None] * expected

    def _labels(self, forest: Forest, raw: np.ndarray) -> np.ndarray:
        """Outputs of a forest as those of all labels, less their mean."""
        if self.model.n_labels is None:
            return raw
        if len(forest.classes) == 2:
            raw = np.concatenate([-raw / 2, raw / 2], axis=-1)
        every = np.zeros((*raw.shape[:-1], self.size))
        every[..., forest.classes] = raw if raw.shape[-1] == len(forest.classes) else 0.0
        return _centered(every)


def _centered(outputs: np.ndarray) -> np.ndarray:
    centered: np.ndarray = outputs - outputs.mean(-1, keepdims=True)
    return centered


def _by_column(
    model: ResponseModel, fold: FoldMembers, linear: LinearHead, view: View
) -> Float64[np.ndarray, "rows columns outputs"]:
    """The linear predictor's terms, those of one column's features together.

    The term of a product of two columns' features is shared half and half between the two.
    """
    seen, code = fold.seen(view), model.code
    features, column = seen.features, code.column_of_feature
    if linear is fold.ridge:
        features = seen.plain
        column = np.append(code.column_of_number, np.arange(len(code.codes)))
    if fold.statistics is not None:
        column = np.append(column, fold.statistics.column_of_number)
    x, n = linear.standardized(features), len(column)
    by_column = np.zeros((len(x), len(code.codes), len(linear.bias)))
    for k in range(len(code.codes)):
        own = np.flatnonzero(column == k)
        by_column[:, k] = x[:, own] @ linear.weights[own]
    for k, pair in enumerate(linear.products):
        half = x[:, n + k, None] * linear.weights[n + k] / 2
        for own in column[pair]:
            by_column[:, own] += half
    return by_column
