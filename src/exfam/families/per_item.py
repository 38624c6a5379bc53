"""A family chosen by each element's item."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from exfam.checks import ExfamError, check_whole
from exfam.families import base


@dataclass(frozen=True)
class PerItem(base.Family):
    """The element's item chooses the family: {item: family}, `default` for the others.

    An estimator takes items by their labels, strings or integers >= 0, as the item column has them.
    By itself the family takes them by code, as `item` and as keys.
    Equal families share their columns of `eta`: first the location columns of every different
    family, in order of appearance, then the dispersion columns in the same order.
    All methods but `from_mean` need `item`, and raise ExfamError where an item has no family.

    >>> from exfam.families import Bernoulli, Gaussian
    >>> family = PerItem({0: Bernoulli(), 1: Gaussian()})
    >>> family.n_params, family.n_dispersion
    (3, 1)
    >>> family.mean(torch.tensor([[0.0, 5.0, 0.0]]), item=torch.tensor([1]))
    tensor([5.])
    """

    families: Mapping[int | np.integer | str, base.Family]
    default: base.Family | None = None
    name: ClassVar[str] = "per-item"

    def __post_init__(self) -> None:
        if not self.families:
            raise ExfamError("`families` must name at least one item, got none.")
        for key in self.families:
            if not isinstance(key, str):
                check_whole("families", key, least=0)
        for family in self._listed():
            if not isinstance(family, base.Family) or isinstance(family, PerItem):
                raise ExfamError(
                    f"`families` must hold families other than PerItem, got {family!r}."
                )

    def __hash__(self) -> int:
        return hash((frozenset(self.families.items()), self.default))

    def _listed(self) -> list[base.Family]:
        return [*self.families.values(), *([] if self.default is None else [self.default])]

    @cached_property
    def distinct(self) -> tuple[base.Family, ...]:
        """The different families, in order of appearance; the default last."""
        return tuple(dict.fromkeys(self._listed()))

    @property
    def n_params(self) -> int:
        return sum(family.n_params for family in self.distinct)

    @property
    def n_dispersion(self) -> int:
        return sum(family.n_dispersion for family in self.distinct)

    @property
    def has_mean(self) -> bool:  # type: ignore[override]
        """Whether the families of all items have a mean."""
        return all(family.has_mean for family in self.distinct)

    @property
    def support(self) -> str:
        listed = "; ".join(f"{family.name}: {family.support}" for family in self.distinct)
        return f"in the support of its item's family ({listed})"

    @property
    def categories(self) -> tuple[int | float, ...]:
        """The values all families share, if they are finite and the same for all."""
        listed = {family.categories for family in self.distinct}
        return listed.pop() if len(listed) == 1 else ()

    @property
    def spacing(self) -> float:
        return min(family.spacing for family in self.distinct)

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """For each different family, its columns of `eta`."""
        location, dispersion, columns = 0, self.n_params - self.n_dispersion, []
        for family in self.distinct:
            n_location = family.n_params - family.n_dispersion
            first = range(location, location + n_location)
            columns.append((*first, *range(dispersion, dispersion + family.n_dispersion)))
            location, dispersion = location + n_location, dispersion + family.n_dispersion
        return tuple(columns)

    @cached_property
    def _table(self) -> Tensor:
        """Index into `distinct` by item code; the last entry stands for all other codes."""
        other = -1 if self.default is None else self.distinct.index(self.default)
        codes = {
            code: family for code, family in self.families.items() if not isinstance(code, str)
        }
        table = torch.full((max(codes) + 2,), other)
        for code, family in codes.items():
            table[code] = self.distinct.index(family)
        return table

    def which(self, item: Int[Tensor, "*shape"] | None) -> Int[Tensor, "*shape"]:
        """The index into `distinct` of each item's family.

        Raises ExfamError without items, and where an item has no family.
        """
        if item is None:
            raise ExfamError("`item` must be given to PerItem, got None. Pass the item codes.")
        if labels := [key for key in self.families if isinstance(key, str)]:
            raise ExfamError(
                f"`families` must have item codes as keys, got {labels[0]!r}. "
                "Leave labels to an estimator's fit, which knows their codes."
            )
        which = self._family_of(item)
        if (which < 0).any():
            code = item[which < 0][0].item()
            raise ExfamError(
                f"`item` must be one of the {len(self.families)} items with a family, got {code}. "
                "Pass PerItem(families, default=...)."
            )
        return which

    def _family_of(self, item: Tensor) -> Tensor:
        """As `which`, -1 where an item has none."""
        last = len(self._table) - 1
        listed = (item >= 0) & (item < last)
        return self._table.to(item.device)[torch.where(listed, item, last).long()]

    def _of_values(
        self, compute: Callable[[base.Family, Tensor], Tensor], value: Tensor, item: Tensor | None
    ) -> Tensor:
        """`compute(family, value)` of each item's family; `value` where an item has none."""
        chosen = value.double()
        if item is None:
            return chosen
        which = self._family_of(item)
        for index, family in enumerate(self.distinct):
            chosen = torch.where(which == index, compute(family, value), chosen)
        return chosen

    def _choose(
        self, compute: Callable[[base.Family, Tensor], Tensor], eta: Tensor, item: Tensor | None
    ) -> Tensor:
        """`compute(family, its columns of eta)` of the family that each item has."""
        self.check_eta(eta)
        which = self.which(item)
        chosen = compute(self.distinct[0], eta[..., list(self.columns[0])])
        chosen, which = torch.broadcast_tensors(chosen, which)
        for index in range(1, len(self.distinct)):
            other = compute(self.distinct[index], eta[..., list(self.columns[index])])
            chosen = torch.where(which == index, other, chosen)
        return chosen

    def in_support(self, value: base.Values, item: base.Items = None) -> Bool[Tensor, "..."]:
        which = self.which(item)
        inside = torch.zeros_like(value * which, dtype=torch.bool)
        for index, family in enumerate(self.distinct):
            inside = torch.where(which == index, family.in_support(value), inside)
        return inside

    def has_mass(self, value: base.Values, item: base.Items = None) -> Bool[Tensor, "..."]:
        which = self.which(item)
        masses = torch.zeros_like(value * which, dtype=torch.bool)
        for index, family in enumerate(self.distinct):
            masses = torch.where(which == index, family.has_mass(value), masses)
        return masses

    def standardize(self, value: base.Values, *, item: base.Items = None) -> base.Numbers:
        return self._of_values(lambda family, values: family.standardize(values), value, item)

    def restore(self, unit: base.Values, *, item: base.Items = None) -> base.Numbers:
        return self._of_values(lambda family, values: family.restore(values), unit, item)

    def network_input(self, value: base.Values, *, item: base.Items = None) -> base.Numbers:
        inputs = self._of_values(lambda family, values: family.network_input(values), value, item)
        return base.compressed(inputs, base.FAR_INPUT)

    def log_prob(
        self, value: base.Values, eta: base.Eta, *, item: base.Items = None
    ) -> base.Numbers:
        return self._choose(lambda family, part: family.log_prob(value, part), eta, item)

    def unit_log_prob(
        self, unit: base.Values, eta: base.Eta, *, item: base.Items = None
    ) -> base.Numbers:
        return self._choose(lambda family, part: family.unit_log_prob(unit, part), eta, item)

    def mean(self, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self._choose(lambda family, part: family.mean(part), eta, item)

    def variance(self, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self._choose(lambda family, part: family.variance(part), eta, item)

    def cdf(self, value: base.Values, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self._choose(lambda family, part: family.cdf(value, part), eta, item)

    def quantile(self, p: base.Level, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self._choose(lambda family, part: family.quantile(p, part), eta, item)

    def sample(
        self, eta: base.Eta, *, generator: torch.Generator, item: base.Items = None
    ) -> base.Numbers:
        return self._choose(
            lambda family, part: family.sample(part, generator=generator), eta, item
        )

    def from_mean(
        self, mean: base.Mean, *, dispersion: base.Spread = None, item: base.Items = None
    ) -> base.Eta:
        """The columns of every family set to that mean, so that any item may read its own."""
        dispersion = self.check_dispersion(mean, dispersion)
        shape = torch.broadcast_shapes(mean.shape, dispersion.shape[:-1])
        eta = mean.new_zeros(*shape, self.n_params)
        start = self.n_params - self.n_dispersion
        for family, columns in zip(self.distinct, self.columns, strict=True):
            own = [column - start for column in columns if column >= start]
            eta[..., list(columns)] = family.from_mean(mean, dispersion=dispersion[..., own])
        return eta

    def initial_eta(
        self, value: base.Sample, *, item: base.SampleItems = None
    ) -> Float[Tensor, " params"]:
        """Each family fitted to the values of its items; 0 where there is none."""
        which = self.which(item)
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        eta = torch.zeros(self.n_params, dtype=dtype, device=value.device)
        for index, (family, columns) in enumerate(zip(self.distinct, self.columns, strict=True)):
            own = value[which == index]
            if own.numel():
                eta[list(columns)] = family.initial_eta(own).to(dtype)
        return eta
