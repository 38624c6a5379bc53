"""Value columns of an element given those before them: changes of parameters, exact as a chain.

The sum of log p(y_1 | context) and log p(y_2 | y_1, context) is that of both values together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor, nn

from exfam.families import Family
from exfam.layers import linear

# Families of so many parameters are seen by these, others by their mean.
_FEW_PARAMETERS = 4
# Of at most so many classes each has an input of its own.
_FEW_CLASSES = 10
# Inputs are cut there, in standard deviations: of locations, of reals and others, and of spreads
# and hidden units.
_FAR, _MOST_INPUT, _MOST_IN_SPREAD = 1e6, 20.0, 2.5
# Parameters of the spread that are moved one by one, and all others like the last of these.
_MOST_MOVED = 3

Items = Int[Tensor, "*shape"] | None
Inputs = Float[Tensor, "*shape inputs"]
Etas = Mapping[str, Float[Tensor, "..."]]
# Which elements lack a value of a column; not of columns that all have.
Missing = Mapping[str, Bool[Tensor, "..."]]


@dataclass(frozen=True)
class ColumnNumbers:
    """A column as inputs: its value, the classes of a few, and what its parameters say.

    `floor`: what values of at least 0 are raised by before their logarithm; 0 for no logarithm
    """

    family: Family
    floor: float

    def of_values(self, value: Real[Tensor, "*shape"], item: Items) -> Inputs:
        """One-hot classes, or standardized values and their logarithms."""
        categories = self.family.categories
        if 0 < len(categories) <= _FEW_CLASSES:
            return (value[..., None] == value.new_tensor(categories)).double()
        return self._numbers(self.family.standardize(value, item=item))

    def of_parameters(self, eta: Float[Tensor, "*shape params"], item: Items) -> Inputs:
        """The parameters themselves where they are few, otherwise numbers of the mean."""
        if self.family.n_params <= _FEW_PARAMETERS:
            return eta.double()
        center = self.family.mean(eta, item=item)
        if not self.family.has_mean:
            center = self.family.quantile(0.5, eta, item=item)
        return self._numbers(self.family.standardize(center, item=item))

    def _numbers(self, unit: Real[Tensor, "*shape"]) -> Inputs:
        logs = [(unit.clamp(min=0.0) + self.floor).log()] if self.floor else []
        return torch.stack([unit, *logs], -1)


def column_numbers(family: Family, value: Float[Tensor, "rows"], item: Items) -> ColumnNumbers:
    """Of training values: where none is below 0, half the least above 0 is the floor."""
    unit = family.standardize(value, item=item)
    is_amount = family.of_units.equivariance != "location-scale" and bool((unit >= 0).all())
    above = unit[unit > 0]
    return ColumnNumbers(family, 0.5 * float(above.min()) if is_amount and len(above) else 0.0)


class GivenEarlier(nn.Module):
    """What earlier columns change in one column's parameters: a linear map, and hidden units.

    Spreads are moved less far than locations: of few values they would make others all but certain.
    Of more than three parameters of the spread, the third and all after it are moved alike.
    """

    center: Tensor
    spread: Tensor

    def __init__(
        self,
        family: Family,
        center: Float[Tensor, "inputs"],
        spread: Float[Tensor, "inputs"],
        *,
        hidden: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.n_hidden, self.n_params = hidden, family.n_params
        self.n_location = family.n_params - family.n_dispersion
        n_moved = self.n_location + min(family.n_dispersion, _MOST_MOVED)
        self.most = _FAR if family.of_units.equivariance == "location-scale" else _MOST_INPUT
        self.register_buffer("center", center)
        self.register_buffer("spread", spread)
        self.direct = linear(len(center), n_moved, generator=generator).double()
        self.inner = self.outer = None
        if hidden:
            self.inner = linear(len(center), hidden, generator=generator).double()
            self.outer = linear(hidden, n_moved, generator=generator).double()
        for last in (self.direct, self.outer):
            if last is not None:
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)

    def forward(self, inputs: Inputs) -> Float[Tensor, "*shape params"]:
        unit = ((inputs - self.center) / self.spread).nan_to_num(0.0)
        near = unit.clamp(-_MOST_IN_SPREAD, _MOST_IN_SPREAD)
        location: Tensor = self.direct(unit.clamp(-self.most, self.most))[..., : self.n_location]
        change = torch.cat([location, self.direct(near)[..., self.n_location :]], -1)
        if self.inner is not None and self.outer is not None:
            change = change + self.outer(nn.functional.gelu(self.inner(near)))
        alike = self.n_params - change.shape[-1]
        return torch.cat([change, change[..., -1:].expand(*change.shape[:-1], alike)], -1)


class EarlierColumns(nn.Module):
    """Changes of the parameters of value columns by the element's own values of earlier ones.

    Column k is moved by the values of the columns before it, in the order of `numbers`, and by no
    other value of its element. Where any of these values was not observed nothing changes.
    """

    def __init__(
        self, numbers: Mapping[str, ColumnNumbers], parts: Mapping[str, GivenEarlier]
    ) -> None:
        super().__init__()
        self.numbers, self.names = dict(numbers), list(parts)
        self.parts = nn.ModuleList(parts.values())

    def forward(
        self,
        etas: Etas,
        values: Mapping[str, Real[Tensor, "*shape"]],
        item: Items,
        observed: Bool[Tensor, "*shape"],
        missing: Missing,
    ) -> dict[str, Tensor]:
        """All columns' parameters, each given the columns before it."""
        given = dict(etas)
        for name, part in zip(self.names, self.parts, strict=True):
            inputs = inputs_of(self.numbers, name, etas, values, item)
            sees = observed
            for earlier in missing.keys() & earlier_of(self.numbers, name):
                sees = sees & ~missing[earlier]
            change = part(inputs).masked_fill(~sees[..., None], 0.0)
            given[name] = etas[name] + change.to(etas[name].dtype)
        return given

    def config(self) -> dict[str, Any]:
        """What an empty one of the same shape is built by, as plain values of JSON."""
        parts: Any = self.parts
        sizes = [[len(part.center), part.n_hidden] for part in parts]
        floors = {name: own.floor for name, own in self.numbers.items()}
        return {"floors": floors, "parts": dict(zip(self.names, sizes, strict=True))}


