"""Marginal models, without context: item frequencies, and the most likely constant parameters.

They are fitted in closed form, or by a convex search over a handful of numbers.
"""

from collections.abc import Mapping
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
from exfam.likelihoods.exposure import Exposure
from exfam.training.lbfgs import find_minimum

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
    exposure: Exposure | None = None,
) -> MarginalValues:
    """The most likely constant parameters of each value column.

    With `n_items`, each item's own, drawn to the global ones by `prior` observations that are
    spread as all values are; items never seen have the global ones.
    """
    check_positive("prior", prior)
    columns = []
    for column, family in families.items():
        sample = observed_sample(groups, column, weight=weight, exposure=exposure)
        sample = standardized_sample(sample, family)
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

    Values are as they came, or standardized by their family where a function says so. `log_size`:
    what exposures add to their first parameters, None without exposures.
    """

    value: Float[Tensor, "n"]
    item: Int64[Tensor, "n"]
    times: Float[Tensor, "n"]
    log_size: Float[Tensor, "n"] | None = None

    def where(self, which: Tensor) -> "Sample":
        """Some of them, by their index or a mask."""
        size = None if self.log_size is None else self.log_size[which]
        return Sample(self.value[which], self.item[which], self.times[which], size)

    def nats(self, family: Family, eta: Float[Tensor, "n eta"]) -> Float[Tensor, "n"]:
        """Log-probabilities of standardized values, of parameters at the mean exposure."""
        if self.log_size is not None:
            eta = torch.cat([eta[:, :1] + self.log_size[:, None], eta[:, 1:]], 1)
        return family.unit_log_prob(self.value, eta, item=self.item)


def observed_sample(
    groups: Groups, column: str, *, weight: Weight = None, exposure: Exposure | None = None
) -> Sample:
    """A column's observed target values, in float64; `weight` is one number an element."""
    if column not in groups.values:
        listed = ", ".join(repr(name) for name in groups.values) or "none"
        raise ExfamError(
            f"`families` must name value columns of the groups ({listed}), got {column!r}."
        )
    own = target_elements(groups)
    own = own[groups.has_value(column, own)]
    own = own if weight is None else own[weight[own] > 0]
    if not len(own):
        raise ExfamError(f"`{column}` must have at least one observed target value, got none.")
    item = np.full(len(own), -1) if groups.item is None else groups.item[own]
    times = np.ones(len(own)) if weight is None else weight[own]
    return Sample(
        torch.from_numpy(groups.values[column][own].astype(np.float64)),
        torch.from_numpy(item.astype(np.int64)),
        torch.from_numpy(times.astype(np.float64)),
        None if exposure is None else torch.from_numpy(exposure.of_rows(groups, own)),
    )


def standardized_sample(sample: Sample, family: Family) -> Sample:
    """The sample with standardized values."""
    return replace(sample, value=family.standardize(sample.value, item=sample.item))


def mean_loss(family: Family, sample: Sample, eta: Float[Tensor, "n eta"]) -> Float[Tensor, ""]:
    """Minus the mean nats of a standardized sample."""
    return -(sample.times * sample.nats(family, eta)).sum() / sample.times.sum()


def most_likely(family: Family, sample: Sample) -> Float[Tensor, "eta"]:
    """The one `eta` under which the whole sample, standardized, is most likely."""
    sample = _distinct(sample)
    start = family.initial_eta(family.restore(sample.value, item=sample.item), item=sample.item)

    def loss(eta: Tensor) -> Tensor:
        return mean_loss(family, sample, eta.expand(len(sample.value), -1))

    return find_minimum(loss, start.double())


def _most_likely_of_items(
    family: Family, sample: Sample, *, n_items: int, prior: float, start: Float[Tensor, "eta"]
) -> Float[Tensor, "items eta"]:
    """Each item's most likely `eta` given its values and `prior` more, spread as all values are."""
    own = _distinct(sample.where((sample.item >= 0) & (sample.item < n_items)))
    borrowed = _prior_of_items(family, sample, n_items=n_items, prior=prior)
    names = ["value", "item", "times"] + ([] if own.log_size is None else ["log_size"])
    both = Sample(*(torch.cat([getattr(own, name), getattr(borrowed, name)]) for name in names))
    # Every item's loss is its own mean, so that one line search suits rare and frequent items.
    share = both.times / torch.bincount(both.item, weights=both.times, minlength=n_items)[both.item]

    def loss(table: Tensor) -> Tensor:
        return -(share * both.nats(family, table[both.item])).sum()

    return find_minimum(loss, start.expand(n_items, -1).double())


def _distinct(sample: Sample) -> Sample:
    """Equal values of one item once, with their number: ratings and counts have few of them."""
    if sample.log_size is not None:
        return sample
    level, value_code = sample.value.unique(return_inverse=True)
    key, code = ((sample.item + 1) * len(level) + value_code).unique(return_inverse=True)
    times = torch.bincount(code, weights=sample.times, minlength=len(key))
    return Sample(level[key % len(level)], key // len(level) - 1, times)


def _prior_points(sample: Sample) -> Sample:
    """Values that stand for the sample's distribution, as many times as their shares."""
    if sample.log_size is None:
        level, code = sample.value.unique(return_inverse=True)
        points = Sample(
            level,
            torch.full_like(code[: len(level)], -1),
            torch.bincount(code, weights=sample.times).to(level),
        )
    else:  # in the order of what they would be at the mean exposure
        points = sample.where((sample.value.log() - sample.log_size).argsort())
    share = points.times / points.times.sum()
    if len(share) > MAX_PRIOR_POINTS:
        middle = (torch.arange(MAX_PRIOR_POINTS, dtype=share.dtype) + 0.5) / MAX_PRIOR_POINTS
        at = torch.searchsorted(share.cumsum(0), middle).clamp_max(len(share) - 1)
        points, share = points.where(at), torch.full_like(middle, 1 / MAX_PRIOR_POINTS)
    return replace(points, times=share)


def _prior_of_items(family: Family, sample: Sample, *, n_items: int, prior: float) -> Sample:
    points = _prior_points(sample)
    item = torch.arange(n_items).repeat_interleave(len(points.value))
    repeated = points.where(torch.arange(len(points.value)).repeat(n_items))
    borrowed = replace(repeated, item=item, times=prior * repeated.times)
    # Items whose own family (PerItem) cannot produce a value do not borrow it.
    value = family.restore(borrowed.value, item=item)
    return borrowed.where(family.in_support(value, item=item))
