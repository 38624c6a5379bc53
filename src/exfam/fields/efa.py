"""The FieldEFA estimator: exponential family attention over maps."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from exfam.estimator.evaluate import value_parameters
from exfam.estimator.members import train_members
from exfam.families import Family
from exfam.fields import declarations
from exfam.fields.explain import FieldExplanation, explain
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.assemble import FieldSettings, build_field_network
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.dispersion_shift import best_shift
from exfam.fields.networks.links import anomaly, counts
from exfam.fields.plan import FieldPlan
from exfam.fields.units import family_in_units
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.history import History

__all__ = ["FieldEFA"]

# Elements that the starting values of a fit are taken from, of maps spread over all times.
MOST_START = 1 << 20


class FieldEFA(FieldEstimator):
    """Spatiotemporal exponential family attention: each value given others on its map and before.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `family`: "gaussian", "student-t", "poisson", "negative-binomial", or an instance such as
        `Gaussian(scale=2.0)` (default "gaussian")
    `scale`: whether scales and the like are "global" constants or depend on the "input": place,
        context and what it shows (default "input")
    `site_embedding`: whether each site has a learned vector beside its coordinates: better where
        predictions are for the sites of training, of no use at new ones (default False)
    `lags`: how many earlier maps are seen as well (default 0)
    `step`: time from a map to the next (in days for dates); the most frequent gap if None
        (default None)
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `embed_dim`: length of the tokens (default 64)
    `n_heads`: attention heads (default 4)
    `head_dim`: length of each head's queries and keys (default 16)
    `n_layers`: attention layers; 0 leaves the linear read-out alone, which can be better: on
        October temperatures of 44 cities its mean squared errors on the test days are 8.15, 8.25
        and 8.12 (three seeds, squared degrees Fahrenheit), and with one layer 8.53 (default 1)
    `feed_forward_dim`: hidden units after each attention layer, 0 for none (default 64)
    `head_hidden_dim`: hidden units of the head, 0 for a linear one (default 32)
    `read_out_heads`: heads of the linear read-out beside attention, 0 for none (default 16)
    `encoding`: "distance" (scores fall with it), "none", or another name of
        `exfam.encodings.ENCODINGS`; of these, those that take real numbers serve places of one
        coordinate, all others refuse places in training (default "distance")
    `null_token`: whether a learned key stands for "none of these", which few
        and far sites leave much weight to (default True)
    `n_neighbors`: how many of the nearest observed sites of each map are attended to; all if None,
        which takes time with the square of the number of sites (default None)
    `hide`: share of the maps that hide some of their values in training, from none to all, so that
        any subset of sites can be the context; where all sites are always observed, less predicts
        better (default 0.25)
    `dropout`: share of units dropped in training (default 0.1)

    Training:
    `learning_rate`: largest step size of AdamW (default 3e-3)
    `weight_decay`: decoupled weight decay (default 0.05)
    `batch_size`: maps in a step (default 32)
    `max_epochs`: passes over the training maps at most (default 150)
    `patience`: epochs without improvement on validation before stopping (default 40)
    `warmup`: share of the steps in which the step size grows (default 0.05)
    `clip`: largest norm of a gradient (default 1.0)
    `validation_fraction`: share of the maps, the last ones, held out to choose the best epoch
        (default 0.15)
    `calibrate`: whether scales are multiplied, after training, by the factor under which the maps
        held out are likeliest: trained ones are too narrow for other years (default True)
    `ensemble`: models of seeds `seed`, `seed` + 1 …, whose densities are averaged (default 1)
    `seed`: of the initial weights and the batches (default 0)
    `device`: "cpu", "cuda", or "auto": CUDA if present (default "cpu")
    `progress`: whether to show progress in a terminal (default True)

    After `fit`: `members_`, `shape_`, `family_`, `vocabulary_`, `site_coordinates_`, `history_` (of
    the first member) and `histories_`.
    Source: "Exponential Family Attention", section 3.2 and appendix H.4.

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldEFA(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean", max_epochs=2, progress=False)
    >>> model.fit(frame).predict_dist(frame).interval(0.9)[0].shape
    (6,)
    """

    kind = "field-efa"
    parameter_rules = declarations.FIELD_EFA

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        family: Any = "gaussian",
        scale: str = "input",
        site_embedding: bool = False,
        lags: int = 0,
        step: float | None = None,
        standardize: str = "site",
        period: float = 365.25,
        embed_dim: int = 64,
        n_heads: int = 4,
        head_dim: int = 16,
        n_layers: int = 1,
        feed_forward_dim: int = 64,
        head_hidden_dim: int = 32,
        read_out_heads: int = 16,
        encoding: str = "distance",
        null_token: bool = True,
        n_neighbors: int | None = None,
        hide: float = 0.25,
        dropout: float = 0.1,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.05,
        batch_size: int = 32,
        max_epochs: int = 150,
        patience: int = 40,
        warmup: float = 0.05,
        clip: float = 1.0,
        validation_fraction: float = 0.15,
        calibrate: bool = True,
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
        self.family = family
        self.scale = scale
        self.site_embedding = site_embedding
        self.lags = lags
        self.step = step
        self.standardize = standardize
        self.period = period
        self.embed_dim = embed_dim
        self.n_heads = n_heads
        self.head_dim = head_dim
        self.n_layers = n_layers
        self.feed_forward_dim = feed_forward_dim
        self.head_hidden_dim = head_hidden_dim
        self.read_out_heads = read_out_heads
        self.encoding = encoding
        self.null_token = null_token
        self.n_neighbors = n_neighbors
        self.hide = hide
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.warmup = warmup
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.calibrate = calibrate
        self.ensemble = ensemble
        self.seed = seed
        self.device = device
        self.progress = progress

    def _settings(self) -> FieldSettings:
        names = FieldSettings.__dataclass_fields__
        return FieldSettings(**{name: getattr(self, name) for name in names})

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        start = _start(plan.train, climate, plan.family)

        def build(generator: torch.Generator) -> TwoPartModel:
            part = build_field_network(
                plan.shape,
                self._settings(),
                climate=climate,
                family=plan.family,
                start=start,
                generator=generator,
            )
            return self._member(part)

        members, self.histories_ = train_members(self, build, plan)
        if self.calibrate and plan.validation is not None:
            for member in members:
                _calibrate(member, plan.validation)
        return [member.value_part for member in members if member.value_part is not None]

    def _empty_part(self) -> nn.Module:
        return build_field_network(
            self.shape_,
            self._settings(),
            climate=self._empty_climate(),
            family=family_in_units(self.family_),
            start=torch.zeros(self.family_.n_params),
            generator=torch.Generator().manual_seed(0),
        )

    @property
    def history_(self) -> History:
        """What happened in training, epoch by epoch, of the first member."""
        check_is_fitted(self, "members_")
        return self.histories_[0]

    def explain(self, X: Any) -> list[FieldExplanation]:
        """Attention weights of each map of `X`, by layer and head, and of the read-out.

        Of the first member of an ensemble: averaging heads of different networks means nothing.
        """
        inputs = self._inputs(X)
        return explain(self.members_[0], inputs.groups, given=inputs.given)


def _calibrate(member: TwoPartModel, groups: Groups) -> None:
    """Widen or narrow the member's laws as the values of these groups ask for."""
    ((column, family),) = member.families.items()
    eta = value_parameters([member], groups)[column][0]
    own = groups.elements()
    own = own if groups.observed is None else own[groups.observed[own]]
    shift = best_shift(family, eta[own], torch.from_numpy(groups.values[column][own]))
    network: Any = member.value_part  # nn.Module's attributes have no better type
    network.head.widen(shift)


def _start(groups: Groups, climate: Climate, family: Family) -> torch.Tensor:
    """Outputs to start from: location as is normal; scales and the like that fit the whole."""
    longest = int(groups.lengths.max())
    step = max(1, len(groups) * longest // MOST_START)
    batch = groups.pad(np.arange(len(groups))[::step])
    told = batch.observed & batch.target
    (value,) = batch.values.values()
    normal = climate(batch)
    sample = value if counts(family) else anomaly(value, normal, family)
    start = family.initial_eta(sample[told].double()).float()
    start[: family.n_params - family.n_dispersion] = 0.0
    return start
