"""How local and how symmetric attention is.

Weights are rows of probabilities: `weights[..., i, j]` is what position i pays to position j. Rows
of zeros, of positions that have nothing to attend to, are left out of all means.

What is found where positions do not matter at all is not 0: min-max normalization makes equal
discrepancies 0, so that uniform attention is symmetric, as is causal uniform attention (symmetry
1.0), attention to the next position has .97 at length 128, random rows .75. `raw_symmetry` compares
discrepancies with the mass itself instead: both of these have 0 there.
Source: Chen, Varoquaux & Suchanek (2023), section 3.1.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.analysis.positions.weights import check_weights
from exfam.checks import ExfamError, check_choice, check_positive

__all__ = ["AVERAGES", "locality", "raw_symmetry", "row_locality", "row_symmetry", "symmetry"]

AVERAGES = ("micro", "macro")
# Numbers held at a time, besides the weights.
_AT_ONCE = 2**22

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
    return _by_rows(weights, _local_mass)[..., 0]


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
    unlike, pairs, _, _ = _pairs(weights, tolerance).unbind(-1)
    return 1.0 - unlike.nansum(-1) / pairs.nansum(-1)


def row_symmetry(weights: Weights, *, tolerance: float = 1e-5) -> Float[Tensor, "*batch query"]:
    """Symmetry of each row; NaN for a row of zeros and where one side is empty. See `symmetry`.

    >>> row_symmetry(torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])).tolist()
    [nan, 1.0, nan]
    """
    unlike, pairs, _, _ = _pairs(weights, tolerance).unbind(-1)
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
    _, _, apart, mass = _pairs(weights, 0.0).nansum(-2).unbind(-1)
    return 1.0 - torch.where(mass > 0, apart / mass, 0.0)


def _mean_of_rows(told: Tensor) -> Tensor:
    return told.nanmean(-1)


def _pairs(weights: Weights, tolerance: float) -> Float[Tensor, "*batch query 4"]:
    """Of each row: normalized discrepancies, pairs, discrepancies and mass, summed over pairs."""
    check_positive("tolerance", tolerance, zero=True)
    check_weights(weights)
    if weights.shape[-1] < 3:
        raise ExfamError(
            "`weights` must be of at least 3 positions for a symmetry, got "
            f"{weights.shape[-1]}: none has neighbors on both sides. Take a longer sentence."
        )
    return _by_rows(weights, lambda rows, first: _compared(rows, first, tolerance))


def _by_rows(
    weights: Weights, numbers: Callable[[Tensor, int], Tensor]
) -> Float[Tensor, "*batch query _"]:
    """Numbers of each row, some rows of some matrices at a time; NaN for rows of zeros."""
    matrices = weights.detach().flatten(0, -3) if weights.ndim > 2 else weights.detach()[None]
    told = [
        torch.cat([_numbers(matrices[some, rows], rows.start, numbers) for rows in rows_of], 1)
        for some, rows_of in _pieces(*matrices.shape[:2])
    ]
    return torch.cat(told).unflatten(0, weights.shape[:-2] or (1,)).reshape(*weights.shape[:-1], -1)


def _numbers(rows: Tensor, first: int, numbers: Callable[[Tensor, int], Tensor]) -> Tensor:
    rows = rows.double()
    return numbers(rows, first).masked_fill((rows.amax(-1) == 0)[..., None], torch.nan)


def _pieces(n_matrices: int, length: int) -> Iterator[tuple[slice, list[slice]]]:
    """Some matrices, and slices of their rows."""
    together = max(1, _AT_ONCE // length**2)
    n_rows = max(1, min(length, _AT_ONCE // length))
    rows = [slice(first, min(first + n_rows, length)) for first in range(0, length, n_rows)]
    for first in range(0, n_matrices, together):
        yield slice(first, first + together), rows


def _local_mass(rows: Float[Tensor, "matrices rows key"], first: int) -> Tensor:
    _, n_rows, length = rows.shape
    place = torch.arange(length, device=rows.device)
    distance = (place[first : first + n_rows, None] - place).abs()
    return (rows * torch.exp2(-distance.to(rows.dtype))).sum(-1, keepdim=True)


def _compared(
    rows: Float[Tensor, "matrices rows key"], first: int, tolerance: float
) -> Float[Tensor, "matrices rows 4"]:
    _, n_rows, length = rows.shape
    place = torch.arange(first, first + n_rows, device=rows.device)[:, None]
    step = torch.arange(1, (length - 1) // 2 + 1, device=rows.device)
    both = (place >= step) & (place + step < length)
    before, after = (
        rows.gather(-1, index.clamp(0, length - 1).expand(len(rows), -1, -1))
        for index in (place - step, place + step)
    )
    apart = (before - after).abs()
    rounding = tolerance * rows.amax(-1, keepdim=True)
    apart = torch.where(both & (apart > rounding), apart, 0.0)
    least = apart.masked_fill(~both, torch.inf).amin(-1, keepdim=True)
    span = apart.amax(-1, keepdim=True) - least
    normalized = torch.where(both & (span > rounding), (apart - least) / span, 0.0)
    n_pairs = both.sum(-1).to(rows.dtype).expand(rows.shape[:-1])
    mass = torch.where(both, before + after, 0.0)
    return torch.stack([normalized.sum(-1), n_pairs, apart.sum(-1), mass.sum(-1)], -1)
