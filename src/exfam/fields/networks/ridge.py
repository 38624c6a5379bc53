"""Closed-form normal baselines of fields: a ridge covariance, and ridge regressions site by site.

Both see a map as one row of anomalies from the climate, a slot for each site of the map and of the
maps before it, and the second moments of the training rows, S.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from exfam.checks import DataError, ExfamError
from exfam.fields.base.columns import at_columns, columns_of_elements, in_columns
from exfam.fields.networks.joint_normal import JointNormal, SlotRows, fit_normal, leave_one_out
from exfam.groups import Batch, Groups

# In units of the anomalies' mean variance. The largest leaves a site little but its own mean.
RIDGES = tuple(10.0 ** (k / 4) for k in range(-14, 5))
N_FOLDS = 6
# Steps of time longer than this many usual ones part the maps into seasons.
LONG_GAP = 5.0
# Of values in units of their spread: below it there is nothing but rounding.
_LEAST_VARIANCE = 1e-24
# Held-out sites count as much as this many of the average one when their errors are judged.
COMMON_ROWS = 5.0

Elements = Float[Tensor, "batch length"]
Judged = Float[Tensor, "ridges rows sites"]
Predicted = tuple[Float[Tensor, "rows predicted"], Float[Tensor, "rows predicted"]]


class SlottedBatch(NamedTuple):
    """The elements of a batch as anomalies, and where in the rows of slots each stands.

    `slot`: steps back times the number of sites plus the site's code; the number of slots where an
        element has none (unknown site, too far back, padding)
    """

    rows: SlotRows
    slot: Int[Tensor, "batch length"]
    location: Elements
    scale: Elements
    doubt: Elements

    def read(self, row: Float64[Tensor, "batch slots"], *, missing: float) -> Elements:
        """Each element's entry of the rows; `missing` where it has no slot."""
        return at_columns(row, self.slot, missing=missing)


