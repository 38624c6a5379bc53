"""Closed-form normal baselines of fields: a ridge covariance, and ridge regressions site by site.

Both see a map as one row of anomalies from the climate, a slot for each site of the map and of the
maps before it, and the second moments of the training rows, S. They differ in what the ridge is
chosen for: one for the whole distribution, or one for each site.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.checks import DataError
from exfam.fields.networks.joint_normal import JointNormal, SlotRows, fit_normal, leave_one_out
from exfam.fields.networks.slots import SlottedBatch, n_lags_of, slot_rows, slot_table, time_folds
from exfam.groups import Batch, Groups

# In units of the anomalies' mean variance. The largest leaves a site little but its own mean.
RIDGES = tuple(10.0 ** (k / 4) for k in range(-14, 5))
N_FOLDS = 6

# Of values in units of their spread: below it there is nothing but rounding.
_LEAST_VARIANCE = 1e-24

# Held-out sites count as much as this many of the average one when their errors are judged.
COMMON_ROWS = 5.0

Predicted = tuple[Float[Tensor, "rows predicted"], Float[Tensor, "rows predicted"]]


class RidgePart(nn.Module, ABC):
    """Mean and scale of each site given the others that are observed, from buffers alone.

    The conditional variance is multiplied by `inflation`, the mean squared error on held-out maps
    in units of it. A site that training never observed has the climate's location and scale,
    widened by the climate's doubt, and informs no other.
    """

    direction = "bidirectional"
    mean: Tensor
    seen: Tensor
    inflation: Tensor
    ridge: Tensor

    def __init__(
        self,
        climate: nn.Module,
        *,
        n_sites: int,
        n_lags: int,
        moments: dict[str, Tensor],
        ridge: Tensor,
    ) -> None:
        super().__init__()
        self.climate, self.n_sites, self.n_lags = climate, n_sites, n_lags
        n_slots = n_sites * (n_lags + 1)
        self.register_buffer("mean", torch.zeros(n_slots, dtype=torch.float64))
        for name, moment in moments.items():
            self.register_buffer(name, moment.double())
        self.register_buffer("seen", torch.zeros(n_slots, dtype=torch.bool))
        self.register_buffer("inflation", torch.ones_like(ridge, dtype=torch.float64))
        self.register_buffer("ridge", ridge.double())

    @abstractmethod
    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        """Mean and variance of the own slots, at least, if the part were of this distribution.

        `normal`: with `ridge` on the diagonal of its covariance
        """

    @abstractmethod
    def conditional(self, rows: SlotRows) -> Predicted:
        """Mean and variance of the own slots, at least, given the others that are known."""

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log scale of every own element, given the observed others."""
        slotted = slot_rows(batch, self.climate, n_sites=self.n_sites, n_lags=self.n_lags)
        rows = SlotRows(slotted.rows.value, slotted.rows.known & self.seen)
        mean, variance = self.conditional(rows)
        return _eta(slotted, self.seen, mean, self.inflation * variance)


class RidgeCovariancePart(RidgePart):
    """Each site given all others that are observed, under one normal of covariance S + ridge I.

    Exact for any subset that is observed, of the map and of the maps before it.
    """

    covariance: Tensor

    def __init__(self, climate: nn.Module, *, n_sites: int, n_lags: int = 0) -> None:
        moments = {"covariance": torch.eye(n_sites * (n_lags + 1))}
        sizes = {"n_sites": n_sites, "n_lags": n_lags}
        super().__init__(climate, **sizes, moments=moments, ridge=torch.zeros(()))

    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        """Exact conditionals of all slots."""
        return leave_one_out(normal, rows)

    def conditional(self, rows: SlotRows) -> Predicted:
        """Exact conditionals of all slots."""
        return leave_one_out(JointNormal(self.mean, self.covariance), rows)


class RidgeSitePart(RidgePart):
    """One ridge regression per site on all other slots of the row, each with its own penalty.

    A predictor that is not observed enters at its expectation given nothing, its mean, and the
    variance grows by that of what it would have added, b^T S b over the missing coefficients b:
    the first rows of a season, without maps before them, are predicted like that too.
    """

    coefficients: Tensor
    residual: Tensor
    moments: Tensor

    def __init__(self, climate: nn.Module, *, n_sites: int, n_lags: int = 0) -> None:
        n_slots = n_sites * (n_lags + 1)
        moments = {
            "coefficients": torch.zeros(n_sites, n_slots),
            "residual": torch.ones(n_sites),
            "moments": torch.eye(n_slots),
        }
        sizes = {"n_sites": n_sites, "n_lags": n_lags}
        super().__init__(climate, **sizes, moments=moments, ridge=torch.zeros(n_sites))

    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        """What the regressions of all sites under one ridge predict."""
        lines = _regressions(normal, self.n_sites)
        return _predict_lines(*lines, _without_ridge(normal, ridge), rows)

    def conditional(self, rows: SlotRows) -> Predicted:
        """What each site's regression predicts."""
        normal = JointNormal(self.mean, self.moments)
        return _predict_lines(self.coefficients, self.residual, normal, rows)


