"""The latent factor model over the nearest sites, as an estimator."""

import numpy as np
import torch
from torch import nn

from exfam.estimator.base import parameter
from exfam.fields.declarations import ClimateModel, LatentFactorParameters
from exfam.fields.field_estimator import TrainedField
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.factor_network import FieldLatentFactorPart, build_field_latent_factor
from exfam.fields.plan import FieldPlan
from exfam.groups import Groups


class FieldLatentFactor(ClimateModel, LatentFactorParameters, TrainedField):
    """Each value is normal around a weighted sum of the values at the nearest observed sites.

        y_i | others ~ N(h_i . sum of h_j y_j over the k nearest observed sites j, sigma^2)

    The factors h are a network of the coordinates. The baseline of "Exponential Family Attention":
    proposition 2, over the nearest sites as in section 6.4.

    {parameters}

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldLatentFactor(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean", max_epochs=2, progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-latent-factor"
    standardize: str = parameter(
        text='what anomalies are taken from: "none" (one center and scale of the whole column, so '
        "that its unit does not matter; the paper's sums are of values as they are), "
        '"global", "site" or "seasonal"',
        default="none",
    )
    learning_rate: float = parameter(default=0.005)
    weight_decay: float = parameter(default=0.0)
    max_epochs: int = parameter(default=300)
    patience: int = parameter(default=60)

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return self._train(plan, lambda generator: self._part(plan.train, climate, generator))

    def _empty_part(self, climate: Climate) -> nn.Module:
        n_sites = len(self.site_coordinates_)
        like = Groups(
            start=np.array([0]),
            stop=np.array([n_sites]),
            values={self.shape_.column: np.arange(n_sites, dtype=float)},
            attributes={"coordinates": self.site_coordinates_},
        )
        return self._part(like, climate, torch.Generator().manual_seed(0))

    def _part(
        self, groups: Groups, climate: Climate, generator: torch.Generator
    ) -> FieldLatentFactorPart:
        normal = None if self.standardize == "none" else climate
        return build_field_latent_factor(
            groups, self, metric=self.metric, climate=normal, generator=generator
        )
