"""The latent factor model over the nearest sites, as an estimator."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from exfam.estimator.members import train_members
from exfam.fields import declarations
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.factor_network import (
    FieldLatentFactorPart,
    FieldLatentFactorSettings,
    build_field_latent_factor,
)
from exfam.fields.plan import FieldPlan
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History

__all__ = ["FieldLatentFactor"]


class FieldLatentFactor(FieldEstimator):
    """y_i | others ~ N(h_i . sum of h_j y_j over the k nearest observed sites j, sigma^2).

    The factors h are a network of the coordinates. The baseline of "Exponential Family Attention":
    proposition 2, over the nearest sites as in section 6.4.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `k`: how many of the nearest observed sites are summed over; all if None (default 5)
    `dim`: length of the factors (default 32)
    `hidden_dim`: hidden units of the network that makes them (default 128)
    `intercept`: whether a constant is added, which the paper has not (default False)
    `standardize`: what anomalies are taken from: "none" (one center and scale of the whole column,
        so that its unit does not matter; the paper's sums are of values as they are), "global",
        "site" or "seasonal" (default "none")
    `period`: length of the year in the unit of the times (default 365.25)

    Training:
    `learning_rate`: largest step size of AdamW (default 5e-3)
    `weight_decay`: decoupled weight decay (default 0.0)
    `batch_size`: maps in a step (default 32)
    `max_epochs`: passes over the training maps at most (default 300)
    `patience`: epochs without improvement on validation before stopping (default 60)
    `warmup`: share of the steps in which the step size grows (default 0.05)
    `clip`: largest norm of a gradient (default 1.0)
    `validation_fraction`: share of the maps, the last ones, held out to choose the best epoch
        (default 0.15)
    `ensemble`: models of seeds `seed`, `seed` + 1 …, whose densities are averaged (default 1)
    `seed`: of the initial weights and the batches (default 0)
    `device`: "cpu", "cuda", or "auto": CUDA if present (default "cpu")
    `progress`: whether to show progress in a terminal (default True)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldLatentFactor(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean", max_epochs=2, progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-latent-factor"
    parameter_rules = declarations.LATENT_FACTOR
    family = "gaussian"
    lags = 0
    step = None

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        k: int | None = 5,
        dim: int = 32,
        hidden_dim: int = 128,
        intercept: bool = False,
        standardize: str = "none",
        period: float = 365.25,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        batch_size: int = 32,
        max_epochs: int = 300,
        patience: int = 60,
        warmup: float = 0.05,
        clip: float = 1.0,
        validation_fraction: float = 0.15,
        ensemble: int = 1,
        seed: int = 0,
        device: str = "cpu",
        progress: bool = True,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.k = k
        self.dim = dim
        self.hidden_dim = hidden_dim
        self.intercept = intercept
        self.standardize = standardize
        self.period = period
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.warmup = warmup
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.ensemble = ensemble
        self.seed = seed
        self.device = device
        self.progress = progress

    def _settings(self) -> FieldLatentFactorSettings:
        return FieldLatentFactorSettings(
            dim=int(self.dim),
            hidden_dim=int(self.hidden_dim),
            k=None if self.k is None else int(self.k),
            metric=self.metric,
            intercept=self.intercept,
        )

    def _part(
        self, groups: Groups, climate: Climate | None, generator: torch.Generator
    ) -> FieldLatentFactorPart:
        return build_field_latent_factor(
            groups, self._settings(), climate=climate, generator=generator
        )

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = None if self.standardize == "none" else self._fit_climate(plan.train)

        def build(generator: torch.Generator) -> TwoPartModel:
            return self._member(self._part(plan.train, climate, generator))

        members, self.histories_ = train_members(self, build, plan)
        return [member.value_part for member in members if member.value_part is not None]

    def _empty_part(self) -> nn.Module:
        n_sites = len(self.site_coordinates_)
        like = Groups(
            start=np.array([0]),
            stop=np.array([n_sites]),
            values={self.shape_.column: np.arange(n_sites, dtype=float)},
            attributes={"coordinates": self.site_coordinates_},
        )
        climate = None if self.standardize == "none" else self._empty_climate()
        return self._part(like, climate, torch.Generator().manual_seed(0))

    @property
    def history_(self) -> History:
        """What happened in training, epoch by epoch, of the first member."""
        check_is_fitted(self, "members_")
        return self.histories_[0]
