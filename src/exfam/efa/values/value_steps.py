"""A base's prediction step by step: what it knows of a value is switched on in a fixed order.

Of every step the features are those of all earlier steps too; the last step has all features.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.conditionals import ValueContributions, contributions_to_mean
from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.values_base import ValuesBase

# Overall: no context, and an item that no training group had.
OVERALL, ITEM, ATTRIBUTES, VALUES = "overall", "item", "attributes", "values"
NEIGHBORS, CERTAINTY, SCALE, HISTOGRAM = "neighbors", "certainty", "scale", "histogram"
# The least move of the mean by which its slope is measured, in standard deviations of all values.
LEAST_MOVE = 0.5


@dataclass(frozen=True, eq=False)
class ValueSteps:
    """Parameters of some cells after every step, by its name, and what their means are made of.

    `before`: features of the last step without the others; `mean`: of the cells given the others
    """

    base: ValuesBase
    before: ValueFeatures
    mean: Float64[np.ndarray, "cells"]
    eta: dict[str, Float64[Tensor, "cells params"]]
    means: ValueContributions

    def eta_moved(self, move: Float64[np.ndarray, "cells"]) -> Float64[Tensor, "cells params"]:
        """Parameters where the others' values would have moved the mean so far."""
        return self.base.eta_of(replace(self.before, mean=self.before.mean + move))


def value_steps(
    base: ValuesBase, cells: ValueCells, chosen: Int64[np.ndarray, "chosen"]
) -> ValueSteps:
    """Of some cells, by their numbers; values of `cells` are those that the base was fitted to.

    1. overall: the value of an item that no training group had, without a context
    2. item: its level, its loadings and noise, and how often it has what a table counts
    3. attributes: their effects, where cells have some
    4. values: the mean given the others, and their sum
    5. neighbors: means of residuals nearby, of cells in an order or with positions
    6. certainty: the variance given the others, and how many they are
    7. scale: the chi-square of the others, until now as large as their number
    8. histogram: what a table counts among the others, until now as often as among all values
    """
    every = base.features(cells)
    rows, effect = base.model.rows(cells)[chosen], base.model.effect(cells)[chosen]
    features = _features(base, every.take(chosen), rows, effect)
    eta = {name: base.eta_of(found) for name, found in features.items()}
    # As a prediction of all cells has it, to the bit.
    eta[list(features)[-1]] = base.eta_of(every)[chosen]
    standard, causal = base.working.cells(cells), base.options.causal
    means = contributions_to_mean(base.model, standard, chosen, causal=causal)
    before = features[ATTRIBUTES if base.given else ITEM]
    return ValueSteps(base, before, every.mean[chosen], eta, means)


def _features(
    base: ValuesBase,
    full: ValueFeatures,
    rows: Int64[np.ndarray, "chosen"],
    effect: Float64[np.ndarray, "chosen"],
) -> dict[str, ValueFeatures]:
    """After every step; `rows`: those of the items in the model; `effect`: of attributes."""
    unseen = np.full(len(rows), base.model.n_items)
    features = {OVERALL: _without_context(base, full, unseen)}
    features[ITEM] = last = _without_context(base, full, rows)
    if base.given:
        moved = last.mean + effect
        features[ATTRIBUTES] = last = replace(last, mean=moved, level=moved)
    features[VALUES] = last = replace(last, mean=full.mean, amounts=full.amounts)
    if full.neighbors.shape[1]:
        features[NEIGHBORS] = last = replace(last, neighbors=full.neighbors)
    n = full.n_context
    # Counts without news: shares of the margin.
    as_all = last.others if base.table is None else n[:, None] * base.table.margin
    sure = {"variance": full.variance, "n_context": n, "chi_square": n}
    features[CERTAINTY] = last = replace(last, **sure, others=as_all, expected=as_all)
    features[SCALE] = last = replace(last, chi_square=full.chi_square)
    if base.table is not None:
        features[HISTOGRAM] = full
    return features


def _without_context(
    base: ValuesBase, full: ValueFeatures, rows: Int64[np.ndarray, "chosen"]
) -> ValueFeatures:
    """Features of items, by their rows in the model, where no other value is known."""
    model, none = base.model, np.zeros(len(rows))
    level = model.mu + model.level[rows]
    nothing, amounts = np.zeros_like(full.others), np.zeros_like(full.amounts)
    if model.amount is not None:
        amounts[:, 0] = model.amount[rows]
    return ValueFeatures(
        mean=level,
        variance=model.noise[rows] + np.square(model.loading[rows]).sum(1),
        chi_square=none,
        n_context=none,
        level=level,
        item_count=model.count[rows],
        neighbors=np.zeros_like(full.neighbors),
        others=nothing,
        expected=nothing,
        share=full.share if base.table is None else base.table.share[rows],
        amounts=amounts,
    )
