"""A batch of maps as anomalies at points, as the covariances of fields read it."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.places import to_points
from exfam.groups import Batch

# A map's covariance is factorized whole: its time grows with the cube of this number.
MOST_ELEMENTS = 5000
# Doubts are rounded to this share of the scale, so that days of like doubts share a factorization.
DOUBT_GRID = 0.05


@dataclass(frozen=True, eq=False)
class Anomalies:
    """Departures from what is normal, in units of the normal scale; 0 where not observed.

    `doubt` is what is not known of the normal location, in the same units; `steps_back` counts
    maps back. `signature` is equal for maps that differ in their values only.
    """

    value: Float64[Tensor, "batch length"]
    observed: Bool[Tensor, "batch length"]
    points: Float64[Tensor, "batch length space"]
    doubt: Float64[Tensor, "batch length"]
    steps_back: Float64[Tensor, "batch length"]
    scale: Float64[Tensor, "batch length"]
    location: Float64[Tensor, "batch length"]

    @property
    def signature(self) -> Float64[Tensor, "batch numbers"]:
        """Places, observed ones, doubts and times of each map, side by side."""
        parts = [self.observed.double(), self.doubt, self.steps_back, self.points.flatten(1)]
        return torch.cat(parts, -1)

    def above(self, level: Float64[Tensor, ""]) -> "Anomalies":
        """The same maps with that much taken from every observed anomaly."""
        return replace(self, value=torch.where(self.observed, self.value - level, 0.0))

    def to_eta(
        self, mean: Float64[Tensor, "batch length"], variance: Float64[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation in the value's unit, of those of anomalies."""
        log_sd = self.scale.log() + 0.5 * variance.clamp_min(1e-12).log()
        return torch.stack([self.location + self.scale * mean, log_sd], -1).float()


def read_anomalies(batch: Batch, climate: Climate) -> Anomalies:
    """The anomalies of a batch of field groups with one value column.

    Raises ExfamError for maps of more than 5,000 elements, those of earlier maps included.
    """
    length = batch.present.shape[1]
    if length > MOST_ELEMENTS:
        raise ExfamError(
            f"`groups` must have at most {MOST_ELEMENTS:,} elements a map, earlier maps included, "
            f"where all of them are solved for at once, got {length:,}. Use fewer lags or sites, "
            "or FieldEFA."
        )
    normal = climate(batch)
    location, scale, doubt = (part.double() for part in normal)
    observed = batch.observed & batch.present
    (value,) = batch.values.values()
    return Anomalies(
        value=torch.where(observed, (value.double() - location) / scale, 0.0),
        observed=observed,
        points=to_points(batch.attributes["coordinates"], climate.metric),
        doubt=(doubt / scale / DOUBT_GRID).round() * DOUBT_GRID,
        steps_back=batch.steps_back.double(),
        scale=scale,
        location=location,
    )