def fit_ridge_covariance(
    groups: Groups,
    *,
    climate: nn.Module,
    validation: Groups | None = None,
    ridges: Sequence[float] = RIDGES,
) -> RidgeCovariancePart:
    """The normal distribution of the training maps, with the ridge of the likeliest held-out maps.

    Held out are the maps of `validation`, or else folds of the training maps: whole seasons where
    time has long gaps, blocks of time otherwise. Cells that are missing in training are integrated
    out by expectation-maximization. `ridges` are in units of the anomalies' mean variance.
    Raises DataError for fewer than 2 maps, where no site has 2 observed values, or where they never
    vary.

    >>> import numpy as np
    >>> from exfam.fields.networks.climate import Climate
    >>> groups = Groups(start=np.arange(0, 40, 2), stop=np.arange(2, 42, 2),
    ...     item=np.tile([0, 1], 20), values={"t": np.sin(np.arange(40) // 2)},
    ...     group_attributes={"time": np.arange(20.0)})
    >>> sizes = {"n_sites": 2, "n_dims": 2, "metric": "euclidean", "period": 1.0, "step": 1.0}
    >>> part = fit_ridge_covariance(groups, climate=Climate("none", **sizes))
    >>> bool((part.eta(groups.pad([3]))[..., 0] - np.sin(3)).abs().max() < 0.01)
    True
    """
    part = RidgeCovariancePart(climate, n_sites=groups.n_items, n_lags=n_lags_of(groups))
    trial = _try(part, groups, validation, ridges=ridges)
    # The scale that fits best, and the negative log-likelihood with it but for constants.
    ratio = (trial.error / trial.variance).sum((1, 2)) / trial.known.sum()
    nats = 0.5 * ratio.log() + 0.5 * trial.variance.log().sum((1, 2)) / trial.known.sum()
    best = int(nats.argmin())
    ridge = trial.ridges[best]
    normal = fit_normal(trial.rows, ridge=ridge)
    part.mean.copy_(normal.mean)
    part.covariance.copy_(normal.covariance)
    part.inflation.copy_(ratio[best])
    part.ridge.fill_(ridge)
    return part


def fit_ridge_site(
    groups: Groups,
    *,
    climate: nn.Module,
    validation: Groups | None = None,
    ridges: Sequence[float] = RIDGES,
) -> RidgeSitePart:
    """One regression per site; its penalty has the smallest squared error on held-out maps.

    Held out are the maps of `validation`, or else folds of the training maps, as in
    `fit_ridge_covariance`; the same maps give the scale of the residuals. Where training misses
    cells, the moments of the regressions come from expectation-maximization.
    Raises DataError as `fit_ridge_covariance` does.
    """
    part = RidgeSitePart(climate, n_sites=groups.n_items, n_lags=n_lags_of(groups))
    trial = _try(part, groups, validation, ridges=ridges)
    count = trial.known.sum(0)
    total = trial.error.sum(1) + COMMON_ROWS * trial.error.sum((1, 2))[:, None] / count.sum()
    best = total.argmin(0)
    site = torch.arange(part.n_sites)
    ratio = (trial.error / trial.variance).sum(1)[best, site]
    common = COMMON_ROWS * ratio.sum() / count.sum()
    part.inflation.copy_((ratio + common) / (count + COMMON_ROWS))
    part.ridge.copy_(torch.tensor(trial.ridges, dtype=torch.float64)[best])
    normal: JointNormal | None = None
    for ridge in sorted(set(part.ridge.tolist()), reverse=True):
        normal = fit_normal(trial.rows, ridge=ridge, start=normal)
        coefficients, residual = _regressions(normal, part.n_sites)
        chosen = part.ridge == ridge
        part.coefficients[chosen] = coefficients[chosen]
        part.residual[chosen] = residual[chosen]
        part.mean.copy_(normal.mean)
        part.moments.copy_(_without_ridge(normal, ridge).covariance)
    return part


class _Trial(NamedTuple):
    """Squared errors and variances of own slots on held-out maps, for each ridge.

    0 and 1 where a value is not `known`. `rows` are the training rows of the final fit.
    """

    ridges: list[float]
    error: Float[Tensor, "ridges rows sites"]
    variance: Float[Tensor, "ridges rows sites"]
    known: Bool[Tensor, "rows sites"]
    rows: SlotRows


