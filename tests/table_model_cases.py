"""Table models whose joint distribution is known, so that all they say of rows can be checked."""

from dataclasses import dataclass

import numpy as np
import torch

from exfam.families import Categorical, Gaussian
from exfam.tables.data.cells import Cells
from exfam.tables.data.columns import Column
from exfam.tables.data.encode import encode_values
from exfam.tables.data.schema import TableSchema


def cells_of(schema, value):
    """The cells of a table given as the numbers that the families know, NaN where absent."""
    value = np.asarray(value, dtype=np.float64)
    encoded = [encode_values(column, value[:, j]) for j, column in enumerate(schema.columns)]
    code = np.stack([code for code, _ in encoded], axis=1)
    return Cells(code, np.stack([fraction for _, fraction in encoded], axis=1), value.copy())


def present_patterns(cells):
    """Each pattern of present columns, with the rows that have it."""
    patterns, which = np.unique(cells.code >= 0, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(which.ravel() == k)


@dataclass(frozen=True, eq=False)
class DiscreteJoint:
    """Every conditional of one table of joint probabilities; `heat` != 1 spoils their agreement."""

    schema: TableSchema
    probs: np.ndarray
    heat: float = 1.0

    @property
    def families(self):
        return tuple(Categorical(n) for n in self.probs.shape)

    def eta(self, cells, targets):
        return [self._eta_of(cells, target) for target in targets]

    def _eta_of(self, cells, target):
        eta = np.empty((len(cells), self.probs.shape[target]))
        for pattern, rows in present_patterns(cells):
            known = [j for j in np.flatnonzero(pattern) if j != target]
            absent = tuple(j for j in range(self.probs.ndim) if j != target and j not in known)
            distribution = np.moveaxis(self.probs.sum(absent, keepdims=True), target, -1)
            index = [cells.code[rows, j] if j in known else 0 for j in range(self.probs.ndim)]
            del index[target]
            eta[rows] = np.log(distribution[tuple(index)]) * (self.heat if known else 1.0)
        return torch.from_numpy(eta)[None]


@dataclass(frozen=True, eq=False)
class GaussianJoint:
    """Every conditional of one Gaussian of all columns."""

    schema: TableSchema
    mean: np.ndarray
    cov: np.ndarray

    @property
    def families(self):
        return (Gaussian(),) * len(self.mean)

    def eta(self, cells, targets):
        return [self._eta_of(cells, target) for target in targets]

    def _eta_of(self, cells, target):
        eta = np.empty((len(cells), 2))
        for pattern, rows in present_patterns(cells):
            known = [j for j in np.flatnonzero(pattern) if j != target]
            slope = np.linalg.solve(self.cov[np.ix_(known, known)], self.cov[known, target])
            moved = (cells.value[np.ix_(rows, known)] - self.mean[known]) @ slope
            variance = self.cov[target, target] - self.cov[target, known] @ slope
            eta[rows] = np.stack(
                [self.mean[target] + moved, np.full(len(rows), np.log(variance) / 2)], axis=1
            )
        return torch.from_numpy(eta)[None]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Several table models as members of one."""

    members: tuple

    @property
    def schema(self):
        return self.members[0].schema

    @property
    def families(self):
        return self.members[0].families

    def eta(self, cells, targets):
        each = [member.eta(cells, targets) for member in self.members]
        return [torch.cat(of_target) for of_target in zip(*each, strict=True)]


def labels(name, n, kind="categorical"):
    return Column(name, kind, labels=np.arange(n))


def number(name, low=-3.0, high=3.0):
    return Column(name, "numeric", knots=np.linspace(low, high, 5))


def discrete_joint(*, heat=1.0, seed=0):
    schema = TableSchema((labels("a", 2, "boolean"), labels("b", 3), labels("c", 4, "ordinal")))
    probs = np.random.default_rng(seed).dirichlet(np.ones(24)).reshape(2, 3, 4)
    return DiscreteJoint(schema, probs, heat)


def gaussian_joint():
    schema = TableSchema(tuple(number(name) for name in "uvwx"))
    root = np.random.default_rng(1).normal(size=(4, 4)) * 0.6
    return GaussianJoint(schema, np.array([1.0, -2.0, 0.5, 3.0]), root @ root.T + np.eye(4) * 0.3)


def discrete_rows(model, n, *, seed=0):
    rng = np.random.default_rng(seed)
    flat = rng.choice(model.probs.size, size=n, p=model.probs.ravel())
    return cells_of(model.schema, np.stack(np.unravel_index(flat, model.probs.shape), axis=1))


def gaussian_rows(model, n, *, seed=0):
    rng = np.random.default_rng(seed)
    return cells_of(model.schema, rng.multivariate_normal(model.mean, model.cov, size=n))


def drop_cells(cells, *, share=0.4, seed=5):
    """The cells with a share of them absent, in many patterns."""
    gone = np.random.default_rng(seed).random(cells.code.shape) < share
    return Cells(
        np.where(gone, np.int32(-1), cells.code),
        np.where(gone, np.float32(0), cells.fraction),
        np.where(gone, np.nan, cells.value),
    )
