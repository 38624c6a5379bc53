"""What a conditional mean is made of: the overall mean, the item and every other value, exactly.

The mean of z_j given its context is linear in the residuals r_k = z_k - mu - b_k of the others,

    m_j = mu + b_j + sum_k V_j' C V_k r_k / D_k,   C = (I + sum_k V_k V_k' / D_k)^-1

and V_j' C V_k is the sum of a part by the group's level (the first factor) and one by the others.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.conditionals import model_rows
from exfam.efa.values.factor_em import FactorModel


@dataclass(frozen=True, eq=False)
class ValueContributions:
    """Parts of the means of some cells, in standardized units; their sum is `Conditionals.mean`.

    Of every pair of a cell and a value in its context, `target` is the cell's position among those
    chosen, `source` the number of the context's cell, `by_level` what that adds through the group's
    level, `by_factors` through what items have in common.
    """

    overall: float
    item: Float64[np.ndarray, "chosen"]
    target: Int64[np.ndarray, "pairs"]
    source: Int64[np.ndarray, "pairs"]
    by_level: Float64[np.ndarray, "pairs"]
    by_factors: Float64[np.ndarray, "pairs"]

    @property
    def level(self) -> Float64[np.ndarray, "chosen"]:
        """What the group's level adds, all its values together."""
        return np.bincount(self.target, self.by_level, len(self.item))

    @property
    def mean(self) -> Float64[np.ndarray, "chosen"]:
        """The sum of all parts."""
        factors = np.bincount(self.target, self.by_factors, len(self.item))
        return self.overall + self.item + self.level + factors


def contributions_to_mean(
    model: FactorModel,
    cells: ValueCells,
    chosen: Int64[np.ndarray, "chosen"],
    *,
    causal: bool,
) -> ValueContributions:
    """Of some cells, by their numbers; values of `cells` are standardized."""
    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    group = np.searchsorted(cells.offset, chosen, side="right") - 1
    pairs = []
    for position, (cell, u) in enumerate(zip(chosen, group, strict=True)):
        source = np.arange(cells.offset[u], cell if causal else cells.offset[u + 1])
        source = source[(source != cell) & np.isfinite(rest[source])]
        loading = model.loading[rows[source]]
        scaled = loading / model.noise[rows[source], None]
        precision = np.eye(loading.shape[1]) + loading.T @ scaled
        # A row per source, a column per factor: what the source says of the factor.
        shift = np.linalg.solve(precision, scaled.T).T * rest[source, None]
        parts = shift * model.loading[rows[cell]]
        pairs.append((np.full(len(source), position), source, parts[:, 0], parts[:, 1:].sum(1)))
    none = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)]
    target, source, level, factors = (
        np.concatenate([empty, *(pair[part] for pair in pairs)]) for part, empty in enumerate(none)
    )
    return ValueContributions(
        overall=model.mu,
        item=model.level[rows[chosen]],
        target=target,
        source=source,
        by_level=level,
        by_factors=factors,
    )
