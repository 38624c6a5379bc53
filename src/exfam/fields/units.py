"""Values and places in a model's own units: results do not depend on the units of the data.

A model of a field sees (value - center) / scale, with a center and a scale of the training values;
its family is mapped back exactly. Counts stay as they are. Coordinates of plain space are shifted
and divided by one length.
"""

import numpy as np
import torch
from jaxtyping import Float

from exfam.checks import DataError, support_error
from exfam.families import Family, Scaled, scaled_to
from exfam.fields.data.field_checks import observed_own
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Groups

# Squares of larger coordinates are no numbers.
FARTHEST = 1e150
SMALLEST = 1e-150
MOST_LENGTHS = 1e9
MOST_SPREADS = 1e8
MOST_COUNT = 1e12


def fitted_to(family: Family, groups: Groups) -> Family:
    """`family` on values standardized by the observed own values of training groups."""
    (column,) = groups.values.values()
    return scaled_to(family, torch.from_numpy(column[observed_own(groups)].astype(np.float64)))


def check_range(groups: Groups, family: Family) -> None:
    """Raise for training values whose numbers would be cut in silence; `family` is fitted to them.

    Scales that models predict lie between e^-20 and e^20 of the usual one, means of counts below
    e^30. Raises SupportError naming the row of a value that is too far out, DataError for a column
    whose usual spread has no square.

    >>> from exfam.families import Gaussian
    >>> groups = Groups(start=[0], stop=[4], values={"t": [1.0, 2.0, 3.0, 1e20]})
    >>> check_range(groups, Scaled(Gaussian(), 2.0, 1.0))
    Traceback (most recent call last):
    ...
    exfam.checks.SupportError: `t` must be within 1e+08 times the usual spread of the column, 1, of
    its median, got 1e+20 at row 3 (1 of 4 rows). Mend such rows, or declare the number in missing.
    """
    ((column, values),) = groups.values.items()
    own, unit = observed_own(groups), unit_of(family)
    if not SMALLEST <= unit <= 1 / SMALLEST:
        raise DataError(
            f"`{column}` must have a usual spread from {SMALLEST:g} to {1 / SMALLEST:g}, got "
            f"{unit:g}. Give it in another unit."
        )
    value = values[own].astype(np.float64)
    if isinstance(family, Scaled):
        wrong = own[np.abs(value - family.center) / unit > MOST_SPREADS]
        rule = f"within {MOST_SPREADS:g} times the usual spread of the column, {unit:g}, of its"
        rule, hint = f"{rule} median", "Mend such rows, or declare the number in missing."
    else:
        wrong = own[value > MOST_COUNT]
        rule = f"at most {MOST_COUNT:g} for a family of counts"
        hint = "Use Gaussian() for numbers this large."
    if len(wrong):
        row = int(wrong[0] if groups.source_row is None else groups.source_row[wrong[0]])
        got, counts = values[wrong[0]], (len(wrong), len(own))
        raise support_error(column, got, support=rule, row=row, counts=counts, hint=hint)


def family_in_units(family: Family) -> Family:
    """The family of standardized values."""
    return family.of_units if isinstance(family, Scaled) else family


def unit_of(family: Family) -> float:
    """How much of the value one standardized unit is."""
    return family.scale if isinstance(family, Scaled) else 1.0


def standardized_maps(groups: Groups, family: Family, shape: FieldShape) -> Groups:
    """The groups with values and places as a model sees them."""
    groups = with_origin(groups, shape.origin, shape.length)
    if isinstance(family, Scaled):
        values = {
            name: family.standardize(torch.from_numpy(column.astype(np.float64))).numpy()
            for name, column in groups.values.items()
        }
        groups = groups.with_(values=values)
    return groups


def with_origin(groups: Groups, origin: tuple[float, ...], length: float) -> Groups:
    """The groups with coordinates less `origin`, divided by `length`; as they are without one.

    Raises DataError for places that are more than 1e9 lengths away.
    """
    if not origin:
        return groups
    coordinates = groups.attributes["coordinates"]
    with np.errstate(over="ignore"):
        places = (coordinates - np.array(origin)) / length
    far = np.flatnonzero(~(np.abs(places) <= MOST_LENGTHS).all(1))
    if len(far):
        raise DataError(
            f"`coordinates` must lie within {MOST_LENGTHS:g} times the extent of the training "
            f"sites, {length:g}, got {tuple(coordinates[far[0]].tolist())}. Nothing is known so "
            "far away: leave such places out."
        )
    return groups.with_(attributes={**groups.attributes, "coordinates": places}, position=places)


def origin_and_length(
    places: Float[np.ndarray, "sites space"], *, metric: str
) -> tuple[tuple[float, ...], float]:
    """The middle of the sites and the largest distance of a coordinate from it.

    Models see single precision, in which sites that are close together and far from 0 would be one.
    Degrees on the globe are as they are: no origin, and a length of 1.
    Raises DataError for coordinates of more than 1e150, whose squares are no numbers.

    >>> origin_and_length(np.array([[4e6, 1.0], [4e6 + 2.0, 1.0]]), metric="euclidean")
    ((4000001.0, 1.0), 1.0)
    """
    if metric != "euclidean":
        return (), 1.0
    if (far := np.abs(places).max()) > FARTHEST:
        raise DataError(
            f"`coordinates` must be at most {FARTHEST:g} in size, got {far:g}. Give them in "
            "another unit."
        )
    origin = places.min(0) / 2 + places.max(0) / 2
    length = float(np.abs(places - origin).max())
    return tuple(origin.tolist()), length or 1.0
