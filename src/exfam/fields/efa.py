"""The FieldEFA estimator: exponential family attention over maps."""

from typing import Any

import numpy as np
import torch
from torch import nn

from exfam.estimator.base import parameter
from exfam.estimator.evaluate import value_parameters
from exfam.estimator.members import train_members
from exfam.estimator.rules import Families, Flag
from exfam.families import Family
from exfam.fields.data.field_checks import observed_own
from exfam.fields.declarations import FieldNetworkParameters, FieldTraining, Lags
from exfam.fields.explain import FieldExplanation, explain_maps
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.assemble import build_field_network
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.dispersion_shift import best_shift
from exfam.fields.networks.links import anomaly, counts
from exfam.fields.plan import FieldPlan
from exfam.fields.units import family_in_units
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Elements that the starting values of a fit are taken from, of maps spread over all times.
MOST_START = 1 << 20


class FieldEFA(FieldNetworkParameters, Lags, FieldTraining, FieldEstimator):
    """Spatiotemporal exponential family attention: each value given others on its map and before.

    {parameters}

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
    family: Any = parameter(
        Families(),
        '"gaussian", "student-t", "poisson", "negative-binomial", or an instance such as '
        "`Gaussian(scale=2.0)`",
        default="gaussian",
    )
    validation_fraction: float = parameter(
        text="share of the maps, the last ones, held out to choose the best epoch", default=0.15
    )
    calibrate: bool = parameter(
        Flag(),
        "whether scales are multiplied, after training, by the factor under which the maps "
        "held out are likeliest: trained ones are too narrow for other years",
        default=True,
    )

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        start = _start(plan.train, climate, plan.family)

        def build(generator: torch.Generator) -> TwoPartModel:
            part = build_field_network(
                plan.shape,
                self,
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
            self,
            climate=self._empty_climate(),
            family=family_in_units(self.family_),
            start=torch.zeros(self.family_.n_params),
            generator=torch.Generator().manual_seed(0),
        )

    def explain(self, X: Any) -> list[FieldExplanation]:
        """Attention weights of each map of `X`, by layer and head, and of the read-out.

        Of the first member of an ensemble: averaging heads of different networks means nothing.
        """
        inputs = self._inputs(X)
        return explain_maps(self.members_[0], inputs.groups, given=inputs.given)


def _calibrate(member: TwoPartModel, groups: Groups) -> None:
    """Widen or narrow the member's distributions until these groups' values are likeliest."""
    ((column, family),) = member.families.items()
    eta = value_parameters([member], groups)[column][0]
    own = observed_own(groups)
    shift = best_shift(family, eta[own], torch.from_numpy(groups.values[column][own]))
    network: Any = member.value_part  # nn.Module's attributes have no better type
    network.head.widen(shift)


def _start(groups: Groups, climate: Climate, family: Family) -> torch.Tensor:
    """Outputs to start from: location as is normal; scales and the like that fit the whole."""
    longest = int(groups.lengths.max())
    step = max(1, len(groups) * longest // MOST_START)
    batch = groups.pad(np.arange(len(groups))[::step])
    sampled = batch.observed & batch.target
    (value,) = batch.values.values()
    normal = climate(batch)
    sample = value if counts(family) else anomaly(value, normal, family)
    start = family.initial_eta(sample[sampled].double()).float()
    start[: family.n_params - family.n_dispersion] = 0.0
    return start
