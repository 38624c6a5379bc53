"""What every kind of scored data states."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.explorer.errors.terms import Slicing, Terms
from exfam.explorer.views import Answer
from exfam.families import Family

# Of no family of whole numbers or categories.
_BETWEEN = 0.31371


@runtime_checkable
class Scored(Protocol):
    """Data whose terms a model has scored, and a second one, where it is given.

    `units`, `parts`: what units and parts of the terms are called, such as "rows" and "columns"
    `terms`: by the model; `other`: the nats of the same terms by the second one, NaN where it has
        none
    `n_all`: units of the data, of which `n_scored` are scored; `is_partial`: whether so few are for
        a first look alone
    `columns`: whose calibration can be had
    """

    units: str
    parts: str
    n_all: int
    n_scored: int
    is_partial: bool
    columns: Sequence[str]

    @property
    def terms(self) -> Terms: ...

    @property
    def other(self) -> Float64[np.ndarray, "terms"] | None: ...

    @property
    def slicings(self) -> Mapping[str, Slicing]: ...

    def name_of_unit(self, unit: int) -> str:
        """What a unit is called."""
        ...

    def name_of_part(self, part: int) -> str:
        """What a part is called."""
        ...

    def value_of(self, term: int) -> str:
        """What was there, as text."""
        ...

    def address(self, term: int) -> Mapping[str, Any]:
        """Fields of the address at which the first view shows the term given all others."""
        ...

    def calibration(self, column: str, terms: Int64[np.ndarray, "chosen"]) -> Answer:
        """Whether the distributions of a column come true at some of its terms."""
        ...

    def shift(self, after: Any) -> Answer:
        """What has moved between these data and others of their kind."""
        ...

    def bars(self, after: Any, part: str) -> Answer:
        """The distribution of one part in both."""
        ...


def gives_masses(family: Family) -> bool:
    """Whether a family's log-probabilities are of masses; else they are of densities."""
    between = torch.tensor([_BETWEEN], dtype=torch.float64)
    return not bool(family.in_support(between, item=torch.zeros(1, dtype=torch.int64)).any())


def first_of(most: float, *, of: int, share: float, first: bool) -> tuple[int, bool]:
    """How many are scored of so many, and whether these are fewer than there could be.

    `most`: that are worth the time; `share` of them is enough for a `first` look
    """
    few = max(1, int(most * share))
    is_partial = first and few < min(float(most), of)
    return (few if is_partial else int(most)), is_partial


def some_of(n: int, most: int) -> Int64[np.ndarray, "some"]:
    """All numbers below `n`, or so many random ones in their order, always the same."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:most])
