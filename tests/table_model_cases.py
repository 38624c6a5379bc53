"""Table models whose joint distribution is known, and tables as cells."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from exfam.families import Categorical, Gaussian
from exfam.tables.data import (
    Cells,
    Column,
    TableSchema,
    encode_table,
    encode_values,
    learn_schema,
    read_table,
)


def learned(*tables, kinds=None, numeric="continuous", n_bins=4, n_knots=None, **options):
    return learn_schema(
        [read_table(table) for table in tables],
        kinds=kinds or {},
        numeric=numeric,
        n_bins=n_bins,
        n_knots=n_knots or n_bins,
        **options,
    )


def encoded(schema, X, *, unknown="error"):
    return encode_table(schema, read_table(X), unknown=unknown)


def learned_and_encoded(X, **options):
    schema = learned(X, **options)
    return schema, encoded(schema, X)


def cells_of(schema, value):
    """The cells of a table given as the numbers that the families know, NaN where absent."""
    value = np.asarray(value, dtype=np.float64)
    parts = [encode_values(column, value[:, j]) for j, column in enumerate(schema.columns)]
    code, fraction = (np.stack(arrays, axis=1) for arrays in zip(*parts, strict=True))
    return Cells(code, fraction, value.copy())


@dataclass(frozen=True, eq=False)
class DiscreteJoint:
    """Every conditional of one table of joint probabilities; `heat` != 1 spoils their agreement."""

    schema: TableSchema
    probs: np.ndarray
    heat: float = 1.0

    @property
    def families(self):
        return tuple(Categorical(n) for n in self.probs.shape)

    @property
    def known(self):
        """Probabilities of codes, of -1 those of any code."""
        table = self.probs
        for axis in range(table.ndim):
            table = np.concatenate([table, table.sum(axis, keepdims=True)], axis)
        return table

    def eta(self, cells, targets):
        return [self._eta_of(cells, target) for target in targets]

    def _eta_of(self, cells, target):
        others = np.delete(cells.code, target, axis=1)
        logs = np.log(np.moveaxis(self.known, target, -1)[..., :-1][tuple(others.T)])
        heat = np.where((others >= 0).any(1, keepdims=True), self.heat, 1.0)
        return torch.from_numpy(logs * heat)[None]


@dataclass(frozen=True, eq=False)
class GaussianJoint:
    """Every conditional of one Gaussian of all columns."""

    schema: TableSchema
    mean: np.ndarray
    cov: np.ndarray

    @property
    def families(self):
        return (Gaussian(),) * len(self.mean)

    def given(self, value, known, unknown):
        """Mean and covariance of columns given the values of others."""
        cross = self.cov[np.ix_(unknown, known)] @ np.linalg.inv(self.cov[np.ix_(known, known)])
        mean = self.mean[unknown] + (value - self.mean[known]) @ cross.T
        return mean, self.cov[np.ix_(unknown, unknown)] - cross @ self.cov[np.ix_(known, unknown)]

    def eta(self, cells, targets):
        return [self._eta_of(cells, target) for target in targets]

    def _eta_of(self, cells, target):
        eta = np.empty((len(cells), 2))
        patterns, which = np.unique(cells.present, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == k)
            known = [j for j in np.flatnonzero(pattern) if j != target]
            mean, cov = self.given(cells.value[np.ix_(rows, known)], known, [target])
            eta[rows, 0], eta[rows, 1] = mean[:, 0], np.log(cov[0, 0]) / 2
        return torch.from_numpy(eta)[None]


def labels(name, n, kind="categorical"):
    return Column(name, kind, labels=np.arange(n))


def number(name):
    return Column(name, "numeric", knots=np.linspace(-3.0, 3.0, 5))


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
    return cells.where(np.random.default_rng(seed).random(cells.code.shape) >= share)


def joint_cases(n=60):
    """A model of labels and one of numbers, and rows of each."""
    discrete, gaussian = discrete_joint(), gaussian_joint()
    return {
        "discrete": (discrete, discrete_rows(discrete, n)),
        "gaussian": (gaussian, gaussian_rows(gaussian, n)),
    }


BOTH = pytest.mark.parametrize(("model", "cells"), joint_cases().values(), ids=joint_cases())
