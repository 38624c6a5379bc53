"""The most likely constant parameters of a family, for all values or for each item's."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families import Family
from exfam.groups import TARGET, Groups

__all__ = [
    "Sample",
    "in_units",
    "minimize",
    "most_likely",
    "most_likely_of_items",
    "observed_sample",
    "target_elements",
]

# Stand-ins for the distribution of all values, where items borrow from it.
MAX_PRIOR_POINTS = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """Values with their items (-1: none or unknown) and how many times each counts.

    Values are as they came, or standardized by their family where a function says so.
    """

    value: Float[Tensor, "n"]
    item: Int64[Tensor, "n"]
    times: Float[Tensor, "n"]


def target_elements(groups: Groups) -> Int64[np.ndarray, "targets"]:
    """Flat indices of the own elements that are to be predicted.

    >>> target_elements(Groups(start=[0], stop=[3], role=[1, 0, 0]))
    array([1, 2])
    """
    own = groups.elements()
    return own if groups.role is None else own[groups.role[own] == TARGET]


def observed_sample(
    groups: Groups, column: str, *, weight: Float[np.ndarray, "elements"] | None = None
) -> Sample:
    """A column's observed target values, in float64; `weight` is one number an element."""
    if column not in groups.values:
        listed = ", ".join(repr(name) for name in groups.values) or "none"
        raise ExfamError(
            f"`families` must name value columns of the groups ({listed}), got {column!r}."
        )
    own = target_elements(groups)
    own = own if groups.observed is None else own[groups.observed[own]]
    own = own if weight is None else own[weight[own] > 0]
    if not len(own):
        raise ExfamError(f"`{column}` must have at least one observed target value, got none.")
    item = np.full(len(own), -1) if groups.item is None else groups.item[own]
    times = np.ones(len(own)) if weight is None else weight[own]
    return Sample(
        torch.from_numpy(groups.values[column][own].astype(np.float64)),
        torch.from_numpy(item.astype(np.int64)),
        torch.from_numpy(times.astype(np.float64)),
    )


def in_units(sample: Sample, family: Family) -> Sample:
    """The sample with standardized values.

    >>> from exfam.families import Gaussian, Scaled
    >>> one = torch.ones(1)
    >>> in_units(Sample(5 * one, one.long(), one), Scaled(Gaussian(), 1.0, 2.0)).value
    tensor([2.], dtype=torch.float64)
    """
    return replace(sample, value=family.standardize(sample.value, item=sample.item))


def minimize(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Where a smooth function of a few numbers is smallest, by L-BFGS in float64.

    >>> minimize(lambda x: ((x - 3.0) ** 2).sum(), torch.zeros(1)).round(decimals=6)
    tensor([3.], dtype=torch.float64)
    """
    x = start.detach().double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x],
        max_iter=200,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    optimizer.step(closure)
    return x.detach()


def most_likely(family: Family, sample: Sample) -> Float[Tensor, "eta"]:
    """The one `eta` under which the whole sample, standardized, is most likely.

    >>> from exfam.families import Bernoulli
    >>> one = torch.ones(4)
    >>> sample = Sample(torch.tensor([1.0, 1.0, 1.0, 0.0]), one.long(), one)
    >>> most_likely(Bernoulli(), sample).sigmoid().round(decimals=6)
    tensor([0.7500], dtype=torch.float64)
    """
    sample = _distinct(sample)

    def loss(eta: Tensor) -> Tensor:
        each = eta.expand(len(sample.value), -1)
        nats = family.unit_log_prob(sample.value, each, item=sample.item)
        return -(sample.times * nats).sum() / sample.times.sum()

    value = family.restore(sample.value, item=sample.item)
    return minimize(loss, family.initial_eta(value, item=sample.item))


def most_likely_of_items(
    family: Family,
    sample: Sample,
    *,
    n_items: int,
    prior: float,
    start: Float[Tensor, "eta"],
) -> Float[Tensor, "items eta"]:
    """Each item's most likely `eta` given its values and `prior` more, spread as all values are.

    The sample's values are standardized.
    """
    own = _distinct(_keep(sample, (sample.item >= 0) & (sample.item < n_items)))
    borrowed = _prior_of_items(family, sample, n_items=n_items, prior=prior)
    value, item, times = (
        torch.cat([getattr(own, name), getattr(borrowed, name)])
        for name in ("value", "item", "times")
    )
    # Every item's loss is its own mean, so that one line search suits rare and frequent items.
    share = times / torch.bincount(item, weights=times, minlength=n_items)[item]

    def loss(table: Tensor) -> Tensor:
        return -(share * family.unit_log_prob(value, table[item], item=item)).sum()

    return minimize(loss, start.expand(n_items, -1))


def _keep(sample: Sample, which: Tensor) -> Sample:
    return Sample(sample.value[which], sample.item[which], sample.times[which])


def _distinct(sample: Sample) -> Sample:
    """Equal values of one item once, with their number: ratings and counts have few of them."""
    level, value_code = sample.value.unique(return_inverse=True)
    key, code = ((sample.item + 1) * len(level) + value_code).unique(return_inverse=True)
    times = torch.bincount(code, weights=sample.times, minlength=len(key))
    return Sample(level[key % len(level)], key // len(level) - 1, times)


def _prior_points(sample: Sample) -> tuple[Float[Tensor, "points"], Float[Tensor, "points"]]:
    """Values that stand for the sample's distribution, and their shares."""
    level, code = sample.value.unique(return_inverse=True)
    share = torch.bincount(code, weights=sample.times, minlength=len(level)) / sample.times.sum()
    if len(level) <= MAX_PRIOR_POINTS:
        return level, share
    middle = (torch.arange(MAX_PRIOR_POINTS, dtype=share.dtype) + 0.5) / MAX_PRIOR_POINTS
    points = level[torch.searchsorted(share.cumsum(0), middle).clamp_max(len(level) - 1)]
    return points, torch.full_like(points, 1 / MAX_PRIOR_POINTS)


def _prior_of_items(family: Family, sample: Sample, *, n_items: int, prior: float) -> Sample:
    points, share = _prior_points(sample)
    item = torch.arange(n_items).repeat_interleave(len(points))
    borrowed = Sample(points.repeat(n_items), item, (prior * share).repeat(n_items))
    # Items whose own family (PerItem) cannot produce a value do not borrow it.
    return _keep(borrowed, family.in_support(family.restore(borrowed.value, item=item), item=item))
