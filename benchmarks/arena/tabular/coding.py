"""Cells as numbers: codes of texts for trees, or a matrix of features for all else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float

Matrix = Float[np.ndarray, "rows columns"]


@dataclass(frozen=True, eq=False)
class Coder:
    """Numbers as they are and codes of texts; NaN for what is missing or new."""

    texts: Mapping[str, Sequence[str]]

    def codes(self, cells: pd.DataFrame) -> Matrix:
        columns = [self._codes(cells[name], name) for name in cells.columns]
        return np.column_stack(columns)

    def places(self, cells: pd.DataFrame) -> list[int]:
        """Which columns are texts."""
        return [index for index, name in enumerate(cells.columns) if name in self.texts]

    def _codes(self, column: pd.Series, name: str) -> np.ndarray:
        if name not in self.texts:
            return column.to_numpy(dtype=np.float64)
        codes = pd.Categorical(column, categories=self.texts[name]).codes.astype(np.float64)
        return np.where(codes < 0, np.nan, codes)


def learn_coder(cells: pd.DataFrame) -> Coder:
    """The texts of each column that has some."""
    is_text = [name for name in cells.columns if not pd.api.types.is_numeric_dtype(cells[name])]
    return Coder({name: sorted(cells[name].dropna().unique()) for name in is_text})


# Shares of training rows below the knots of a number's piecewise linear curve.
KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
# Pairs of columns are multiplied where no more products come of it.
MOST_PRODUCTS = 700
# Standardized features go no further out.
_FARTHEST = 6.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Features:
    """Standardized numbers with their means for missing ones, texts and what is missing as 0 or 1.

    `knots`: of each number's curve; `pairs`: columns of the plain features that are multiplied
    """

    coder: Coder
    mean: Float[np.ndarray, "columns"]
    sd: Float[np.ndarray, "columns"]
    may_lack: Sequence[int]
    knots: Mapping[int, Sequence[float]]
    pairs: Sequence[tuple[int, int]]
    unit: tuple[np.ndarray, np.ndarray] | None = None

    def matrix(self, cells: pd.DataFrame) -> Matrix:
        codes = self.coder.codes(cells)
        texts = self.coder.places(cells)
        numbers = [index for index in range(codes.shape[1]) if index not in texts]
        z = np.clip((codes - self.mean) / self.sd, -_FARTHEST, _FARTHEST)
        z = np.nan_to_num(z)
        ones = [self._ones(codes[:, index], cells.columns[index]) for index in texts]
        plain = np.column_stack([z[:, numbers], *ones]) if ones else z[:, numbers]
        curves = [np.maximum(z[:, i, None] - np.array(k), 0) for i, k in self.knots.items()]
        first, second = np.array(self.pairs, dtype=int).reshape(-1, 2).T
        products = np.clip(plain[:, first] * plain[:, second], -_FARTHEST, _FARTHEST)
        lacks = np.isnan(codes[:, self.may_lack])
        whole = np.column_stack([plain, *curves, products, lacks])
        return whole if self.unit is None else (whole - self.unit[0]) / self.unit[1]

    def _ones(self, codes: np.ndarray, name: str) -> Matrix:
        return (codes[:, None] == np.arange(len(self.coder.texts[name]))).astype(np.float64)


def learn_features(
    cells: pd.DataFrame, *, curves: bool = False, products: bool = False
) -> Features:
    """Plain features, with a curve of each number or products of pairs of columns where wanted."""
    coder = learn_coder(cells)
    codes, texts = coder.codes(cells), coder.places(cells)
    numbers = [index for index in range(codes.shape[1]) if index not in texts]
    there = ~np.isnan(codes)
    n_there = np.maximum(there.sum(0), 1)
    mean = np.where(there, codes, 0).sum(0) / n_there
    sd = np.sqrt(np.where(there, (codes - mean) ** 2, 0).sum(0) / n_there)
    sd = np.where(sd > 1e-12, sd, 1.0)
    column = numbers + [index for index in texts for _ in coder.texts[cells.columns[index]]]
    features = Features(
        coder=coder,
        mean=mean,
        sd=sd,
        may_lack=np.flatnonzero(~there.all(0)).tolist(),
        knots=_knots((codes - mean) / sd, numbers) if curves else {},
        pairs=_pairs(column, len(numbers)) if products else [],
    )
    whole = features.matrix(cells)
    spread = whole.std(0)
    return replace(features, unit=(whole.mean(0), np.where(spread > 1e-9, spread, 1.0)))


def _knots(z: Matrix, numbers: Sequence[int]) -> dict[int, list[float]]:
    knots = {}
    for index in numbers:
        own = z[~np.isnan(z[:, index]), index]
        inner = np.unique(np.quantile(own, KNOTS)) if len(own) else np.array([])
        inside = inner[(inner > own.min()) & (inner < own.max())] if len(own) else inner
        if len(inside):
            knots[index] = inside.tolist()
    return knots


def _pairs(column: Sequence[int], n_numbers: int) -> list[tuple[int, int]]:
    """Of all features with squares of numbers; of numbers alone, or none, where those are many."""
    for size in (len(column), n_numbers):
        pairs = [
            (first, second)
            for first in range(size)
            for second in range(first, size)
            if column[first] != column[second] or first == second < n_numbers
        ]
        if len(pairs) <= MOST_PRODUCTS:
            return pairs
    return []