def _try(
    part: RidgePart, groups: Groups, validation: Groups | None, *, ridges: Sequence[float]
) -> _Trial:
    """Fits with every ridge, judged on held-out maps; fills the part's `seen` as well."""
    sizes = {"n_sites": part.n_sites, "n_lags": part.n_lags}
    rows = slot_table(groups, part.climate, **sizes)
    folds = time_folds(groups.group_attributes["time"], n_folds=N_FOLDS)
    part.seen.copy_(rows.known.sum(0) >= 2)
    if not part.seen.any():
        raise DataError(
            "`groups` must hold at least 2 observed values of some site, got no site with more "
            "than 1: give more maps, or fit `FieldClimatology` alone."
        )
    rows = SlotRows(rows.value, rows.known & part.seen)
    if validation is None:
        splits = [(rows.take(~fold), rows.take(fold)) for fold in map(torch.from_numpy, folds)]
    else:
        held = slot_table(validation, part.climate, **sizes)
        splits = [(rows, SlotRows(held.value, held.known & part.seen))]
    known = torch.cat([held.known[:, : part.n_sites] for _, held in splits])
    unit = float(rows.value[rows.known].var())
    if not unit > _LEAST_VARIANCE:
        raise DataError(
            "Values of a field must vary around what is usual at their site and time, got values "
            "that never do, such as constants. Fit `FieldClimatology`: nothing is left for a ridge."
        )
    tried = [ridge * unit for ridge in sorted(ridges, reverse=True)]
    errors, variances = zip(
        *(_held_out(part, *split, ridges=tried) for split in splits), strict=True
    )
    return _Trial(tried, torch.cat(errors, 1), torch.cat(variances, 1), known, rows)


def _held_out(
    part: RidgePart, train: SlotRows, held: SlotRows, *, ridges: Sequence[float]
) -> tuple[Float[Tensor, "ridges rows sites"], Float[Tensor, "ridges rows sites"]]:
    errors, variances = [], []
    n_sites = part.n_sites
    known, value = held.known[:, :n_sites], held.value[:, :n_sites]
    normal: JointNormal | None = None
    for ridge in ridges:
        normal = fit_normal(train, ridge=ridge, start=normal)
        mean, variance = part.predicted(normal, ridge, held)
        errors.append(torch.where(known, value - mean[:, :n_sites], 0.0).square())
        variances.append(torch.where(known, variance[:, :n_sites], 1.0))
    return torch.stack(errors), torch.stack(variances)


def _regressions(
    normal: JointNormal, n_sites: int
) -> tuple[Float[Tensor, "sites slots"], Float[Tensor, "sites"]]:
    """Coefficients of own slots on all others, -P_ij / P_ii, and residual variances.

    P is the inverse of S + ridge I.
    """
    precision = torch.cholesky_inverse(torch.linalg.cholesky(normal.covariance))
    residual = precision.diagonal()[:n_sites].reciprocal()
    coefficients = -precision[:n_sites] * residual[:, None]
    coefficients.diagonal().zero_()
    return coefficients, residual


def _predict_lines(
    coefficients: Float[Tensor, "sites slots"],
    residual: Float[Tensor, "sites"],
    normal: JointNormal,
    rows: SlotRows,
) -> Predicted:
    anomaly = torch.where(rows.known, rows.value - normal.mean, 0.0)
    mean = normal.mean[: len(residual)] + anomaly @ coefficients.T
    patterns, pattern = torch.unique(rows.known, dim=0, return_inverse=True)
    added = []
    for known in patterns:
        missing = (~known).nonzero()[:, 0]
        line = coefficients[:, missing]
        added.append((line @ normal.covariance[missing[:, None], missing] * line).sum(-1))
    return mean, residual + torch.stack(added)[pattern]


def _without_ridge(normal: JointNormal, ridge: float) -> JointNormal:
    eye = torch.eye(len(normal.mean)).to(normal.covariance)
    return JointNormal(normal.mean, normal.covariance - ridge * eye)


def _eta(
    slotted: SlottedBatch,
    seen: Bool[Tensor, "slots"],
    mean: Float[Tensor, "batch predicted"],
    variance: Float[Tensor, "batch predicted"],
) -> Float[Tensor, "batch length 2"]:
    """Anomalies back in the value's unit; the climate alone where training saw nothing."""
    width = mean.shape[1]
    mean = torch.where(seen[:width], mean, 0.0)
    variance = torch.where(seen[:width], variance, 1.0)
    is_seen = slotted.read(seen[:width].double().expand_as(mean), missing=0.0) > 0
    doubt = torch.where(is_seen, 0.0, slotted.doubt.square())
    spread = slotted.scale.square() * slotted.read(variance, missing=1.0) + doubt
    location = slotted.location + slotted.scale * slotted.read(mean, missing=0.0)
    return torch.stack([location, 0.5 * spread.log()], -1)
