"""What elements of a map attended to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped

from exfam.fields.networks.network import FieldNetwork, FieldWeights
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel


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


def explain_maps(member: TwoPartModel, groups: Groups, *, given: Groups) -> list[FieldExplanation]:
    """The weights of every map; `given` are the maps in the units of the data."""
    network = member.value_part
    assert isinstance(network, FieldNetwork)
    member.eval()
    with torch.inference_mode():
        return [_of_map(network, groups, g, given=given) for g in range(len(groups))]


def _of_map(network: FieldNetwork, groups: Groups, g: int, *, given: Groups) -> FieldExplanation:
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
    """Weights with one column per element, wherever the keys were taken from."""
    if source.keys.column is None:
        return weights[0].transpose(0, 1).cpu().numpy()
    own, heads = weights.shape[1:3]
    out = weights.new_zeros(own, heads, length)
    columns = source.keys.column[0][:, None].expand(-1, heads, -1)
    kept = torch.where(source.keys.may_attend[0][:, None], weights[0], 0.0)
    return out.scatter_add(2, columns, kept).transpose(0, 1).cpu().numpy()
