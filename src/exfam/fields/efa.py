"""The FieldEFA estimator: exponential family attention over maps, and what it attended to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import nn

from exfam.estimator.base import parameter
from exfam.estimator.evaluate import value_parameters
from exfam.estimator.rules import Families, Flag
from exfam.fields.data.facts import observed_own
from exfam.fields.declarations import ClimateModel, FieldNetworkParameters, Lags
from exfam.fields.field_estimator import TrainedField
from exfam.fields.networks.assemble import build_field_network
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.links import anomaly, counts
from exfam.fields.networks.network import FieldNetwork, FieldWeights
from exfam.fields.plan import FieldPlan, family_in_units
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Elements that the starting values of a fit are taken from, of maps spread over all times.
MOST_START = 1 << 20
# Scales are changed by a factor of e at most when they are calibrated.
MOST_SHIFT = 1.0


@dataclass(frozen=True, eq=False)
class FieldExplanation:
    """Weights of one map's elements (the centers) on all that it sees (the context).

    `time`: label of the map; `site` and `coordinates` of the context, `steps_back` of its maps;
    `own`: which of the context are the centers, in their order; `attention`: of each layer, `null`
    what goes to the null token; `read_out`: of the linear read-out, None without one
    """

    time: Any
    site: Shaped[np.ndarray, "context"]
    coordinates: Float[np.ndarray, "context space"]
    steps_back: Int64[np.ndarray, "context"]
    own: Bool[np.ndarray, "context"]
    attention: list[Float[np.ndarray, "heads centers context"]]
    null: list[Float[np.ndarray, "heads centers"]]
    read_out: Float[np.ndarray, "read_out_heads centers context"] | None


class FieldEFA(ClimateModel, FieldNetworkParameters, Lags, TrainedField):
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
    calibrate: bool = parameter(
        Flag(),
        "whether scales are multiplied, after training, by the factor under which the maps "
        "held out are likeliest: trained ones are too narrow for other years",
        default=True,
    )

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        longest, family = int(plan.train.lengths.max()), plan.family
        step = max(1, len(plan.train) * longest // MOST_START)
        batch = plan.train.pad(np.arange(len(plan.train))[::step])
        sampled = batch.observed & batch.target
        (value,) = batch.values.values()
        sample = value if counts(family) else anomaly(value, climate(batch), family)
        start = family.initial_eta(sample[sampled].double()).float()
        start[: family.n_params - family.n_dispersion] = 0.0
        parts = self._train(plan, lambda generator: self._network(climate, start, generator))
        if self.calibrate and plan.validation is not None:
            for part in parts:
                _calibrate(self._member(part), plan.validation)
        return parts

    def _empty_part(self, climate: Climate) -> nn.Module:
        start, generator = torch.zeros(self.family_.n_params), torch.Generator().manual_seed(0)
        return self._network(climate, start, generator)

    def _network(
        self, climate: Climate, start: torch.Tensor, generator: torch.Generator
    ) -> FieldNetwork:
        family = family_in_units(self.family_)
        return build_field_network(
            self.shape_, self, climate=climate, family=family, start=start, generator=generator
        )

    def explain(self, X: Any) -> list[FieldExplanation]:
        """Attention weights of each map of `X`, by layer and head, and of the read-out.

        Of the first member of an ensemble: averaging heads of different networks means nothing.
        """
        inputs = self._inputs(X)
        network = self.members_[0].eval().value_part
        assert isinstance(network, FieldNetwork)
        with torch.inference_mode():
            return [
                _explained(network, inputs.groups, g, given=inputs.given)
                for g in range(len(inputs.groups))
            ]


def _calibrate(member: TwoPartModel, groups: Groups) -> None:
    """Widen or narrow the member's distributions until these groups' values are likeliest."""
    ((name, family),) = member.families.items()
    own = observed_own(groups)
    if not family.n_dispersion or not len(own):
        return
    eta = value_parameters([member], groups)[name][0][own].double()
    value = torch.from_numpy(groups.values[name][own]).double()
    column = torch.zeros(family.n_params, dtype=eta.dtype)
    column[family.n_params - family.n_dispersion] = 1.0

    def nats(shift: float) -> float:
        return -float(family.log_prob(value, eta + shift * column).mean())

    fit = scipy.optimize.minimize_scalar(nats, bounds=(-MOST_SHIFT, MOST_SHIFT), method="bounded")
    network: Any = member.value_part  # nn.Module's attributes have no better type
    network.head.widen(float(fit.x) if fit.fun < nats(0.0) else 0.0)


def _explained(network: FieldNetwork, groups: Groups, g: int, *, given: Groups) -> FieldExplanation:
    batch = groups.pad([g])
    weights = network.weights(batch.to(next(network.parameters()).device))
    there = batch.present[0].numpy()
    rows = batch.element[0].numpy()[there]
    length = batch.present.shape[1]
    n_keys = weights.keys.may_attend.shape[-1]
    assert groups.item is not None
    labels = np.array([*groups.vocabulary["item"].tolist(), None], dtype=object)
    names = groups.group_names
    layers = [_over_elements(layer[..., :n_keys], weights, length) for layer in weights.layers]
    read = weights.read_out
    return FieldExplanation(
        time=g if names is None else names[g],
        site=labels[groups.item[rows]],
        coordinates=given.attributes["coordinates"][rows],
        steps_back=batch.steps_back[0].numpy()[there],
        own=(batch.steps_back == 0)[0].numpy()[there],
        attention=[layer[..., there] for layer in layers],
        null=[layer[0, ..., n_keys:].sum(-1).T.cpu().numpy() for layer in weights.layers],
        read_out=None if read is None else _over_elements(read, weights, length)[..., there],
    )


def _over_elements(
    weights: Float[torch.Tensor, "one own heads key"], source: FieldWeights, length: int
) -> Float[np.ndarray, "heads own length"]:
    if source.keys.column is None:
        return weights[0].transpose(0, 1).cpu().numpy()
    own, heads = weights.shape[1:3]
    out = weights.new_zeros(own, heads, length)
    columns = source.keys.column[0][:, None].expand(-1, heads, -1)
    kept = torch.where(source.keys.may_attend[0][:, None], weights[0], 0.0)
    return out.scatter_add(2, columns, kept).transpose(0, 1).cpu().numpy()
