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
from torch.nn.functional import pad

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.positions.weights import check_weights

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
    unlike, pairs = _pairs(weights, tolerance).sum(-2).unbind(-1)
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
    apart, mass = _by_rows(weights, _Masses, margin=1).sum(-2).unbind(-1)
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
    return _by_rows(weights, lambda span: _Discrepancies(span, tolerance), margin=1)


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
        last = self.first + self.n_rows - 1
        return min(last, self.length - 1 - self.first, (self.length - 1) // 2)

    @property
    def n_pairs(self) -> Tensor:
        """Of each row, steps with a neighbor on both sides."""
        return torch.minimum(self.place, self.length - 1 - self.place)

    @property
    def has_both(self) -> Tensor:
        """Of each row and step, 1 where there are neighbors so far off on both sides, or 0."""
        step = torch.arange(1, self.reach + 1, device=self.device)
        return (step <= self.n_pairs[:, None]).double()

    def rows(self, matrices: Tensor) -> Tensor:
        return matrices.narrow(1, self.first, self.n_rows)

    def neighbors(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Weights 1, 2, ... steps before each row's own position, and after it: float64 copies.

        Where a row has no such neighbor, they are weights of the row above or below.
        """
        reach, step = self.reach, self.length + 1
        # Windows about the diagonal, whose places are `step` apart.
        from_first = matrices.flatten(1)[:, self.first * step - reach :]
        windows = from_first.unfold(1, 2 * reach + 1, step)[:, : self.n_rows]
        before, after = windows[..., :reach].flip(-1), windows[..., reach + 1 :]
        return before.double(), after.to(torch.float64, copy=True)


def _by_rows(
    weights: Tensor, numbers: Callable[[_Span], Callable[[Tensor], Tensor]], margin: int = 0
) -> Float[Tensor, "*batch query _"]:
    """Numbers of each row, found for some rows of some matrices at a time.

    They are 0 for as many rows at both ends as `margin` says.
    """
    length = weights.shape[-1]
    matrices = weights.detach().reshape(-1, length, length).contiguous()
    end = length - margin
    n_rows = max(1, min(end - margin, _AT_ONCE // length))
    together = max(1, _AT_ONCE // (n_rows * length))
    columns = []
    for first in range(margin, end, n_rows):
        of_rows = numbers(_Span(first, min(n_rows, end - first), length, weights.device))
        columns.append(torch.cat([of_rows(some) for some in matrices.split(together)]))
    told = pad(torch.cat(columns, 1), (0, 0, margin, margin))
    return told.reshape(*weights.shape[:-1], -1)


class _LocalMass:
    """Locality of rows; NaN for rows of zeros."""

    def __init__(self, span: _Span) -> None:
        self.span = span
        key = torch.arange(span.length, device=span.device)
        distance = (span.place[:, None] - key).abs()
        # Powers of two: products with them are exact in single precision, too.
        self.decay = torch.exp2(-distance.double()).float()

    def __call__(self, matrices: Float[Tensor, "matrices query key"]) -> Tensor:
        rows = self.span.rows(matrices)
        mass = (rows * self.decay).sum(-1, dtype=torch.float64)
        return mass.masked_fill_(rows.amax(-1) == 0, torch.nan)[..., None]


class _Discrepancies:
    """Normalized discrepancies of rows, summed, and pairs; none in rows of zeros."""

    def __init__(self, span: _Span, tolerance: float) -> None:
        self.span, self.tolerance = span, tolerance
        self.both, self.n_pairs = span.has_both, span.n_pairs
        # 0 or infinite.
        self.beyond = self.both.reciprocal() - 1.0

    def __call__(self, matrices: Float[Tensor, "matrices query key"]) -> Tensor:
        before, after = self.span.neighbors(matrices)
        apart = before.sub_(after).abs_().mul_(self.both)
        largest = self.span.rows(matrices).amax(-1).double()
        rounding = self.tolerance * largest
        # Ones and zeros, times `apart`: a third of the time that a masked fill takes.
        apart *= torch.gt(apart, rounding[..., None], out=after)
        least = torch.add(apart, self.beyond, out=after).amin(-1)
        spread = apart.amax(-1) - least
        # The sum of (d - least) / spread over the row's pairs.
        unlike = (apart.sum(-1) - self.n_pairs * least) / spread
        unlike = torch.where(spread > rounding, unlike, 0.0)
        return torch.stack([unlike, self.n_pairs * (largest > 0)], -1)


class _Masses:
    """Discrepancies of rows, and the mass that they compare."""

    def __init__(self, span: _Span) -> None:
        self.span, self.both = span, span.has_both

    def __call__(self, matrices: Float[Tensor, "matrices query key"]) -> Tensor:
        before, after = self.span.neighbors(matrices)
        apart, mass = (before - after).abs(), before + after
        return torch.stack([(each * self.both).sum(-1) for each in (apart, mass)], -1)
