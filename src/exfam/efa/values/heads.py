"""How a base predicts the values of a family: the head of every family that it knows.

A head is a few numbers that make the parameters of its `family` from features. Values are modeled
on a working scale, of a `transform` of value and `shift`; those that are `counted` have a table. A
head that `reads_amounts` has sums of values as they are. `fit` gives the numbers and `eta` the
parameters by them. A correction of these has `n_changes` outputs, and `changed` parameters are
those with them.
"""

import numpy as np
from jaxtyping import Float64

from exfam.efa.values.head_classes import ClassHead
from exfam.efa.values.head_counts import CountHead, with_atoms
from exfam.efa.values.head_location import LINKS, LocationHead, core_of
from exfam.families import Categorical, Family, Histogram, RoundedStudentT
from exfam.families.categories import Finite
from exfam.families.counts import Successes

# Families of at most so many categories have a free logit for each.
MOST_CLASSES = 64


Head = LocationHead | ClassHead | CountHead


def head_of(family: Family) -> Head | None:
    """The head of a family of standardized values; None of those that a base does not know.

    Finite families are all predicted by free logits.
    """
    if isinstance(family, Finite | Successes) and 2 <= len(family.categories) <= MOST_CLASSES:
        first, n = family.categories[0], len(family.categories)
        return ClassHead(Categorical(n, start=first, step=family.spacing))
    if isinstance(family, Histogram) and family.n_params <= MOST_CLASSES:
        return ClassHead(family)
    if isinstance(family, RoundedStudentT):
        return CountHead(family)
    # A subclass may have changed what parameters mean.
    core = core_of(family)
    is_ours = all(type(one).__module__.startswith("exfam.families.") for one in (family, core))
    # Of shares a working scale has no number for the ends.
    known = core.name in LINKS and (core is family or LINKS[core.name].transform != "logit")
    return LocationHead(family) if is_ours and known else None


def settled_head(family: Family, value: Float64[np.ndarray, "cells"]) -> Head | None:
    """The same, with what training values decide: which counts are common."""
    if isinstance(family, RoundedStudentT):
        return CountHead(with_atoms(family, value))
    return head_of(family)
