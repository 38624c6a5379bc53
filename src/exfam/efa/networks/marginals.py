"""Marginal models, without context: item frequencies, and the most likely constant parameters.

They are fitted in closed form, or by a convex search over a handful of numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta
from exfam.checks import ExfamError, check_positive
from exfam.efa.plan import Weight, target_elements
from exfam.embeddings import item_rows
from exfam.families import Family
from exfam.groups import Batch, Groups
from exfam.training.lbfgs import LBFGS

# Stand-ins for the distribution of all values, where items borrow from it.
MAX_PRIOR_POINTS = 64


class MarginalItems(nn.Module):
    """Every element's item drawn from one frequency table, whatever the context."""

    log_frequency: Tensor

    def __init__(self, log_frequency: Float[Tensor, "items"]) -> None:
        super().__init__()
        self.register_buffer("log_frequency", log_frequency)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """Log-frequencies, the same for every element."""
        return self.log_frequency.expand(*batch.present.shape, -1)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.log_frequency)

    def linear(self, batch: Batch) -> LinearEta:
        """The outputs as factors: states of length 0, and biases."""
        empty = self.log_frequency.new_zeros
        state, vectors = empty(*batch.present.shape, 0), empty(self.n_items, 0)
        return LinearEta(state, vectors, self.log_frequency, self.n_items)


class MarginalValues(nn.Module):
    """Every element's values drawn from one distribution, or from its item's own.

    The last row of `table` serves unknown items, and all elements if it is the only one.
    """

    table: Tensor

    def __init__(self, table: Float[Tensor, "rows eta"]) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The parameters of each element's item."""
        return self.table[item_rows(batch, len(self.table) - 1)]


def fit_marginal_values(
    groups: Groups,
    families: Mapping[str, Family],
    *,
    n_items: int = 0,
    prior: float = 5.0,
    weight: Weight = None,
) -> MarginalValues:
    """The most likely constant parameters of each value column.

    With `n_items`, each item's own, drawn to the global ones by `prior` observations that are
    spread as all values are; items never seen have the global ones.
    """
    check_positive("prior", prior)
    columns = []
    for column, family in families.items():
        sample = standardized_sample(observed_sample(groups, column, weight=weight), family)
        overall = most_likely(family, sample)
        rows = [overall[None]]
        if n_items:
            more: dict[str, Any] = {"n_items": n_items, "prior": prior, "start": overall}
            rows = [_most_likely_of_items(family, sample, **more), *rows]
        columns.append(torch.cat(rows).float())
    return MarginalValues(torch.cat(columns, dim=-1))


@dataclass(frozen=True, eq=False)
class Sample:
    """Values with their items (-1: none or unknown) and how many times each counts.

    Values are as they came, or standardized by their family where a function says so.
    """

    value: Float[Tensor, "n"]
    item: Int64[Tensor, "n"]
    times: Float[Tensor, "n"]

    def where(self, which: Tensor) -> "Sample":
        """Some of them."""
        return Sample(self.value[which], self.item[which], self.times[which])


def observed_sample(groups: Groups, column: str, *, weight: Weight = None) -> Sample:
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


def standardized_sample(sample: Sample, family: Family) -> Sample:
    """The sample with standardized values."""
    return replace(sample, value=family.standardize(sample.value, item=sample.item))


def minimize(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Where a smooth function of a few numbers is smallest, by L-BFGS in float64."""
    x = start.detach().double().clone().requires_grad_()
    optimizer = LBFGS(
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


def mean_loss(family: Family, sample: Sample, eta: Float[Tensor, "n eta"]) -> Float[Tensor, ""]:
    """Minus the mean nats of a standardized sample."""
    nats = family.unit_log_prob(sample.value, eta, item=sample.item)
    return -(sample.times * nats).sum() / sample.times.sum()


def most_likely(family: Family, sample: Sample) -> Float[Tensor, "eta"]:
    """The one `eta` under which the whole sample, standardized, is most likely."""
    sample = _distinct(sample)
    start = family.initial_eta(family.restore(sample.value, item=sample.item), item=sample.item)
    return minimize(lambda eta: mean_loss(family, sample, eta.expand(len(sample.value), -1)), start)


def _most_likely_of_items(
    family: Family, sample: Sample, *, n_items: int, prior: float, start: Float[Tensor, "eta"]
) -> Float[Tensor, "items eta"]:
    """Each item's most likely `eta` given its values and `prior` more, spread as all values are."""
    own = _distinct(sample.where((sample.item >= 0) & (sample.item < n_items)))
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
    value = family.restore(borrowed.value, item=item)
    return borrowed.where(family.in_support(value, item=item))
