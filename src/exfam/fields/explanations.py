"""What a field's predictions are made of, and what they attended to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor

from exfam.checks import ExfamError
from exfam.columns.results import PlottedResult, in_rows
from exfam.families import Family
from exfam.fields.base.elements import FieldElements
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.corrected import CorrectedFieldPart
from exfam.fields.local.local_part import LocalBasePart
from exfam.fields.networks.links import model_unit
from exfam.fields.networks.network import FieldNetwork, FieldWeights
from exfam.groups import Batch, Groups

# Values of a map and those before it that an explanation has all pairs of.
MOST_EXPLAINED = 3000


@dataclass(frozen=True, eq=False, repr=False)
class FieldExplanation(PlottedResult):
    """Weights of one map's elements (the centers) on all that it sees (the context).

    `time`: label of the map; `site` and `coordinates` of the context, `steps_back` of its maps;
    `own`: which of the context are the centers, in their order; `attention`: of each layer, `null`
    what goes to the null token; `read_out`: of the linear read-out, None without one.
    With a base, the predictive mean of each center is `normal` + the sum of its `contributions` +
    `shift`, in the unit of the value: what is normal there, what each value around adds to that,
    and attention. `covariates`: what covariates that change add, which is part of `normal`. Where
    the logarithms or the roots of values are Student's t, it is the location of these that is
    explained, in their unit. All are None without a base
    """

    time: Any
    site: Shaped[np.ndarray, "context"]
    coordinates: Float[np.ndarray, "context space"]
    steps_back: Int64[np.ndarray, "context"]
    own: Bool[np.ndarray, "context"]
    attention: list[Float[np.ndarray, "heads centers context"]]
    null: list[Float[np.ndarray, "heads centers"]]
    read_out: Float[np.ndarray, "read_out_heads centers context"] | None
    normal: Float[np.ndarray, "centers"] | None = None
    contributions: Float[np.ndarray, "centers context"] | None = None
    shift: Float[np.ndarray, "centers"] | None = None
    covariates: Float[np.ndarray, "centers"] | None = None

    picture = "field_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `center`, `site`, `steps_back`, and `contribution` with a base.

        `weight`: of attention, the mean over the heads of the last layer, where there is any.
        """
        centers = self.site[self.own]
        columns = {"steps_back": np.broadcast_to(self.steps_back, (len(centers), len(self.site)))}
        if self.contributions is not None:
            columns["contribution"] = self.contributions
        if self.attention:
            columns["weight"] = self.attention[-1].mean(0)
        return in_rows({"center": centers, "site": self.site}, columns)


@torch.inference_mode()
def explained_network(
    network: FieldNetwork, groups: Groups, g: int, *, given: Groups
) -> FieldExplanation:
    """Attention weights of a network alone."""
    batch = groups.pad([g])
    weights = network.weights(batch.to(next(network.parameters()).device))
    there = batch.present[0].numpy()
    rows = batch.element[0].numpy()[there]
    length = batch.present.shape[1]
    n_keys = weights.keys.may_attend.shape[-1]
    names = groups.group_names
    layers = [_over_elements(layer[..., :n_keys], weights, length) for layer in weights.layers]
    read = weights.read_out
    return FieldExplanation(
        time=g if names is None else names[g],
        site=_labels(groups)[rows],
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


@torch.no_grad()
def explained_base(
    part: FieldBasePart | LocalBasePart | CorrectedFieldPart,
    groups: Groups,
    g: int,
    *,
    given: Groups,
    family: Family,
    center: int | None = None,
) -> FieldExplanation:
    """What a base's means are made of, and what attention on it adds and weighs.

    `center`: number of one of the map's own elements, which alone is explained, without weights
    """
    base: Any = part.base if isinstance(part, CorrectedFieldPart) else part
    maps = groups[g].compact()
    batch = maps.pad([0])
    there = batch.present[0].nonzero()[:, 0]
    if center is None and len(there) > MOST_EXPLAINED:
        raise ExfamError(
            f"`X` must have maps of at most {MOST_EXPLAINED:,} rows to explain, got one of "
            f"{len(there):,} with those before it: every pair of values has a number. Explain rows "
            "around a site that you care for."
        )
    centers = there[batch.steps_back[0][there] == 0]
    centers = centers if center is None else centers[center : center + 1]
    rows, elements = batch.element[0][there].numpy(), base.normal.elements(batch)
    shift = torch.zeros(len(centers), dtype=torch.float64)
    if part is not base:
        shift = (part.eta(batch) - base.eta(batch))[0, centers, 0].double()
    weights = []
    if center is None and isinstance(part, CorrectedFieldPart):
        weights = _pair_weights(part, batch)
    unit = model_unit(family)
    return FieldExplanation(
        time=g if groups.group_names is None else groups.group_names[g],
        site=_labels(maps)[rows],
        coordinates=given[g].compact().attributes["coordinates"][rows],
        steps_back=batch.steps_back[0][there].numpy(),
        own=torch.isin(there, centers).numpy(),
        attention=weights,
        null=[np.zeros(layer.shape[:2]) for layer in weights],
        read_out=None,
        normal=unit.shift + unit.factor * elements.location[0, centers].numpy(),
        contributions=unit.factor * _contributions(base, elements, centers)[:, there].numpy(),
        shift=unit.factor * shift.numpy(),
        covariates=unit.factor * base.normal.added(batch)[0, centers].numpy(),
    )


def _labels(groups: Groups) -> Shaped[np.ndarray, "elements"]:
    assert groups.item is not None
    labels = np.array([*groups.vocabulary["item"].tolist(), None], dtype=object)
    return labels[groups.item]


def _contributions(
    base: FieldBasePart | LocalBasePart, elements: FieldElements, centers: Int64[Tensor, "centers"]
) -> Float64[Tensor, "centers length"]:
    """What each value adds to the means of centers, which are linear in the anomalies."""
    if len(centers) > 1:
        means = base.of_elements(elements.one_by_one())[:, centers, 0]
        return (means - elements.location[0, centers]).T
    anomaly = elements.anomaly.clone().requires_grad_()
    with torch.enable_grad():
        mean = base.of_elements(elements._replace(anomaly=anomaly))[0, centers, 0].sum()
        # A lone value's mean does not depend on any.
        slopes = torch.autograd.grad(mean, anomaly)[0] if mean.requires_grad else 0.0 * anomaly
    return (slopes * elements.anomaly).detach().expand(len(centers), -1)


def _pair_weights(
    part: CorrectedFieldPart, batch: Batch
) -> list[Float[np.ndarray, "heads centers context"]]:
    """Of the first member, over the elements of one map; 0 for sites that training has not."""
    known = part.base.known_rows(batch)
    first: Any = part.members[0]  # nn.Module's attributes have no better type
    there, n_columns = batch.present[0], known.rows.values.shape[1]
    at = known.column[0][there]
    parts = []
    for seen in part.see(batch, known):
        weights: Tensor = first.weights(seen.pairs)[0]
        everywhere = weights.new_zeros(len(weights), weights.shape[-1], n_columns + 1)
        index = seen.pairs.column[seen.pairs.pattern[0]][:, None].expand(-1, weights.shape[-1], -1)
        everywhere = everywhere.scatter_add(2, index, weights.transpose(1, 2))
        everywhere[..., n_columns] = 0.0
        parts.append(everywhere[..., at])
    of_sites = torch.cat(parts)
    site = known.site[0][there & (batch.steps_back[0] == 0)]
    heads = torch.where((site >= 0)[:, None, None], of_sites[site], 0.0)
    return [heads.transpose(0, 1).numpy()]