def inputs_of(
    numbers: Mapping[str, ColumnNumbers],
    column: str,
    etas: Etas,
    values: Mapping[str, Real[Tensor, "*shape"]],
    item: Items,
) -> Inputs:
    """Values and parameters of the columns before one, and its own parameters."""
    parts: Sequence[Tensor] = [
        part
        for name in earlier_of(numbers, column)
        for part in (
            numbers[name].of_values(values[name], item),
            numbers[name].of_parameters(etas[name], item),
        )
    ]
    return torch.cat([*parts, numbers[column].of_parameters(etas[column], item)], -1)


def earlier_of(numbers: Mapping[str, ColumnNumbers], column: str) -> list[str]:
    """The columns before one."""
    names = list(numbers)
    return names[: names.index(column)]


def empty_earlier(
    config: Mapping[str, Any] | None, families: Mapping[str, Family]
) -> EarlierColumns | None:
    """One of that shape whose numbers are to be loaded; None for None."""
    if config is None:
        return None
    numbers = {
        name: ColumnNumbers(families[name], float(floor))
        for name, floor in config["floors"].items()
    }
    generator, parts = torch.Generator().manual_seed(0), {}
    for name, (n_inputs, hidden) in config["parts"].items():
        zeros = torch.zeros(n_inputs, dtype=torch.float64)
        parts[name] = GivenEarlier(
            families[name], zeros, zeros + 1, hidden=hidden, generator=generator
        )
    return EarlierColumns(numbers, parts)
