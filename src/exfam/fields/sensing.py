"""Active sensing: which missing value would say most about the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64

from exfam.estimator.evaluate import value_parameters
from exfam.families.mixtures import Mixture
from exfam.fields.data.field_checks import is_observed
from exfam.fields.draws import copies_of_map
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel


@dataclass(frozen=True, eq=False)
class Sensing:
    """How much measuring each missing value would say about the others.

    `reduction`: by how much the mean predictive variance at the other missing values of the same
        time would fall, one per row, in the squared unit of the value; NaN where none is missing.
        Negative where a measurement is expected to make the model less sure.
    `variance`: predictive variance of each missing value as things are; NaN where none is missing
    """

    reduction: Float[np.ndarray, "rows"]
    variance: Float[np.ndarray, "rows"]

    def in_unit(self, unit: float) -> "Sensing":
        """The same in a unit of which the present one is `unit`."""
        # One factor after the other: the square of a unit may be too small for a number.
        return Sensing(unit * (unit * self.reduction), unit * (unit * self.variance))

    @property
    def ranking(self) -> Int64[np.ndarray, "missing"]:
        """Rows with a missing value, the largest reduction first; equals by row.

        >>> sensing = Sensing(np.array([np.nan, 0.5, 2.0]), np.array([np.nan, 4.0, 4.0]))
        >>> sensing.ranking
        array([2, 1])
        """
        rows = np.flatnonzero(~np.isnan(self.reduction))
        return rows[np.argsort(-self.reduction[rows], kind="stable")]


def next_sites(
    members: Sequence[TwoPartModel],
    groups: Groups,
    rows: Int64[np.ndarray, "own"],
    *,
    n: int,
    seed: int,
) -> Sensing:
    """The reductions of all missing values of all maps, each averaged over `n` draws of it."""
    generator = torch.Generator().manual_seed(seed)
    everywhere = is_observed(groups)
    flat = np.full((2, groups.n_rows), np.nan)
    for g in range(len(groups)):
        own = np.arange(groups.start[g], groups.stop[g])
        if not everywhere[own].all():
            # Columns of its own: they are copied for every value that might be measured.
            one = groups[g].compact()
            observed = is_observed(one)
            missing = np.flatnonzero(~observed[: len(own)])
            flat[:, own[missing]] = _of_map(members, one, observed, missing, n, generator)
    out = np.full((2, len(rows)), np.nan)
    out[:, rows] = flat[:, groups.elements()]
    return Sensing(*out)


def _of_map(
    members: Sequence[TwoPartModel],
    one: Groups,
    observed: np.ndarray,
    missing: Int64[np.ndarray, "missing"],
    n: int,
    generator: torch.Generator,
) -> Float[np.ndarray, "2 missing"]:
    """Reductions and variances of the missing values of one map."""
    (values,) = one.values.values()
    plain = values[None].astype(np.float64)
    mixture = _predicted(members, one, plain, observed, missing)
    variance = mixture.variance().double().numpy()
    reduction = np.zeros(len(missing))
    draws = np.stack([mixture.sample(generator).double().numpy() for _ in range(n)])
    for k, element in enumerate(missing.tolist()):
        others = np.delete(missing, k)
        if not len(others):
            continue
        measured = np.repeat(plain, n, axis=0)
        measured[:, element] = draws[:, k]
        seen = observed.copy()
        seen[element] = True
        after = _predicted(members, one, measured, seen, others)
        reduction[k] = np.delete(variance, k).mean() - float(after.variance().double().mean())
    return np.stack([reduction, variance])


def _predicted(
    members: Sequence[TwoPartModel],
    one: Groups,
    values: Float[np.ndarray, "draws elements"],
    observed: np.ndarray,
    targets: Int64[np.ndarray, "targets"],
) -> Mixture:
    """Predictions of the targets in every copy of the map, copy after copy."""
    copies, rows = copies_of_map(one, values, observed, targets=targets)
    (eta,) = value_parameters(members, copies).values()
    at = np.searchsorted(rows, targets) + len(rows) * np.arange(len(values))[:, None]
    (family,) = members[0].families.values()
    return Mixture(family, eta[:, at.ravel()].double())
