"""Covariates of sites as columns of a design, and smooth surfaces over them or over coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from scipy.spatial.distance import cdist

from exfam.checks import DataError
from exfam.tables.base.encode import squashed
from exfam.tables.base.views import GaussianFill
from exfam.tables.data.frames import RawColumn, RawTable

# Deciles of a normal are this many standard deviations apart.
_DECILES = 2.563
# Sites per bin, and how few and many bins a covariate has.
_PER_BIN, _FEWEST, _MOST = 40, 3, 10
# Labels that have a column of their own, the most frequent ones.
_MOST_LABELS = 100

Numbers = Float[np.ndarray, "sites"]
Matrix = Float[np.ndarray, "sites columns"]

_MOST_KNOTS = 400
# Ranges as shares of the typical distance between sites, and scales of the columns.
RANGES, SCALES = (0.15, 0.4, 1.0, 2.5), (1.0, 4.0)
_NUGGET = 1e-6

Points = Float[np.ndarray, "sites dims"]


@dataclass(frozen=True, eq=False)
class Covariate:
    """A number with its middle, its spread and the edges of its pieces, or labels.

    `labels`: those with a column, none of a number; all others count as missing
    """

    name: str
    center: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def n_raw(self) -> int:
        """Columns before pieces are made: one, or one for each label."""
        return len(self.labels) or 1

    def raw(self, column: RawColumn | None, n: int) -> Matrix:
        """Standardized numbers, or 1 for the label that there is; NaN where missing."""
        if column is None:
            return np.full((n, self.n_raw), np.nan)
        if self.labels:
            codes: dict[str | None, int] = {label: k for k, label in enumerate(self.labels)}
            code = np.array([codes.get(text, -1) for text in texts_of(column)])
            hot = (code[:, None] == np.arange(len(self.labels))).astype(np.float64)
            return np.where((code < 0)[:, None], np.nan, hot)
        return squashed((_numbers(column, self.name) - self.center) / self.spread)[:, None]

    def columns(self, raw: Matrix) -> Float[np.ndarray, "sites pieces"]:
        """Of a number z, z^2 / 2 and the pieces of a piecewise linear function."""
        if self.labels or len(self.edges) <= 2:
            return raw
        edges = np.array(self.edges)
        pieces = np.clip((raw - edges[:-1]) / (edges[1:] - edges[:-1]), 0.0, 1.0) - 0.5
        return np.column_stack([raw, 0.5 * raw**2, pieces])

    @property
    def n_columns(self) -> int:
        if self.labels or len(self.edges) <= 2:
            return self.n_raw
        return 1 + len(self.edges)


@dataclass(frozen=True, eq=False)
class SiteDesign:
    """All covariates, and the mean and covariance by which missing ones are filled in."""

    covariates: tuple[Covariate, ...]
    mean: Float64[np.ndarray, "raw"]
    covariance: Float64[np.ndarray, "raw raw"]

    def filled(self, table: RawTable) -> Float64[np.ndarray, "sites raw"]:
        """Standardized numbers and labels of the rows, missing ones filled in."""
        fill = GaussianFill(self.mean, np.ones_like(self.mean), self.covariance)
        return fill(self._raw(table))

    def points(self, filled: Float[np.ndarray, "sites raw"]) -> Float64[np.ndarray, "sites raw"]:
        """The same with a spread of 1 in every column."""
        return filled / np.sqrt(np.maximum(np.diag(self.covariance), 1e-6))

    def matrix(
        self, filled: Float[np.ndarray, "sites raw"]
    ) -> Float64[np.ndarray, "sites columns"]:
        """The additive design of rows."""
        parts, first = [np.zeros((len(filled), 0))], 0
        for covariate in self.covariates:
            own = filled[:, first : first + covariate.n_raw]
            parts.append(covariate.columns(own))
            first += covariate.n_raw
        return np.concatenate(parts, axis=1)

    def groups(self) -> np.ndarray:
        """The number of the covariate that each column is made of."""
        sizes = [covariate.n_columns for covariate in self.covariates]
        return np.repeat(np.arange(len(sizes)), sizes)

    def _raw(self, table: RawTable) -> Float64[np.ndarray, "sites raw"]:
        parts = [c.raw(table.columns.get(c.name), table.n_rows) for c in self.covariates]
        return np.concatenate([np.zeros((table.n_rows, 0)), *parts], axis=1)


def fit_design(table: RawTable, names: Sequence[str]) -> SiteDesign:
    """The design of these columns of a training table."""
    covariates = []
    for name in names:
        covariate = _covariate(table.columns[name], name)
        if covariate is not None:
            covariates.append(covariate)
    empty = SiteDesign(tuple(covariates), np.zeros(0), np.zeros((0, 0)))
    raw = empty._raw(table)
    there = ~np.isnan(raw)
    n = np.maximum(there.sum(0), 1)
    mean = np.where(there, raw, 0.0).sum(0) / n
    apart = np.where(there, raw - mean, 0.0)
    both = there.T.astype(float) @ there.astype(float)
    covariance = apart.T @ apart / np.maximum(both, 1.0)
    shrunk = min(0.5, len(mean) / max(len(raw), 1)) + 0.02
    variance = np.maximum(np.diag(covariance), 1e-6)
    covariance = (1 - shrunk) * covariance
    covariance[np.diag_indices_from(covariance)] = variance
    return SiteDesign(tuple(covariates), mean, covariance)


def _covariate(column: RawColumn, name: str) -> Covariate | None:
    """None for a column without two different values."""
    if column.labels is not None or column.category:
        found, counts = np.unique(
            [text for text in texts_of(column) if text is not None], return_counts=True
        )
        kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LABELS])
        labels = tuple(str(found[k]) for k in kept)
        return Covariate(name, labels=labels) if len(labels) > 1 else None
    number = _numbers(column, name)
    number = number[~np.isnan(number)]
    values = np.unique(number)
    if len(values) < 2:
        return None
    low, center, high = np.quantile(number, [0.1, 0.5, 0.9])
    spread = (high - low) / _DECILES
    # Where most values are one, deciles say nothing of the spread.
    spread = spread if spread > 1e-3 * number.std() else float(number.std())
    covariate = Covariate(name, float(center), float(spread))
    z = covariate.raw(RawColumn(number, np.zeros(len(number), bool)), len(number))[:, 0]
    return Covariate(name, float(center), float(spread), _edges(z))


def _edges(z: Numbers) -> tuple[float, ...]:
    n_bins = int(np.clip(len(z) // _PER_BIN, _FEWEST, _MOST))
    values = np.unique(z)
    if len(values) <= n_bins + 1:
        return tuple(values.tolist())
    return tuple(np.unique(np.quantile(z, np.linspace(0, 1, n_bins + 1))).tolist())


def texts_of(column: RawColumn) -> list[str | None]:
    """The labels of a column as text; None where missing."""
    texts: list[str | None] = []
    for row in range(len(column)):
        value: Any = None if column.missing[row] else column.at(row)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        texts.append(None if value is None else str(value))
    return texts


def _numbers(column: RawColumn, name: str) -> Float64[np.ndarray, "sites"]:
    if column.labels is not None and not column.is_empty:
        raise DataError(
            f"Column {name!r} must hold numbers, as in training, got "
            f"{column.at(int(np.flatnonzero(~column.missing)[0]))!r}. Give numbers, or leave the "
            "column out: it then counts as missing."
        )
    if column.type == "date":
        number = column.values.astype("datetime64[s]").astype(np.float64) / 86_400
    elif column.labels is not None:
        number = np.zeros(len(column))
    else:
        number = column.values.astype(np.float64)
    return np.where(column.missing, np.nan, number)


@dataclass(frozen=True, eq=False)
class SiteSurface:
    """Functions around knots: Matérn's of smoothness 3/2, whitened, times a scale.

    `unit`: the typical distance between sites; `reach`: in that unit
    """

    knots: Float[np.ndarray, "knots dims"]
    unit: float
    reach: float
    scale: float
    white: Float[np.ndarray, "knots knots"]

    def columns(self, points: Points) -> Float[np.ndarray, "sites knots"]:
        """Columns of the design; all 0 where a coordinate is missing."""
        there = ~np.isnan(points).any(1)
        columns = np.zeros((len(points), len(self.knots)))
        kernel = _kernel(points[there], self.knots, self.unit * self.reach)
        columns[there] = self.scale * kernel @ self.white
        return columns


def fit_site_surface(points: Points, *, reach: float, scale: float) -> SiteSurface | None:
    """The surface of these sites; None without two different ones."""
    sites = np.unique(points[~np.isnan(points).any(1)], axis=0)
    if len(sites) < 2:
        return None
    center = sites.mean(0)
    unit = float(np.sqrt(2 * np.square(sites - center).sum(1).mean()))
    knots = _far_apart(sites, center)
    values, vectors = np.linalg.eigh(_kernel(knots, knots, unit * reach))
    white = vectors / np.sqrt(np.maximum(values, _NUGGET))
    return SiteSurface(knots, unit, reach, scale, white @ vectors.T)


def _kernel(
    points: Points, knots: Float[np.ndarray, "knots dims"], reach: float
) -> Float[np.ndarray, "sites knots"]:
    distance = np.sqrt(3.0) * cdist(points, knots) / reach
    return (1 + distance) * np.exp(-distance)


def _far_apart(sites: Points, center: Float[np.ndarray, "dims"]) -> Float[np.ndarray, "knots dims"]:
    """Sites of which each is the farthest from those before it."""
    chosen = [int(np.square(sites - center).sum(1).argmin())]
    distance = cdist(sites, sites[chosen])[:, 0]
    while len(chosen) < min(_MOST_KNOTS, len(sites)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, cdist(sites, sites[chosen[-1:]])[:, 0])
    return sites[chosen]
