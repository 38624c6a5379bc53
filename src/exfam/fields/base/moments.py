"""Mean outer products of rows of anomalies, some of which are missing."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.base.conditionals import (
    OfMatrix,
    PatternPart,
    given_near,
    inverse_of_known,
    nearest_columns,
    pattern_parts,
)

# Multiplications that a step of expectation-maximization may take, and what each way of showing
# rows costs beside. Beyond, rows are taken evenly; where those were too few, what is missing is
# filled in from near columns, and only its own variance is added.
MOST_MULTIPLICATIONS, BESIDE = 4e10, 2e6
FEWEST_ROWS_OF_A_COLUMN = 4
N_NEAR = 12
ROUNDS = 2

Rows = Float64[Tensor, "rows columns"]
Matrix = Float64[Tensor, "columns columns"]


def mean_products(
    values: Rows,
    shown: Bool[Tensor, "rows columns"],
    prior: Matrix,
    *,
    most: float = MOST_MULTIPLICATIONS,
) -> Matrix:
    """Expected mean outer products under a covariance half of them and half of `prior`."""
    values, n_columns = torch.where(shown, values, 0.0), values.shape[1]
    if bool(shown.all()):
        return values.T @ values / len(values)
    n_patterns = len(torch.unique(shown, dim=0))
    affordable = int(most / (float(n_columns) ** 3 + BESIDE))
    step = _expected
    if n_patterns > affordable and affordable >= FEWEST_ROWS_OF_A_COLUMN * n_columns:
        some = torch.linspace(0, len(values) - 1, min(affordable, len(values))).round().long()
        values, shown = values[some], shown[some]
    elif n_patterns > affordable:
        step = _filled
    covariance = prior
    for _ in range(ROUNDS):
        products = step(values, shown, covariance)
        covariance = 0.5 * products + 0.5 * prior
    return products


class FilledRows(NamedTuple):
    """Rows of mean 0 with what is expected of missing numbers; `left`: sum of their covariances."""

    rows: Rows
    left: Matrix


def filled_rows(values: Rows, parts: Sequence[PatternPart], covariance: Matrix) -> FilledRows:
    """The rows under a covariance; `parts` says what they show (see `pattern_parts`)."""
    filled, total = torch.empty_like(values), torch.zeros_like(covariance)
    for known, rows in parts:
        x = values[rows].view(len(known), -1, values.shape[1])
        weights = inverse_of_known(covariance, known) @ covariance
        filled[rows] = torch.where(known[:, None], x, x @ weights).flatten(0, 1)
        hidden = ~known[:, :, None] & ~known[:, None]
        left = torch.where(hidden, covariance - covariance @ weights, 0.0).sum(0)
        total += len(rows) / len(known) * left
    return FilledRows(filled, total)


def _expected(values: Rows, shown: Tensor, covariance: Matrix) -> Matrix:
    filled, left = filled_rows(values, pattern_parts(shown), covariance)
    return (filled.T @ filled + left) / len(values)


def _filled(values: Rows, shown: Tensor, covariance: Matrix) -> Matrix:
    columns = torch.arange(len(covariance))
    index = nearest_columns(covariance, columns, most=8 * N_NEAR)
    near = OfMatrix(covariance, columns, index)
    found = given_near(values, shown, near, n_used=N_NEAR)
    filled = torch.where(shown, values, found.mean)
    left = torch.where(shown, 0.0, found.variance).sum(0)
    return (filled.T @ filled + torch.diag(left)) / len(values)


def pairwise_products(values: Rows, shown: Bool[Tensor, "rows columns"]) -> Matrix:
    """Mean products over the rows that show both, without negative eigenvalues.

    One row more, of unit variance and no correlation, counts among them.
    """
    x, seen = torch.where(shown, values, 0.0), shown.double()
    count = seen.T @ seen + 1
    products = (x.T @ x + torch.eye(len(count)).to(x)) / count
    if bool(shown.all()):
        return products
    size, axes = torch.linalg.eigh(products)
    return (axes * size.clamp_min(0.0)) @ axes.T
