"""Values a long way off their site's others, drawn in before anything is learned from them."""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

# A value further than this many spreads from its site's median counts as if it were there: none
# of Gaussian values is, and of a Student t's with 5 degrees of freedom one in two thousand.
FARTHEST = 6.0
# The spread is found without this share of each site's values, those that are furthest off.
LEFT_OUT = 0.01
# A site's own spread is that of this many values of all sites, and its own ones.
COMMON_VALUES = 5.0


def tamed(
    values: Float64[Tensor, "times sites"], shown: Bool[Tensor, "times sites"]
) -> Float64[Tensor, "times sites"]:
    """The values of each site within so many spreads of its median; 0 where not shown.

    A single slip of the pen would otherwise widen all that is predicted of its site. Spreads are
    found without the values that are furthest off, one at least.
    """
    there = torch.where(shown, values, torch.nan)
    middle = there.nanmedian(0).values.nan_to_num()
    distance = torch.where(shown, (values - middle).abs(), -1.0).sort(0).values
    count = shown.sum(0)
    kept = count - (LEFT_OUT * count).ceil().long().clamp_min(1)
    # Sorted, what is not shown comes first and what is furthest off last.
    rank = torch.arange(len(values))[:, None] - (len(values) - count)
    squares = torch.where((rank >= 0) & (rank < kept), distance, 0.0).square().sum(0)
    kept = kept.clamp_min(0).double()
    common = squares.sum() / kept.sum().clamp_min(1)
    if not float(common) > 0:
        return torch.where(shown, values, 0.0)
    spread = ((squares + COMMON_VALUES * common) / (kept + COMMON_VALUES)).sqrt()
    far = FARTHEST * spread
    return torch.where(shown, values.clamp(middle - far, middle + far), 0.0)
