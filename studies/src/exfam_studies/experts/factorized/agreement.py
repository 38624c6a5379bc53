"""How far products of fitted vectors agree with the matrix that they should be."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Shaped

from exfam.checks import DataError, ExfamError
from exfam.vectors.evaluation import rank_correlation
from exfam_studies.experts.factorized.matrices import FactorMatrix


@dataclass(frozen=True)
class Agreement:
    """Correlations of products with the entries of a matrix, each from -1 to 1.

    `spearman`: of the ranks of all cells whose context occurs, of which pairs that never occur are
        the lowest
    `pearson`: of the cells that are defined, finite numbers
    Either is nan for fewer than 2 cells or where all are equal.

    >>> print(Agreement("all pairs", spearman=0.75, pearson=0.7, n_cells=144, n_defined=83))
    all pairs: Spearman 0.750 of 144 cells, Pearson 0.700 of the 83 defined
    """

    band: str
    spearman: float
    pearson: float
    n_cells: int
    n_defined: int

    def __str__(self) -> str:
        return (
            f"{self.band}: Spearman {self.spearman:.3f} of {self.n_cells} cells, "
            f"Pearson {self.pearson:.3f} of the {self.n_defined} defined"
        )


def agreement(products: Float[np.ndarray, "rows columns"], matrix: FactorMatrix) -> Agreement:
    """The agreement of `products`, centers in rows, with a matrix, over all pairs.

    Raises DataError for products of another shape, or that are not finite.
    Source: "Bidirectional attention as a mixture of continuous word experts", appendix G.

    >>> matrix = FactorMatrix(np.array([[0.0, 0.7], [-np.inf, 1.4]]), "log i", ())
    >>> print(agreement(np.array([[0.1, 0.2], [0.0, 0.4]]), matrix))
    all pairs: Spearman 1.000 of 4 cells, Pearson 0.982 of the 3 defined
    """
    _check_products(products, matrix)
    return _over(np.ones(products.shape, bool), products, matrix, band="all pairs")


def agreement_by_band(
    products: Float[np.ndarray, "rows columns"],
    matrix: FactorMatrix,
    *,
    frequency: Shaped[np.ndarray, "given"],
    bounds: Sequence[int | float],
) -> tuple[Agreement, ...]:
    """The agreement within bands of frequency: a pair is in that of the rarer of its two words.

    `frequency`: of each word, a count or a share
    `bounds`: where a band ends and the next begins, rising; a word at a bound is in the upper band

    Raises DataError for products or frequencies that do not go with the matrix, ExfamError for
    bounds that do not rise.
    """
    _check_products(products, matrix)
    if frequency.shape != (len(products),):
        raise DataError(
            f"`frequency` must have a number for each of {len(products)} words, got shape "
            f"{frequency.shape}."
        )
    if not bounds or list(bounds) != sorted(set(bounds)):
        raise ExfamError(f"`bounds` must be numbers that rise, got {list(bounds)}.")
    of_pair = np.searchsorted(bounds, np.minimum(frequency[:, None], frequency), side="right")
    return tuple(
        _over(of_pair == place, products, matrix, band=band)
        for place, band in enumerate(_names(bounds))
    )


def _names(bounds: Sequence[int | float]) -> list[str]:
    ends = [f"{bound:g}" for bound in bounds]
    between = [f"{low} to {high}" for low, high in zip(ends, ends[1:], strict=False)]
    return [f"below {ends[0]}", *between, f"{ends[-1]} and more"]


def _over(
    chosen: Bool[np.ndarray, "words contexts"],
    products: Float[np.ndarray, "words contexts"],
    matrix: FactorMatrix,
    *,
    band: str,
) -> Agreement:
    ranked = chosen & ~np.isnan(matrix.values)
    defined = chosen & matrix.defined
    return Agreement(
        band=band,
        spearman=rank_correlation(products[ranked], matrix.values[ranked]),
        pearson=_pearson(products[defined].astype(np.float64), matrix.values[defined]),
        n_cells=int(ranked.sum()),
        n_defined=int(defined.sum()),
    )


def _pearson(a: Float64[np.ndarray, "cells"], b: Float64[np.ndarray, "cells"]) -> float:
    if len(a) < 2:
        return float("nan")
    left, right = a - a.mean(), b - b.mean()
    scale = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / scale) if scale else float("nan")


def _check_products(products: Float[np.ndarray, "rows columns"], matrix: FactorMatrix) -> None:
    if products.shape != matrix.values.shape:
        raise DataError(
            f"`products` must have the matrix's shape {matrix.values.shape}, got {products.shape}. "
            "Take all words of the text that pairs were counted in."
        )
    if not np.isfinite(products).all():
        raise DataError("`products` must be finite, got NaN or infinite ones.")
