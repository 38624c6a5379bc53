"""Fits a few numbers to the choices of many rows, by Fisher scoring on tiles of the outputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.linear import chunks_of

Numbers = Float[Tensor, "numbers"]
# Of some rows: outputs, their slopes in each number, the items that were chosen, and the factors by
# which numbers enter: (1) for themselves, (1, x) for a line in x, whose numbers come line by line.
Tile = tuple[Tensor, Sequence[Tensor], Int64[Tensor, "rows"], Float[Tensor, "rows factors"]]
# As many as a processor's cache holds, with their slopes.
TILE = 2**17
# The search ends where a step gains less, in nats a row.
_TOLERANCE = 1e-5
# How firmly numbers are held at where they start, at least, in nats a row.
_HOLD = 1e-3


def hold_of(n_rows: int, *, in_all: float = 1.0) -> float:
    """How firmly numbers that are fitted to so many rows are held, in nats a row.

    `in_all`: in nats of all rows, which counts where they are few: these would have any numbers
    """
    return max(_HOLD, in_all / max(1, n_rows))


def rows_of_tiles(n_rows: int, n_items: int) -> Iterator[slice]:
    """Rows in slices whose outputs are few enough to be computed at a time."""
    return chunks_of(n_rows, max(1, TILE // n_items))


def fit_numbers(
    tiles: Callable[[Numbers], Iterable[Tile]],
    *,
    start: Numbers,
    center: Numbers,
    hold: float,
    n_steps: int = 20,
) -> tuple[Numbers, float]:
    """The numbers of the least nats a row, held at `center` by `hold`, and those nats.

    Nats are those of `tiles(numbers)` with `hold * |numbers - center|^2`.
    """
    numbers, center = start.double(), center.double()
    nats, gradient, curvature = _nats(tiles(numbers), numbers - center, hold)
    for _ in range(n_steps):
        before, step = nats, torch.linalg.solve(curvature, gradient)
        for _ in range(4):
            changed = numbers - step
            result = _nats(tiles(changed), changed - center, hold)
            if result[0] < nats:
                numbers, (nats, gradient, curvature) = changed, result
                break
            step = step / 4
        if before - nats < _TOLERANCE:
            break
    return numbers.float(), nats


def _nats(
    tiles: Iterable[Tile], change: Numbers, hold: float
) -> tuple[float, Numbers, Float[Tensor, "numbers numbers"]]:
    """Nats a row, their gradient, and its change as the outputs' probabilities expect it."""
    total, n = 0.0, 0
    gradient, curvature = torch.zeros_like(change), torch.diag(torch.zeros_like(change))
    for eta, slopes, item, factors in tiles:
        own, most = item[:, None], eta.amax(1, keepdim=True)
        at_item = eta.gather(1, own) - most
        odds = (eta - most).exp_()
        normalizer = odds.sum(1, keepdim=True)
        total += float((normalizer.log() - at_item).sum())
        slope = torch.stack(list(slopes), 1)
        weighted = slope * odds.div_(normalizer)[:, None]
        mean = weighted.sum(2)
        at_own = torch.stack([part.gather(1, own)[:, 0] for part in slopes], 1)
        variance = weighted @ slope.mT - mean[:, :, None] * mean[:, None]
        change_of = torch.einsum("rf,rn->fn", factors, mean - at_own)
        gradient += change_of.flatten().to(gradient)
        square = torch.einsum("rf,rg,rnm->fngm", factors, factors, variance)
        curvature += square.reshape(curvature.shape).to(gradient)
        n += len(item)
    n = max(1, n)
    nats = total / n + hold * float(change.square().sum())
    held = 2 * hold * torch.eye(len(change)).to(change)
    return nats, gradient / n + 2 * hold * change, curvature / n + held
