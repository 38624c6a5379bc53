"""How local and how symmetric attention is.

Weights are rows of probabilities: `weights[..., i, j]` is what position i pays to position j. Rows
of zeros, of positions that have nothing to attend to, are left out of all means.

What is found where positions do not matter at all is not 0: min-max normalization makes equal
discrepancies 0, so that uniform attention is symmetric, as is causal uniform attention (symmetry
1.0), attention to the next position has .97 at length 128, random rows .75. `raw_symmetry` compares
discrepancies with the mass itself instead: both of these have 0 there.
Source: Chen, Varoquaux & Suchanek (2023), section 3.1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.analysis.positions.weights import check_weights
from exfam.checks import ExfamError, check_choice, check_positive

__all__ = ["AVERAGES", "locality", "raw_symmetry", "row_locality", "row_symmetry", "symmetry"]

AVERAGES = ("micro", "macro")
# Numbers worked on at a time: as many as a processor's cache holds.
_AT_ONCE = 2**17

# Matrices, any number of them; `check_weights` says what else they must be.
Weights = Float[Tensor, "*batch_query_key"]


def locality(weights: Weights) -> Float[Tensor, "*batch"]:
    """Attention mass near the diagonal, halved with each step of distance; mean over rows.

    From 0 to 1; 1 when every position attends only to itself. In float64.
    Raises DataError for weights that are no rows of probabilities (`check_weights`).
    Source: Chen, Varoquaux & Suchanek (2023), eq. 6.

    >>> locality(torch.eye(4)), locality(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    (tensor(1., dtype=torch.float64), tensor(0.7500, dtype=torch.float64))
    """
    return _mean_of_rows(row_locality(weights))


def row_locality(weights: Weights) -> Float[Tensor, "*batch query"]:
    """Locality of each row; NaN for a row of zeros. See `locality`.

    >>> row_locality(torch.tensor([[0.0, 1.0], [0.0, 1.0]])).tolist()
    [0.5, 1.0]
    """
    check_weights(weights)
    return _by_rows(weights, _LocalMass)[..., 0]


def symmetry(
    weights: Weights, *, average: str = "micro", tolerance: float = 1e-5
) -> Float[Tensor, "*batch"]:
    """1 minus how unlike the weights at equal distances to both sides are, row by row.

    In row i, d_k = |eps_(i,i-k) - eps_(i,i+k)| for all k with both neighbors, min-max normalized
    over the row's k. `average`: "micro" for the mean over all pairs of all rows, as the authors'
    code has it, "macro" for the mean over rows of their means (default "micro").
    `tolerance`: discrepancies, and spans of them, up to this share of the row's largest weight are
    rounding and count as 0 (default 1e-5)

    From 0 to 1, in float64. Raises DataError as `locality`, and ExfamError for fewer than 3
    positions, where no position has neighbors on both sides.
    Source: Chen, Varoquaux & Suchanek (2023), eq. 7.

    >>> symmetry(torch.full((5, 5), 0.2)).item()
    1.0
    >>> symmetry(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.2, 0.2]])).item()
    1.0
    """
    check_choice("average", average, AVERAGES)
    if average == "macro":
        return _mean_of_rows(row_symmetry(weights, tolerance=tolerance))
    unlike, pairs = _pairs(weights, tolerance).nansum(-2).unbind(-1)
    return 1.0 - unlike / pairs


def row_symmetry(weights: Weights, *, tolerance: float = 1e-5) -> Float[Tensor, "*batch query"]:
    """Symmetry of each row; NaN for a row of zeros and where one side is empty. See `symmetry`.

    >>> row_symmetry(torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])).tolist()
    [nan, 1.0, nan]
    """
    unlike, pairs = _pairs(weights, tolerance).unbind(-1)
    return 1.0 - unlike / pairs


def raw_symmetry(weights: Weights) -> Float[Tensor, "*batch"]:
    """1 minus the discrepancies of all pairs as a share of the mass that they compare.

    sum |eps_(i,i-k) - eps_(i,i+k)| / sum (eps_(i,i-k) + eps_(i,i+k)), over all k and rows: without
    min-max normalization, 0 where all attention is one-sided. 1 where no pair has mass.
    Raises as `symmetry`.

    >>> raw_symmetry(torch.full((5, 5), 0.2)).item()
    1.0
    >>> raw_symmetry(torch.full((3, 3), 1.0).tril() / torch.tensor([[1.0], [2.0], [3.0]])).item()
    0.0
    """
    _check_long(weights)
    apart, mass = _by_rows(weights, _Masses).nansum(-2).unbind(-1)
    return 1.0 - torch.where(mass > 0, apart / mass, 0.0)


def _mean_of_rows(told: Tensor) -> Tensor:
    return told.nanmean(-1)


def _check_long(weights: Tensor) -> None:
    check_weights(weights)
    if weights.shape[-1] < 3:
        raise ExfamError(
            "`weights` must be of at least 3 positions for a symmetry, got "
            f"{weights.shape[-1]}: none has neighbors on both sides. Take a longer sentence."
        )


def _pairs(weights: Tensor, tolerance: float) -> Float[Tensor, "*batch query 2"]:
    """Of each row: normalized discrepancies, summed over pairs, and how many pairs there are."""
    check_positive("tolerance", tolerance, zero=True)
    _check_long(weights)
    return _by_rows(weights, lambda span: _Discrepancies(span, tolerance))


@dataclass(frozen=True)
class _Span:
    """Some rows of matrices: the first, how many, of how many positions, where they are."""

    first: int
    n_rows: int
    length: int
    device: torch.device

    @property
    def place(self) -> Tensor:
        return torch.arange(self.first, self.first + self.n_rows, device=self.device)

    @property
    def reach(self) -> int:
        """Steps to both sides that some row has."""
        return (self.length - 1) // 2

    @property
    def has_both(self) -> Tensor:
        """Of each row and step, whether there are neighbors at that distance on both sides."""
        step = torch.arange(1, self.reach + 1, device=self.device)
        place = self.place[:, None]
        return (place >= step) & (place + step < self.length)


def _by_rows(
    weights: Tensor, numbers: Callable[[_Span], Callable[[Tensor], Tensor]]
) -> Float[Tensor, "*batch query _"]:
    """Numbers of each row, some rows of some matrices at a time; NaN for rows of zeros."""
    length = weights.shape[-1]
    matrices = weights.detach().reshape(-1, length, length)
    n_rows = max(1, min(length, _AT_ONCE // length))
    together = max(1, _AT_ONCE // (n_rows * length))
    columns = []
    for first in range(0, length, n_rows):
        span = _Span(first, min(n_rows, length - first), length, weights.device)
        of_rows, rows = numbers(span), matrices[:, first : first + n_rows]
        columns.append(torch.cat([_told(some, of_rows) for some in rows.split(together)]))
    return torch.cat(columns, 1).reshape(*weights.shape[:-1], -1)


def _told(rows: Tensor, numbers: Callable[[Tensor], Tensor]) -> Tensor:
    rows = rows.double()
    return numbers(rows).masked_fill_((rows.amax(-1) == 0)[..., None], torch.nan)


class _LocalMass:
    """Locality of rows."""

    def __init__(self, span: _Span) -> None:
        key = torch.arange(span.length, device=span.device)
        distance = (span.place[:, None] - key).abs()
        self.decay = torch.exp2(-distance.double())

    def __call__(self, rows: Float[Tensor, "matrices rows key"]) -> Tensor:
        return (rows * self.decay).sum(-1, keepdim=True)


class _Discrepancies:
    """Normalized discrepancies of rows, summed, and pairs."""

    def __init__(self, span: _Span, tolerance: float) -> None:
        self.span, self.tolerance = span, tolerance
        both = span.has_both
        self.both = both.double()
        self.beyond = torch.zeros_like(self.both).masked_fill_(~both, torch.inf)
        self.n_pairs = self.both.sum(-1)

    def __call__(self, rows: Float[Tensor, "matrices rows key"]) -> Tensor:
        before, after = _neighbors(rows, self.span)
        apart = (before - after).abs_().mul_(self.both)
        rounding = self.tolerance * rows.amax(-1)
        apart.masked_fill_(apart <= rounding[..., None], 0.0)
        least = (apart + self.beyond).amin(-1)
        spread = apart.amax(-1) - least
        # The sum of (d - least) / spread over the row's pairs.
        unlike = (apart.sum(-1) - self.n_pairs * least) / spread
        unlike = torch.where(spread > rounding, unlike, 0.0)
        return torch.stack([unlike, self.n_pairs.expand_as(unlike)], -1)


class _Masses:
    """Discrepancies of rows, and the mass that they compare."""

    def __init__(self, span: _Span) -> None:
        self.span, self.both = span, span.has_both.double()

    def __call__(self, rows: Float[Tensor, "matrices rows key"]) -> Tensor:
        before, after = _neighbors(rows, self.span)
        apart, mass = (before - after).abs(), before + after
        return torch.stack([(each * self.both).sum(-1) for each in (apart, mass)], -1)


def _neighbors(rows: Float[Tensor, "matrices rows key"], span: _Span) -> tuple[Tensor, Tensor]:
    """Weights 1, 2, ... steps before each row's own position, and after it.

    Where a row has no such neighbor, they are any numbers. Views that step along the diagonal.
    """
    length, reach, first = span.length, span.reach, span.first
    after = _diagonal(rows, length + 1, first + 1, reach)
    before = _diagonal(rows.flip(-1), length - 1, length - first, reach)
    return before, after


def _diagonal(rows: Tensor, step: int, start: int, reach: int) -> Tensor:
    """From `start` in the first row on, `step` further in each row: `reach` weights."""
    n_matrices, n_rows, length = rows.shape
    # As many zeros after the last row as views may step beyond it.
    padded = rows.new_zeros(n_matrices, n_rows * length + length + reach)
    padded[:, : n_rows * length] = rows.flatten(1)
    size = (n_matrices, n_rows, reach)
    return padded.as_strided(size, (padded.shape[1], step, 1), start)