class RidgePart(nn.Module, ABC):
    """Mean and scale of each site given the others that are observed, from buffers alone.

    The conditional variance is multiplied by `inflation`, the mean squared error on held-out maps
    in units of it. A site that training never observed has the climate's location and scale.
    """

    direction = "bidirectional"

    def __init__(self, climate: nn.Module, *, n_sites: int, n_lags: int = 0) -> None:
        super().__init__()
        self.climate, self.n_sites, self.n_lags = climate, n_sites, n_lags
        n_slots = n_sites * (n_lags + 1)
        ridge, moments = self.initial(n_sites, n_slots)
        self.mean = nn.Buffer(torch.zeros(n_slots).double())
        for name, moment in moments.items():
            self.register_buffer(name, moment.double())
        self.seen = nn.Buffer(torch.zeros(n_slots, dtype=torch.bool))
        self.inflation = nn.Buffer(torch.ones_like(ridge).double())
        self.ridge = nn.Buffer(ridge.double())

    @staticmethod
    @abstractmethod
    def initial(n_sites: int, n_slots: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Ridges and what the conditionals are computed from, before a fit."""

    @abstractmethod
    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        """Mean and variance of the own slots, at least, under this distribution."""

    @abstractmethod
    def conditional(self, rows: SlotRows) -> Predicted:
        """Mean and variance of the own slots, at least, given the others that are known."""

    @abstractmethod
    def take(self, trial: "RidgeTrial") -> None:
        """Take the ridge that held-out maps choose, and the moments under it."""

    def slotted(self, batch: Batch) -> SlottedBatch:
        """The batch's maps as rows of anomalies (value - location) / scale, in float64."""
        if batch.item is None:
            raise ExfamError(
                "`item` must be given for a model of known sites, got groups without items."
            )
        location, scale, doubt = (part.double() for part in self.climate(batch))
        (value,) = batch.values.values()
        anomaly = (torch.where(batch.observed, value, 0.0).double() - location) / scale
        site = torch.where(batch.present, batch.item.long(), -1)
        lag, n_slots = batch.steps_back.long(), len(self.mean)
        slot = columns_of_elements(site, lag, n_sites=self.n_sites, n_lags=self.n_lags)
        shown = torch.where(batch.observed, slot, n_slots)
        known = in_columns(torch.ones_like(batch.observed), shown, n_slots)
        rows = SlotRows(in_columns(anomaly, shown, n_slots), known)
        return SlottedBatch(rows, slot, location, scale, doubt)

    def table(self, groups: Groups) -> SlotRows:
        """All maps of the groups as rows of anomalies."""
        parts = [self.slotted(part.pad(np.arange(len(part)))).rows for part in groups.chunks()]
        return SlotRows(torch.cat([p.value for p in parts]), torch.cat([p.known for p in parts]))

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log scale of every own element; the climate's where training saw nothing."""
        slotted = self.slotted(batch)
        mean, variance = self.conditional(
            SlotRows(slotted.rows.value, slotted.rows.known & self.seen)
        )
        seen = self.seen[: mean.shape[1]]
        mean = torch.where(seen, mean, 0.0)
        variance = torch.where(seen, self.inflation * variance, 1.0)
        is_seen = slotted.read(seen.double().expand_as(mean), missing=0.0) > 0
        doubt = torch.where(is_seen, 0.0, slotted.doubt.square())
        spread = slotted.scale.square() * slotted.read(variance, missing=1.0) + doubt
        location = slotted.location + slotted.scale * slotted.read(mean, missing=0.0)
        return torch.stack([location, 0.5 * spread.log()], -1)


class RidgeCovariancePart(RidgePart):
    """Each site given all others that are observed, under one normal of covariance S + ridge I."""

    covariance: Tensor

    @staticmethod
    def initial(n_sites: int, n_slots: int) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.zeros(()), {"covariance": torch.eye(n_slots)}

    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        return leave_one_out(normal, rows)

    def conditional(self, rows: SlotRows) -> Predicted:
        return leave_one_out(JointNormal(self.mean, self.covariance), rows)

    def take(self, trial: "RidgeTrial") -> None:
        # The scale that fits best, and the negative log-likelihood with it but for constants.
        ratio = (trial.error / trial.variance).sum((1, 2)) / trial.known.sum()
        nats = 0.5 * ratio.log() + 0.5 * trial.variance.log().sum((1, 2)) / trial.known.sum()
        best = int(nats.argmin())
        normal = fit_normal(trial.rows, ridge=trial.ridges[best])
        self.mean.copy_(normal.mean)
        self.covariance.copy_(normal.covariance)
        self.inflation.copy_(ratio[best])
        self.ridge.fill_(trial.ridges[best])


class RidgeSitePart(RidgePart):
    """One ridge regression per site on all other slots of the row, each with its own penalty.

    A predictor that is not observed enters at its mean, and the variance grows by that of what it
    would have added, b^T S b over the missing coefficients b.
    """

    coefficients: Tensor
    residual: Tensor
    moments: Tensor

    @staticmethod
    def initial(n_sites: int, n_slots: int) -> tuple[Tensor, dict[str, Tensor]]:
        moments = {
            "coefficients": torch.zeros(n_sites, n_slots),
            "residual": torch.ones(n_sites),
            "moments": torch.eye(n_slots),
        }
        return torch.zeros(n_sites), moments

    def predicted(self, normal: JointNormal, ridge: float, rows: SlotRows) -> Predicted:
        lines = _regressions(normal, self.n_sites)
        return _predict_lines(*lines, _without_ridge(normal, ridge), rows)

    def conditional(self, rows: SlotRows) -> Predicted:
        normal = JointNormal(self.mean, self.moments)
        return _predict_lines(self.coefficients, self.residual, normal, rows)

    def take(self, trial: "RidgeTrial") -> None:
        count = trial.known.sum(0)
        total = trial.error.sum(1) + COMMON_ROWS * trial.error.sum((1, 2))[:, None] / count.sum()
        best = total.argmin(0)
        ratio = (trial.error / trial.variance).sum(1)[best, torch.arange(self.n_sites)]
        common = COMMON_ROWS * ratio.sum() / count.sum()
        self.inflation.copy_((ratio + common) / (count + COMMON_ROWS))
        self.ridge.copy_(torch.tensor(trial.ridges, dtype=torch.float64)[best])
        normal: JointNormal | None = None
        for ridge in sorted(set(self.ridge.tolist()), reverse=True):
            normal = fit_normal(trial.rows, ridge=ridge, start=normal)
            coefficients, residual = _regressions(normal, self.n_sites)
            chosen = self.ridge == ridge
            self.coefficients[chosen] = coefficients[chosen]
            self.residual[chosen] = residual[chosen]
            self.mean.copy_(normal.mean)
            self.moments.copy_(_without_ridge(normal, ridge).covariance)


class RidgeTrial(NamedTuple):
    """Squared errors and variances of own slots on held-out maps; 0 and 1 where not `known`."""

    ridges: list[float]
    error: Judged
    variance: Judged
    known: Bool[Tensor, "rows sites"]
    rows: SlotRows


def fit_ridge(
    part: RidgePart,
    groups: Groups,
    *,
    validation: Groups | None = None,
    ridges: Sequence[float] = RIDGES,
) -> RidgePart:
    """The part, with the ridges under which held-out maps are predicted best.

    Held out are the maps of `validation`, or else folds of the training maps. `ridges` are in units
    of the anomalies' mean variance. Raises DataError for fewer than 2 maps, where no site has 2
    observed values, or where they never vary.
    """
    rows = part.table(groups)
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
        held = part.table(validation)
        splits = [(rows, SlotRows(held.value, held.known & part.seen))]
    known = torch.cat([held.known[:, : part.n_sites] for _, held in splits])
    unit = float(rows.value[rows.known].var())
    if not unit > _LEAST_VARIANCE:
        raise DataError(
            "Values of a field must vary around what is usual at their site and time, got values "
            "that never do, such as constants. Fit `FieldClimatology`: nothing is left for a ridge."
        )
    tried = [ridge * unit for ridge in sorted(ridges, reverse=True)]
    judged = [_held_out(part, *split, ridges=tried) for split in splits]
    error, variance = (torch.cat(parts, 1) for parts in zip(*judged, strict=True))
    part.take(RidgeTrial(tried, error, variance, known, rows))
    return part


def time_folds(
    time: Float[np.ndarray, "groups"], *, n_folds: int
) -> list[Bool[np.ndarray, "groups"]]:
    """Which maps each fold holds out: whole seasons where time has gaps, else blocks of time.

    Three runs of maps or more with gaps of over 5 usual steps between them count as seasons.
    """
    if len(time) < 2:
        raise DataError(f"`groups` must hold at least 2 maps, got {len(time)}.")
    order = np.argsort(time, kind="stable")
    step = np.diff(time[order])
    usual = np.median(step[step > 0]) if (step > 0).any() else np.inf
    season = np.concatenate([[0], np.cumsum(step > LONG_GAP * usual)])
    unit = season if season[-1] >= 2 else np.arange(len(time))
    block = unit * min(n_folds, unit[-1] + 1) // (unit[-1] + 1)
    return [np.isin(np.arange(len(time)), order[block == k]) for k in range(block[-1] + 1)]


def _held_out(
    part: RidgePart, train: SlotRows, held: SlotRows, *, ridges: Sequence[float]
) -> tuple[Judged, Judged]:
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
    """Coefficients of own slots on all others, -P_ij / P_ii, and residual variances 1 / P_ii."""
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
