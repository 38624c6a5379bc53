"""A covariance of maps in which each site has a memory of its own."""

import torch
from jaxtyping import Float64
from torch import Tensor

Covariance = Float64[Tensor, "columns columns"]

# What is new at a site is at least so much of its variance.
LEAST_NEW = 1e-6


def remembered(products: Covariance, prior: Covariance, *, n_sites: int, n_maps: int) -> Covariance:
    """Of maps x_t = R x_{t-1} + e_t with R diagonal: the covariance of each map and earlier ones.

    R is least squares in the mean products, with Kendall's (1954) correction for few maps, so that
    series that wander have 1. The covariances of e and of the earliest map are those of the
    products, drawn to the prior's correlations by sites / (sites + maps). Columns are map by map,
    the latest first.
    """
    last, before = slice(0, n_sites), slice(n_sites, 2 * n_sites)
    now, then, both = products[last, last], products[before, before], products[last, before]
    kept = both.diagonal() / then.diagonal().clamp_min(LEAST_NEW)
    kept = (kept + (1 + 3 * kept) / n_maps).clamp(0.0, 1.0)
    crossed = both * kept
    new = now - crossed - crossed.T + kept[:, None] * then * kept
    share = n_sites / (n_sites + n_maps)
    new = _drawn(new, prior[last, last], share)
    total = _drawn(products[-n_sites:, -n_sites:], prior[last, last], share)
    for _ in range(len(products) // n_sites - 1):
        shared = kept[:, None] * total[:n_sites]
        latest = shared[:, :n_sites] * kept + new
        total = torch.cat([torch.cat([latest, shared], 1), torch.cat([shared.T, total], 1)])
    return total


def _drawn(products: Covariance, prior: Covariance, share: float) -> Covariance:
    """Products drawn to the prior's correlations, their variances being kept."""
    sd = products.diagonal().clamp_min(LEAST_NEW).sqrt()
    own = prior.diagonal().rsqrt()
    drawn = (1 - share) * products + share * prior * (sd * own)[:, None] * (sd * own)
    return drawn + torch.diag((LEAST_NEW - drawn.diagonal()).clamp_min(0.0))
