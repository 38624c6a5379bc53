"""Parts of a data set, and how the notebooks of "Exponential Family Attention" draw them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.groups import Groups

SPLITS = ("paper", "correct")
# The notebooks' one seed, for their legacy generator.
NOTEBOOK_SEED = 42


@dataclass(frozen=True, eq=False)
class Splits:
    """Disjoint groups to fit on, to choose by and to report on."""

    train: Groups
    validation: Groups
    test: Groups


def notebook_parts(n: int) -> tuple[Int64[np.ndarray, "train"], Int64[np.ndarray, "validation"]]:
    """Sorted indices of 75 % to fit on and 25 % to choose by, as the notebooks draw them."""
    drawn = np.random.RandomState(NOTEBOOK_SEED).permutation(n)
    n_validation = -(-n // 4)
    return np.sort(drawn[n_validation:]), np.sort(drawn[:n_validation])


def items_of(groups: Groups) -> Int64[np.ndarray, "own"]:
    """The item of every own element."""
    assert groups.item is not None
    return groups.item[groups.elements()].astype(np.int64)


def values_of(groups: Groups) -> Float[np.ndarray, "own"]:
    """The one value of every own element."""
    (column,) = groups.values.values()
    return column[groups.elements()]
