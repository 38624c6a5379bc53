"""LightGBM on what the others of the group and the item's other values are like.

Of ordinal values and counts it classifies cells; of real values it predicts the mean, about which
a Student t stands. Trees are as many as validation wants.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.arena.contenders.values.additive import sum_of_context
from benchmarks.arena.contenders.values.cells import Grid, grid, of_context, of_items
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
STRENGTH = 5.0

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
    """Features of elements; a training element's own value is taken out of its item's, too."""
    cells, mean = grid(data), data.working(data.learned.value).mean()
    counted, own = of_items(data, cells), data.learned
    z = data.working(own.value)
    total = np.bincount(own.item, weights=z - mean, minlength=data.n_items)

    def columns(elements: Flat, *, is_training: bool = False) -> Columns:
        z = data.working(elements.value) - mean
        n_item = counted[elements.item].sum(1)
        item_sum, item_cells = total[elements.item], counted[elements.item]
        if is_training:
            n_item, item_sum = n_item - 1, item_sum - z
            item_cells = item_cells - np.eye(len(cells.share))[cells.cell(elements.value)]
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


CONTENDERS = {
    "trees": Contender(label="LightGBM", fit=fit_trees, is_random=True, needs="lightgbm"),
}
