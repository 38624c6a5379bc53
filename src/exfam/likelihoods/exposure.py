"""How long or how large an element was observed: a column of logarithms that moves its values."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError
from exfam.families import Family
from exfam.groups import Batch, Groups

# Larger numbers are hardly logarithms.
_LARGEST = 50.0


@dataclass(frozen=True)
class Exposure:
    """An element of twice the exposure has values twice as large, all else equal.

    `column`: an attribute of elements, the logarithm of the exposure
    `center`: the logarithm of the mean exposure in training, at which values stand for themselves

    The first parameter of a family with a log link is that of an element of mean exposure, plus
    the column less the center. Networks see values as they were at the mean exposure.
    """

    column: str
    center: float

    def check_families(self, families: Mapping[str, Family]) -> None:
        """Raise ExfamError for a family whose first parameter is not on a log scale."""
        for name, family in families.items():
            if not family.has_log_link:
                raise ExfamError(
                    f"`offset` must be left out with the family {family} of {name!r}, whose first "
                    "parameter is not the logarithm of a size. Use Poisson(), "
                    "NegativeBinomial(), Gamma(), Weibull(), Tweedie() or LogNormal()."
                )

    def check(self, groups: Groups) -> None:
        """Raise ExfamError unless all elements have a logarithm of an exposure, naming the row."""
        column = groups.attributes.get(self.column)
        if column is None or column.ndim != 1 or column.dtype.kind != "f":
            got = "none" if column is None else f"{column.dtype} of {column.ndim} dimension(s)"
            raise ExfamError(
                f"`offset` must name numbers of elements, column {self.column!r}, got {got}. Of "
                "Groups it is one of their attributes, an array of floats."
            )
        own = groups.elements()
        wrong = own[~(np.abs(column[own]) <= _LARGEST)]
        if len(wrong):
            row = wrong[0] if groups.source_row is None else groups.source_row[wrong[0]]
            raise ExfamError(
                f"`offset` must be the logarithm of an exposure, from {-_LARGEST:g} to "
                f"{_LARGEST:g}, got {column[wrong[0]]:g} at row {int(row)} of column "
                f"{self.column!r} ({len(wrong)} of {len(own)} rows). Take logarithms, and leave "
                "out rows without exposure."
            )

    def of_rows(
        self, groups: Groups, rows: Int64[np.ndarray, "cells"]
    ) -> Float64[np.ndarray, "cells"]:
        """What some elements' first parameters are moved by."""
        return groups.attributes[self.column][rows].astype(np.float64) - self.center

    def of(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What the elements' first parameters are moved by, 0 at padding."""
        column = batch.attributes[self.column][..., 0].double() - self.center
        return torch.where(batch.present, column, 0.0)

    def at_mean(self, batch: Batch, columns: Iterable[str]) -> Batch:
        """The batch with values as they were at the mean exposure."""
        factor = (-self.of(batch)).exp()
        values = {name: batch.values[name].double() * factor for name in columns}
        return replace(batch, values=batch.values | values)

    def added(
        self, eta: Float[Tensor, "batch length eta"], batch: Batch
    ) -> Float[Tensor, "batch length eta"]:
        """Parameters of the elements by those of elements of the mean exposure."""
        return torch.cat([eta[..., :1] + self.of(batch).to(eta)[..., None], eta[..., 1:]], -1)


@contextmanager
def offset_named(column: str | None) -> Iterator[None]:
    """Errors of reading the column, which is read as an attribute, name `offset`."""
    try:
        yield
    except DataError as error:
        rest = str(error).removeprefix("`attributes`")
        if column is None or rest == str(error) or repr(column) not in rest:
            raise
        raise DataError(f"`offset`{rest}") from error


def exposure_of(groups: Groups, column: str, families: Mapping[str, Family]) -> Exposure:
    """The exposure of training groups; ExfamError for families and rows that have none."""
    exposure = Exposure(column, 0.0)
    exposure.check_families(families)
    exposure.check(groups)
    given = exposure.of_rows(groups, groups.elements())
    return Exposure(column, float(np.logaddexp.reduce(given) - np.log(len(given))))
