"""Joint draws of missing values: one after the other in each map, then by Gibbs sweeps."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.estimator.evaluate import value_parameters
from exfam.families.mixtures import Mixture
from exfam.fields.data.field_checks import is_observed
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.likelihoods.two_part import TwoPartModel


def fill_maps(
    members: Sequence[TwoPartModel], groups: Groups, *, n: int, sweeps: int, seed: int
) -> Float[np.ndarray, "draws elements"]:
    """`n` fillings of the missing values of all maps, in increasing time: later maps see them.

    Observed values are as they are in every draw.
    """
    generator = torch.Generator().manual_seed(seed)
    (values,) = groups.values.values()
    drawn = np.repeat(values[None].astype(np.float64), n, axis=0)
    observed = is_observed(groups).copy()
    time = groups.group_attributes["time"]
    for g in np.argsort(time, kind="stable").tolist():
        own = np.arange(groups.start[g], groups.stop[g])
        missing = own[~observed[own]]
        if not len(missing):
            continue
        _fill(members, groups[g], drawn, observed, missing, sweeps, generator)
        observed[missing] = True
    return drawn


def _fill(
    members: Sequence[TwoPartModel],
    one: Groups,
    drawn: Float[np.ndarray, "draws elements"],
    observed: Bool[np.ndarray, "elements"],
    missing: Int64[np.ndarray, "missing"],
    sweeps: int,
    generator: torch.Generator,
) -> None:
    """Draw the missing values of one map, in place, in the order of its elements."""
    seen = observed.copy()
    for sweep in range(sweeps + 1):
        for element in missing.tolist():
            if sweep:
                seen[element] = False
            copies, rows = copies_of_map(one, drawn, seen, targets=np.array([element]))
            (eta,) = value_parameters(members, copies).values()
            at = np.searchsorted(rows, element) + len(rows) * np.arange(len(drawn))
            (family,) = members[0].families.values()
            draw = Mixture(family, eta[:, at].double()).sample(generator)
            drawn[:, element] = draw.numpy()
            seen[element] = True


def copies_of_map(
    one: Groups,
    values: Float[np.ndarray, "draws elements"],
    observed: Bool[np.ndarray, "elements"],
    *,
    targets: Int64[np.ndarray, "targets"],
) -> tuple[Groups, Int64[np.ndarray, "rows"]]:
    """One map and what it sees, once for each row of `values`; and the elements that it holds.

    `targets` are the elements to be predicted.
    """
    ranges = [(one.start, one.stop)]
    if one.context_start is not None and one.context_stop is not None:
        ranges += list(zip(one.context_start.T, one.context_stop.T, strict=True))
    rows = np.unique(np.concatenate([np.arange(a[0], b[0]) for a, b in ranges]))
    n, size = len(values), len(rows)
    offset = size * np.arange(n)

    def moved(bound: np.ndarray) -> np.ndarray:
        """Bounds among `rows`, in every copy; the ranges of a map are gapless among them."""
        at = np.searchsorted(rows, bound)
        return offset.reshape(-1, *[1] * (bound.ndim - 1)) + at

    role = np.where(np.isin(rows, targets), TARGET, CONTEXT)
    (column,) = one.values
    copies = Groups(
        start=moved(one.start),
        stop=moved(one.stop - 1) + 1 if one.n_elements else moved(one.start),
        item=None if one.item is None else np.tile(one.item[rows], n),
        values={column: values[:, rows].ravel()},
        attributes={name: np.tile(a[rows], (n, 1)) for name, a in one.attributes.items()},
        group_attributes={
            name: np.repeat(a, n, axis=0) for name, a in one.group_attributes.items()
        },
        position=None if one.position is None else np.tile(one.position[rows], (n, 1)),
        observed=np.tile(observed[rows], n),
        role=np.tile(role, n),
        context_start=None if one.context_start is None else moved(one.context_start),
        context_stop=None if one.context_stop is None else _stops(one, moved),
        vocabulary=one.vocabulary,
    )
    return copies, rows


def _stops(one: Groups, moved: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    assert one.context_start is not None and one.context_stop is not None
    empty = one.context_stop == one.context_start
    last = moved(np.where(empty, one.context_start, one.context_stop - 1))
    return np.where(empty, last, last + 1)
