"""What a head sees of every cell: the factor model's conditional, and sums over the others."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.conditionals import given_earlier, given_others
from exfam.efa.values.factor_em import FactorModel
from exfam.efa.values.near_kernel import NearKernel

# By how much a neighbor's weight falls with a step.
_DECAYS = (0.6, 0.9)


@dataclass(frozen=True, eq=False)
class ValueFeatures:
    """Of every cell: none of them is changed by the cell's own value.

    `mean`, `variance`, `chi_square`, `n_context` are those of `Conditionals`; `level` and
    `item_count` are the item's mean, and its number of training cells; `neighbors` are means of the
    residuals nearby, without columns where cells have no order; with a kernel, the first is by it,
    and `variance` is times the share that neighbors leave open. `others`, `expected` and `share`
    are of the values that a table counts: how often they occur among the others, how often their
    items would have them, and how often the item has. `amounts` are the item's mean value as it is,
    the sum of the others' values, and that of their items' means; no columns where no head reads
    them.
    """

    mean: Float64[np.ndarray, "cells"]
    variance: Float64[np.ndarray, "cells"]
    chi_square: Float64[np.ndarray, "cells"]
    n_context: Float64[np.ndarray, "cells"]
    level: Float64[np.ndarray, "cells"]
    item_count: Float64[np.ndarray, "cells"]
    neighbors: Float64[np.ndarray, "cells two"]
    others: Float64[np.ndarray, "cells classes"]
    expected: Float64[np.ndarray, "cells classes"]
    share: Float64[np.ndarray, "cells classes"]
    amounts: Float64[np.ndarray, "cells three"]

    def take(self, rows: Int64[np.ndarray, "rows"]) -> "ValueFeatures":
        """Those of some cells."""
        return ValueFeatures(*(getattr(self, field.name)[rows] for field in fields(self)))


def joined(parts: Sequence[ValueFeatures]) -> ValueFeatures:
    """Features of several sets of cells, one after the other."""
    names = [field.name for field in fields(ValueFeatures)]
    return ValueFeatures(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def factor_features(
    model: FactorModel, cells: ValueCells, *, causal: bool, ordered: bool
) -> ValueFeatures:
    """The features that need standardized values alone; those of a table are empty."""
    from exfam.kernels.value_passes import near_means

    found = given_earlier(model, cells) if causal else given_others(model, cells)
    rows, level = model.rows(cells), model.levels(cells)
    near = np.zeros((cells.n_cells, 2 if ordered else 0))
    if ordered:
        # What is causal takes tied cells in their order.
        no_ties = causal or cells.tied is None
        tied = np.zeros(cells.n_cells, dtype=bool) if no_ties else cells.tied
        for column, decay in enumerate(_DECAYS):
            near_means(cells.offset, cells.value - level, tied, decay, causal, near[:, column])
    none = np.zeros((cells.n_cells, 0))
    return ValueFeatures(
        **vars(found),
        level=level,
        item_count=model.count[rows],
        neighbors=near,
        others=none,
        expected=none,
        share=none,
        amounts=none,
    )


def add_near(
    features: ValueFeatures,
    kernel: NearKernel,
    model: FactorModel,
    cells: ValueCells,
    *,
    causal: bool,
) -> ValueFeatures:
    """Neighbors by a kernel, of standardized cells: their mean, and what they leave open."""
    spread = spread_of(model, cells)
    mean, share = kernel.predictions(cells, (cells.value - features.level) / spread, causal=causal)
    more = features.neighbors[:, 1:] if features.neighbors.shape[1] else np.zeros((len(mean), 1))
    near = np.column_stack([mean * spread, more])
    return replace(features, neighbors=near, variance=features.variance * share)


def spread_of(model: FactorModel, cells: ValueCells) -> Float64[np.ndarray, "cells"]:
    """The standard deviations of items' values about their levels."""
    rows = model.rows(cells)
    return np.sqrt(model.noise + np.square(model.loading).sum(1))[rows]


def add_amounts(
    features: ValueFeatures, model: FactorModel, cells: ValueCells, *, causal: bool
) -> ValueFeatures:
    """Fill in `amounts` where the model has some; values of `cells` are as they are."""
    if model.amount is None:
        return features
    from exfam.kernels.value_passes import sum_amounts

    found = np.zeros((cells.n_cells, 3))
    found[:, 0] = model.amount[model.rows(cells)]
    sum_amounts(cells.offset, cells.value, causal, found)
    return replace(features, amounts=found)
