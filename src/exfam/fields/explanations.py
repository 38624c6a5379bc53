"""What a field's predictions are made of, and what they attended to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from exfam.checks import ExfamError
from exfam.columns.results import PlottedResult
from exfam.families import Family
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.corrected import CorrectedFieldPart
from exfam.fields.data.facts import is_observed
from exfam.fields.draws import copies_of_map
from exfam.fields.latents import model_unit
from exfam.fields.local.local_part import LocalBasePart
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
        n_centers, n_context = int(self.own.sum()), len(self.site)
        center, context = np.indices((n_centers, n_context)).reshape(2, -1)
        columns = {
            "center": self.site[self.own][center],
            "site": self.site[context],
            "steps_back": self.steps_back[context],
        }
        if self.contributions is not None:
            columns["contribution"] = self.contributions.ravel()
        if self.attention:
            columns["weight"] = self.attention[-1].mean(0).ravel()
        return columns


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


def explained_base(
    part: Any, groups: Groups, g: int, *, given: Groups, family: Family
) -> FieldExplanation:
    """What a base's means are made of, and what attention on it adds and weighs."""
    corrected = isinstance(part, CorrectedFieldPart)
    base: FieldBasePart | LocalBasePart = part.base if corrected else part
    maps = groups[g].compact()
    batch = maps.pad([0])
    rows = batch.element[0][batch.present[0]].numpy()
    if len(rows) > MOST_EXPLAINED:
        raise ExfamError(
            f"`X` must have maps of at most {MOST_EXPLAINED:,} rows to explain, got one of "
            f"{len(rows):,} with those before it: every pair of values has a number. Explain rows "
            "around a site that you care for."
        )
    own = (batch.steps_back == 0)[0][batch.present[0]].numpy()
    location = base.location(batch)[batch.present].numpy()
    added = _contributions(base, maps, rows, own)
    shift = part.eta(batch)[batch.present][own, 0] - base.eta(batch)[batch.present][own, 0]
    weights = _pair_weights(part, batch) if corrected else []
    unit = model_unit(family)
    return FieldExplanation(
        time=g if groups.group_names is None else groups.group_names[g],
        site=_labels(maps)[rows],
        coordinates=given[g].compact().attributes["coordinates"][rows],
        steps_back=batch.steps_back[0][batch.present[0]].numpy(),
        own=own,
        attention=weights,
        null=[np.zeros(layer.shape[:2]) for layer in weights],
        read_out=None,
        normal=unit.shift + unit.factor * location[own],
        contributions=unit.factor * added,
        shift=unit.factor * shift.double().numpy(),
        covariates=unit.factor * base.normal.added(batch)[batch.present].numpy()[own],
    )


def explained_value(
    part: FieldBasePart | LocalBasePart | CorrectedFieldPart,
    maps: Groups,
    element: int,
    *,
    given: Groups,
    family: Family,
) -> FieldExplanation:
    """What one mean of a single map is made of: as `explained_base`, for one center alone.

    Means are linear in the anomalies, so that their slopes say what each value adds.
    `element`: number of the center among the map's own elements
    """
    base: Any = part.base if isinstance(part, CorrectedFieldPart) else part
    maps = maps.compact()
    batch = maps.pad([0])
    present = batch.present[0]
    rows = batch.element[0][present].numpy()
    at = int(torch.nonzero((batch.steps_back == 0)[0] & present)[element])
    elements = base.normal.elements(batch)
    anomaly = elements.anomaly.clone().requires_grad_()
    with torch.enable_grad():
        mean = base.of_elements(elements._replace(anomaly=anomaly))[0, at, 0]
        # A lone value's mean does not depend on any.
        slopes = torch.autograd.grad(mean, anomaly)[0] if mean.requires_grad else 0.0 * anomaly
    added = (slopes * elements.anomaly)[0][present].detach().numpy()
    shift = (part.eta(batch) - base.eta(batch))[0, at, 0] if base is not part else torch.zeros(())
    unit = model_unit(family)
    return FieldExplanation(
        time=0 if maps.group_names is None else maps.group_names[0],
        site=_labels(maps)[rows],
        coordinates=given.compact().attributes["coordinates"][rows],
        steps_back=batch.steps_back[0].numpy()[present.numpy()],
        own=np.flatnonzero(present.numpy()) == at,
        attention=[],
        null=[],
        read_out=None,
        normal=unit.shift + unit.factor * base.location(batch)[0, at : at + 1].numpy(),
        contributions=unit.factor * added[None],
        shift=unit.factor * shift.double().detach().reshape(1).numpy(),
        covariates=unit.factor * base.normal.added(batch)[0, at : at + 1].numpy(),
    )


def _labels(groups: Groups) -> Shaped[np.ndarray, "elements"]:
    assert groups.item is not None
    labels = np.array([*groups.vocabulary["item"].tolist(), None], dtype=object)
    return labels[groups.item]


def _contributions(
    base: FieldBasePart | LocalBasePart,
    maps: Groups,
    rows: Int64[np.ndarray, "context"],
    own: Bool[np.ndarray, "context"],
) -> Float[np.ndarray, "centers context"]:
    """How far each value moves each mean, all others being what is normal: means are linear."""
    (column,) = maps.values.values()
    values = np.repeat(column[None].astype(np.float64), len(rows) + 1, axis=0)
    copies, kept = copies_of_map(maps, values, is_observed(maps), targets=rows[own])
    batch = copies.pad(np.arange(len(copies)))
    elements = base.normal.elements(batch)
    # Each copy keeps the anomaly of one element, the last of none.
    wanted = torch.from_numpy(np.append(np.searchsorted(kept, rows), -1))
    alone = batch.element % len(kept) == wanted[:, None]
    elements = elements._replace(anomaly=torch.where(alone, elements.anomaly, 0.0))
    means = base.of_elements(elements)[..., 0][batch.present].reshape(len(values), -1).double()
    return (means[:-1] - means[-1:]).T[own].numpy()


def _pair_weights(
    part: CorrectedFieldPart, batch: Batch
) -> list[Float[np.ndarray, "heads centers context"]]:
    """Of the first member, over the elements of one map; 0 for sites that training has not."""
    known = part.base.known_rows(batch)
    first: Any = part.members[0]  # nn.Module's attributes have no better type
    there, n_columns = batch.present[0], known.rows.shape[1]
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
