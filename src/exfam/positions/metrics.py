"""How local and how symmetric attention is.

Weights are rows of probabilities: `weights[..., i, j]` is what position i pays to position j. Rows
of zeros, of positions that have nothing to attend to, are left out of all means.

Written out, one number at a time (tests compare the fast form below with these loops):

    locality = mean over i of sum over j of weights[i, j] * 2 ** -|i - j|
    d[i, k]  = |weights[i, i - k] - weights[i, i + k]|  for k = 1 .. min(i, n - 1 - i)
    symmetry = 1 - mean over i, k of (d[i, k] - low[i]) / (high[i] - low[i])

where low[i] and high[i] are the least and the largest d[i, k] of row i.

Where positions do not matter at all, symmetry is not 0: min-max normalization makes equal
discrepancies 0, so that uniform attention is symmetric, as is causal uniform attention (symmetry
1.0), attention to the next position has .97 at length 128, random rows .75. `raw_symmetry` compares
discrepancies with the mass itself instead: both of these have 0 there.
Source: Chen, Varoquaux & Suchanek (2023), section 3.1.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from exfam.checks import DataError, ExfamError, check_choice, check_positive

AVERAGES = ("micro", "macro")
# Rows of half precision miss 1 by up to this much.
_TOLERANCE = 5e-3
# Numbers worked on at a time: as many as a processor's cache holds.
_AT_ONCE = 2**17

Weights = Float[Tensor, "*batch_query_key"]


def check_weights(weights: Any) -> None:
    """Raise DataError, naming the index, unless rows of square matrices are probabilities or zeros.

    Rows may miss 1 by .005.
    """
    if not isinstance(weights, Tensor):
        raise DataError(
            f"`weights` must be a torch tensor, got {type(weights).__name__}. Use "
            "torch.as_tensor(weights)."
        )
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2] or not weights.numel():
        raise DataError(
            "`weights` must be square matrices, a row and a column a position, got shape "
            f"{tuple(weights.shape)}. Leave out columns of null tokens, then `renormalized`."
        )
    # Two passes find whether anything is wrong; what it is takes more of them.
    total = weights.sum(-1, dtype=torch.promote_types(weights.dtype, torch.float32))
    wrong = ~((total - 1).abs() <= _TOLERANCE) & (total != 0)
    if weights.amin() >= 0 and not wrong.any():
        return
    _refuse(~weights.isfinite(), weights, "finite numbers")
    _refuse(weights < 0, weights, "numbers >= 0", "These may be scores: take their softmax.")
    _refuse(
        wrong,
        total,
        "rows that sum to 1 or are zeros",
        "Use `renormalized` where columns were left out.",
    )


def _refuse(wrong: Tensor, numbers: Tensor, rule: str, advice: str = "") -> None:
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise DataError(
            f"`weights` must be {rule}, got {numbers[index].item():g} at {list(index)} "
            f"({int(wrong.sum())} of {wrong.numel()}). {advice}".rstrip()
        )


def renormalized(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """Each row divided by its sum; a row of zeros stays."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total)


def locality(weights: Weights) -> Float[Tensor, "*batch"]:
    """Attention mass near the diagonal, halved with each step of distance; mean over rows.

    From 0 to 1; 1 when every position attends only to itself. In float64.
    Raises DataError for weights that are no rows of probabilities (`check_weights`).
    Source: Chen, Varoquaux & Suchanek (2023), eq. 6.

    >>> locality(torch.eye(4)), locality(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    (tensor(1., dtype=torch.float64), tensor(0.7500, dtype=torch.float64))
    """
    check_weights(weights)
    return _by_rows(weights, _local_mass)[..., 0].nanmean(-1)


def symmetry(
    weights: Weights, *, average: str = "micro", tolerance: float = 1e-5
) -> Float[Tensor, "*batch"]:
    """1 minus how unlike the weights at equal distances to both sides are, row by row.

    `average`: "micro" for the mean over all pairs of all rows, as the authors'
    code has it, "macro" for the mean over rows of their means (default "micro").
    `tolerance`: discrepancies, and spans of them, up to this share of the row's largest weight are
    rounding and count as 0 (default 1e-5)

    From 0 to 1, in float64. Raises DataError as `locality`, ExfamError for fewer than 3 positions.
    Source: Chen, Varoquaux & Suchanek (2023), eq. 7.

    >>> symmetry(torch.full((5, 5), 0.2)).item()
    1.0
    >>> symmetry(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.2, 0.2]])).item()
    1.0
    """
    check_choice("average", average, AVERAGES)
    check_positive("tolerance", tolerance, zero=True)
    _check_long(weights)
    rows = _by_rows(weights, partial(_discrepancies, tolerance=tolerance), margin=1)
    unlike, pairs = (rows if average == "macro" else rows.sum(-2)).unbind(-1)
    result = 1.0 - unlike / pairs
    # Rows of zeros, and those with one side empty, have no pairs: they are NaN.
    return result.nanmean(-1) if average == "macro" else result


