"""LightGBM on what the others of the group and the item's other values are like.

What training elements see of their items comes from the groups of other folds: sums that only lack
the own value would give it away. Of ordinal values and counts it classifies cells; of real values
it predicts the mean, about which a Student t stands. Trees are as many as validation wants.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.arena.contenders.values.additive import sum_of_context
from benchmarks.arena.contenders.values.cells import Grid, grid, of_context
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.calibration import some_groups
from benchmarks.arena.values.data import Flat, ValueData, flat
from benchmarks.arena.values.judge import best_on_validation
from jaxtyping import Float

from exfam.groups import Groups

LEAVES: tuple[dict[str, Any], ...] = ({"num_leaves": 7}, {"num_leaves": 31})
MOST_TREES, PATIENCE, LEARNING_RATE = 300, 10, 0.1
# Training elements that are worth their time, and trees of all classes together.
MOST_ELEMENTS, MOST_OF_CLASSES = 60_000, 2_000
STRENGTH, FOLDS = 5.0, 8

Columns = Float[np.ndarray, "elements columns"]


def fit_trees(data: ValueData, seed: int) -> Fitted:
    candidates = ((settings, _trees(settings, seed, data)) for settings in LEAVES)
    return best_on_validation(candidates, data)


def _trees(settings: dict[str, Any], seed: int, data: ValueData) -> Fitted:
    import lightgbm

    cells, columns = grid(data), _columns(data)
    train = some_groups(data.train, most=MOST_ELEMENTS)
    learned, held_out = flat(train), flat(data.validation)
    n_classes = len(cells.share)
    parameters: dict[str, Any] = {
        **settings,
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": 20,
        "lambda_l2": 1.0,
        "seed": seed,
        "num_threads": 1,
        "verbose": -1,
    }
    most = MOST_TREES
    if data.form == "real":
        parameters |= {"objective": "regression"}
    else:
        parameters |= {"objective": "multiclass", "num_class": n_classes}
        most = min(most, MOST_OF_CLASSES // n_classes)
    aim = (lambda own: own.value) if data.form == "real" else (lambda own: cells.cell(own.value))
    own = lightgbm.Dataset(columns(learned, is_training=True), aim(learned))
    booster = lightgbm.train(
        parameters,
        own,
        num_boost_round=most,
        valid_sets=[own.create_valid(columns(held_out), aim(held_out))],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )

    def predict(groups: Groups) -> Any:
        raw = booster.predict(columns(flat(groups)))
        return raw if data.form == "real" else cells.distribution(_smooth(raw, cells))

    chosen = {"trees": booster.best_iteration, "elements": train.n_elements}
    return Fitted(predict, exact=data.form != "real", settings=chosen)


def _smooth(probs: Columns, cells: Grid) -> Columns:
    return (1 - 1e-4) * probs + 1e-4 * cells.share


def _columns(data: ValueData) -> Callable[..., Columns]:
    """Features of elements; those of training elements see their items in other folds alone."""
    cells, own = grid(data), data.learned
    mean = data.working(own.value).mean()
    all_groups = np.ones(len(own.item), dtype=bool)
    overall = _sums(own, all_groups, data, cells, mean)

    def columns(elements: Flat, *, is_training: bool = False) -> Columns:
        z = data.working(elements.value) - mean
        item_cells, item_sum = (part[elements.item] for part in overall)
        if is_training:
            fold = elements.group % FOLDS
            for number in range(FOLDS):
                rows = fold == number
                others = _sums(elements, ~rows, data, cells, mean)
                item_cells[rows], item_sum[rows] = (part[elements.item[rows]] for part in others)
        n_item = item_cells.sum(1)
        base = item_sum / (n_item + STRENGTH)
        n = elements.n_context(causal=data.causal)
        others = of_context(elements, cells, causal=data.causal)
        first, second, rest = (
            sum_of_context(number, elements, causal=data.causal) for number in (z, z**2, z - base)
        )
        average = first / np.maximum(n, 1)
        spread = np.sqrt(np.maximum(second / np.maximum(n, 1) - average**2, 0))
        offset = rest / (n + STRENGTH)
        numbers = (base, n_item, n, average, spread, offset, base + offset)
        smoothed = (item_cells + STRENGTH * cells.share) / (n_item + STRENGTH)[:, None]
        return np.column_stack([*numbers, smoothed, (others + cells.share) / (n + 1)[:, None]])

    return columns


def _sums(
    elements: Flat, keep: np.ndarray, data: ValueData, cells: Grid, mean: float
) -> tuple[Columns, Float[np.ndarray, "items"]]:
    """Of each item, how many of the kept values are in each cell, and the sum of all."""
    item, value = elements.item[keep], elements.value[keep]
    counted = np.zeros((data.n_items, len(cells.share)))
    np.add.at(counted, (item, cells.cell(value)), 1.0)
    z = data.working(value) - mean
    return counted, np.bincount(item, weights=z, minlength=data.n_items)


CONTENDERS = {
    "trees": Contender(label="LightGBM", fit=fit_trees, is_random=True, needs="lightgbm"),
}
