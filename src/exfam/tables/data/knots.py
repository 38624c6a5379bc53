"""Quantiles of a column of numbers: knots of hat functions, edges of bins."""

import numpy as np
from jaxtyping import Float64

_HUGE = 1e150  # from here on differences or squares may overflow


def quantile_knots(
    ordered: Float64[np.ndarray, " values"], n_knots: int
) -> Float64[np.ndarray, " knots"]:
    """At most `n_knots` of the sorted values, from the least to the greatest, each once.

    They are quantiles, where no value counts for more than the share of one knot: beside a value
    that most rows have, such as 0, the others have their knots. A column of few distinct values has
    these as its knots.
    """
    distinct, counts = np.unique(ordered, return_counts=True)
    if len(distinct) <= n_knots:
        return distinct
    weight = _capped(counts.astype(np.float64), n_knots)
    middle = weight.cumsum() - weight / 2
    index = np.searchsorted(middle, np.linspace(0, weight.sum(), n_knots))
    return distinct[np.unique(np.append(index.clip(max=len(distinct) - 1), 0))]


def _capped(
    counts: Float64[np.ndarray, " distinct"], n_parts: int
) -> Float64[np.ndarray, " distinct"]:
    """Counts, none of which is more than a part of their sum."""
    for _ in range(n_parts):
        most = counts.sum() / n_parts
        if counts.max() <= most * (1 + _CLOSE):
            break
        counts = np.minimum(counts, most)
    return counts


_CLOSE = 0.01


def bin_edges(
    ordered: Float64[np.ndarray, " values"], n_bins: int
) -> Float64[np.ndarray, " edges"]:
    """Inner edges of at most `n_bins` bins that hold about equally many of the sorted values.

    A value equal to an edge lies in the lower bin, so no edge is as great as the greatest value,
    which would leave the last bin empty; unless all values are equal.
    """
    far = max(abs(float(ordered[0])), abs(float(ordered[-1]))) > _HUGE
    unit = 4.0 if far else 1.0
    edges = np.unique(np.quantile(ordered / unit, np.arange(1, n_bins) / n_bins)) * unit
    edges = edges[edges < ordered[-1]]
    if len(edges):
        return edges
    return np.unique(ordered)[-2:][:1]


def location_and_spread(ordered: Float64[np.ndarray, " values"]) -> tuple[float, float]:
    """Mean and standard deviation, the latter 1 where all values are equal."""
    if ordered[0] == ordered[-1]:
        return float(ordered[0]), 1.0
    unit = max(abs(float(ordered[0])), abs(float(ordered[-1])))
    shares = ordered / unit
    return float(shares.mean()) * unit, float(shares.std()) * unit or 1.0