def raw_symmetry(weights: Weights) -> Float[Tensor, "*batch"]:
    """1 minus the discrepancies of all pairs as a share of the mass that they compare.

    Without min-max normalization: 0 where all attention is one-sided. 1 where no pair has mass.
    Raises as `symmetry`.

    >>> raw_symmetry(torch.full((5, 5), 0.2)).item()
    1.0
    >>> raw_symmetry(torch.full((3, 3), 1.0).tril() / torch.tensor([[1.0], [2.0], [3.0]])).item()
    0.0
    """
    _check_long(weights)
    apart, mass = _by_rows(weights, _masses, margin=1).sum(-2).unbind(-1)
    return 1.0 - torch.where(mass > 0, apart / mass, 0.0)


def _check_long(weights: Tensor) -> None:
    check_weights(weights)
    if weights.shape[-1] < 3:
        raise ExfamError(
            "`weights` must be of at least 3 positions for a symmetry, got "
            f"{weights.shape[-1]}: none has neighbors on both sides. Take a longer sentence."
        )


def _by_rows(
    weights: Tensor, score: Callable[[Tensor, Tensor], Tensor], margin: int = 0
) -> Float[Tensor, "*batch query _"]:
    """`score(matrices, rows)`, for some rows of some matrices at a time; 0 in `margin` rows.

    The margin is at both ends.
    """
    length = weights.shape[-1]
    matrices = weights.detach().reshape(-1, length, length).contiguous()
    n_rows = max(1, min(length - 2 * margin, _AT_ONCE // length))
    n_matrices = max(1, _AT_ONCE // (n_rows * length))
    rows = torch.arange(margin, length - margin, device=weights.device).split(n_rows)
    columns = [torch.cat([score(m, some) for m in matrices.split(n_matrices)]) for some in rows]
    scores = pad(torch.cat(columns, 1), (0, 0, margin, margin))
    return scores.reshape(*weights.shape[:-1], -1)


def _local_mass(matrices: Tensor, rows: Tensor) -> Tensor:
    """Locality of rows; NaN for rows of zeros."""
    distance = (rows[:, None] - torch.arange(matrices.shape[-1], device=rows.device)).abs()
    weights = matrices[:, rows[0] : rows[-1] + 1]
    # Powers of two: products with them are exact in single precision, too.
    mass = (weights * torch.exp2(-distance.float())).sum(-1, dtype=torch.float64)
    return mass.masked_fill(weights.amax(-1) == 0, torch.nan)[..., None]


def _neighbors(matrices: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights 1, 2, … steps before and after each row's own position; 1 where it has both, or 0.

    Where a row has not both, they are weights of the row above or below.
    """
    length, first = matrices.shape[-1], int(rows[0])
    n_pairs = torch.minimum(rows, length - 1 - rows)
    reach = int(n_pairs.max())
    # Windows about the diagonal, whose elements are `length + 1` apart.
    from_first = matrices.flatten(1)[:, first * (length + 1) - reach :]
    windows = from_first.unfold(1, 2 * reach + 1, length + 1)[:, : len(rows)].double()
    step = torch.arange(1, reach + 1, device=rows.device)
    both = (step <= n_pairs[:, None]).double()
    return windows[..., :reach].flip(-1), windows[..., reach + 1 :], both


def _discrepancies(matrices: Tensor, rows: Tensor, *, tolerance: float) -> Tensor:
    """Normalized discrepancies of rows, summed, and pairs; none in rows of zeros."""
    before, after, both = _neighbors(matrices, rows)
    apart, n_pairs = before.sub_(after).abs_().mul_(both), both.sum(-1)
    largest = matrices[:, rows[0] : rows[-1] + 1].amax(-1).double()
    rounding = tolerance * largest
    # Products with 1 and 0 take a third of the time that a masked fill takes.
    apart *= apart > rounding[..., None]
    least = (apart + (both.reciprocal() - 1.0)).amin(-1)
    spread = apart.amax(-1) - least
    unlike = (apart.sum(-1) - n_pairs * least) / spread
    unlike = torch.where(spread > rounding, unlike, 0.0)
    return torch.stack([unlike, n_pairs * (largest > 0)], -1)


def _masses(matrices: Tensor, rows: Tensor) -> Tensor:
    """Discrepancies of rows, and the mass that they compare."""
    before, after, both = _neighbors(matrices, rows)
    terms = ((before - after).abs(), before + after)
    return torch.stack([(term * both).sum(-1) for term in terms], -1)
