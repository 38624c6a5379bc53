"""Which context counted: attention weights by element name, and one vector a group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError, check_whole
from exfam.columns.label_index import index_of
from exfam.columns.results import PlottedResult, in_rows
from exfam.efa.blanks import append_blank
from exfam.efa.contributions import Contributions, contributions
from exfam.efa.networks.based import BasedItems, network_of
from exfam.efa.networks.efa_network import EFANetwork
from exfam.efa.networks.factor_network import LatentFactorItems, LatentFactorValues
from exfam.efa.value_explanations import ValueExplanation, explain_values, has_bases_of_values
from exfam.estimator.evaluate import device_of, evaluation_batches, set_to_predict
from exfam.estimator.schema import Schema
from exfam.groups import Batch, Groups
from exfam.groups.arrange import group_of_elements
from exfam.likelihoods.two_part import TwoPartModel
from exfam.positions.attention import PositionAttention, own_weights, with_term
from exfam.positions.metrics import renormalized


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(PlottedResult):
    """Attention weights of one group.

    `weights[part]` has a row for each element of the group as center, and a column for each
    element as context, then "(nothing)" for the null token and "(mask)" for the hidden center
    itself where the model has them; `part` is "items" or "values". With softmax attention a row
    sums to 1. An element's own column is 0: it never sees itself. `contributions`: of a model with
    a base of items, what makes up the score of each element's item, given the others. `values`: of
    one with bases of values, what makes up each element's predicted values, by column.
    """

    group: object
    centers: list[str]
    columns: list[str]
    weights: dict[str, Float[np.ndarray, "layers heads center column"]]
    contributions: Contributions | None = None
    values: dict[str, ValueExplanation] = field(default_factory=dict)

    @property
    def picture(self) -> str:  # type: ignore[override]
        """Attention where there is any, else contributions, of items or of values."""
        if self.weights:
            return "attention_map"
        return "explanation_bars"

    def to_dict(self, part: str | None = None) -> dict[str, np.ndarray]:
        """Columns `layer`, `head` (from 1), `center`, `context`, `weight` of one part.

        Of the first part unless given; of a model without attention, what bases add up.
        """
        if part is None and not self.weights:
            return (self.contributions or next(iter(self.values.values()))).to_dict()
        weights = self.weights[next(iter(self.weights)) if part is None else part]
        layers, heads = (np.arange(1, 1 + n) for n in weights.shape[:2])
        axes = {"layer": layers, "head": heads, "center": self.centers, "context": self.columns}
        return in_rows(axes, {"weight": weights})


def explain_groups(
    members: Sequence[TwoPartModel], groups: Groups, vocabulary: Mapping[str, np.ndarray]
) -> list[Explanation]:
    """Attention weights and contributions to what bases predict, one group at a time.

    Raises ExfamError for a model with neither.
    """
    set_to_predict(members)
    model = members[0]
    has_base = isinstance(model.item_part, BasedItems)
    predicted = list(model.families) if has_bases_of_values(members) else []
    networks = networks_of(model, required=not has_base and not predicted)
    more = further_columns(next(iter(networks.values()), None))
    if groups.group_names is None:
        groups = groups.with_(group_names=np.arange(len(groups)))
    index = index_of(vocabulary, "item")
    explanations = []
    for number in range(len(groups)):
        group = groups[number : number + 1]
        weights = {name: weights_of_group(network, group) for name, network in networks.items()}
        element = group.elements()
        names = [str(k) for k in range(len(element))]
        if group.item is not None and "item" in vocabulary:
            names = index.texts_of(group.item[element].astype(np.int64)).tolist()
        assert group.group_names is not None
        (label,) = group.group_names.tolist()
        own = group.compact().with_(role=None)
        base = contributions(members, own, vocabulary) if has_base else None
        every = np.arange(own.n_elements)
        values = {
            column: explain_values(members, own, vocabulary, column=column, elements=every)
            for column in predicted
        }
        explanations.append(Explanation(label, names, names + more, weights, base, values))
    return explanations


def further_columns(network: EFANetwork | None) -> list[str]:
    """What is attended to besides elements: the null token, the mask of the hidden center."""
    if network is None:
        return []
    more = ["(nothing)"] if network.layers[0].attention.null is not None else []
    return more + (["(mask)"] if network.visibility.sees_mask else [])


def weights_of_group(
    network: EFANetwork, group: Groups
) -> Float[np.ndarray, "layers heads center column"]:
    """Attention weights of the one group given, by its elements; see `Explanation`."""
    batch = group.pad(np.array([0]))
    present = batch.element[0].numpy() >= 0  # an empty group is padded to one element
    with torch.inference_mode():
        hidden = network.hidden(batch.to(next(network.parameters()).device))
    layers = torch.stack([layer[0] for layer in hidden.weights]).cpu().numpy()
    columns = np.append(present, np.ones(layers.shape[-1] - len(present), dtype=bool))
    weights: np.ndarray = layers[:, :, present][..., columns]
    return weights


def networks_of(model: TwoPartModel, *, required: bool = True) -> dict[str, EFANetwork]:
    """The networks with attention, by part. Raises ExfamError where there must be one and is none.

    `required`: whether there must be
    """
    parts = {"items": network_of(model.item_part), "values": network_of(model.value_part)}
    networks = {name: part for name, part in parts.items() if part is not None}
    if required and not networks:
        raise ExfamError(
            "`model` must have attention to be looked into, got one without. Fit with "
            "attention='softmax'."
        )
    return networks


def group_vectors(
    model: TwoPartModel, groups: Groups, schema: Schema
) -> Float[np.ndarray, "groups dim"]:
    """The item part's hidden state of one more, hidden element of each group.

    Without an item part, the mean of the value part's states over the group's elements.
    """
    set_to_predict([model])
    name, part = next(iter(networks_of(model).items()))
    if name == "items":
        extended = append_blank(groups, schema)
    else:
        extended = groups.compact().with_(role=None)
    hidden = _sums_of_groups(model, extended, part.states, dim=part.embedding.dim)
    lengths = extended.stop - extended.start if name == "values" else np.ones(len(groups))
    return hidden / np.maximum(lengths, 1)[:, None].astype(np.float32)


def pooled_vectors(
    model: TwoPartModel,
    part: LatentFactorItems | LatentFactorValues,
    groups: Groups,
    schema: Schema,
) -> Float[np.ndarray, "groups dim"]:
    """The context of one more, hidden element of each group, pooled by a latent factor part."""
    set_to_predict([model])
    per_item = len(part.families) if isinstance(part, LatentFactorValues) else 1
    dim = part.context.dim // per_item
    return _sums_of_groups(model, append_blank(groups, schema), part.pooled, dim=dim)


def _sums_of_groups(
    model: TwoPartModel, groups: Groups, vectors: Callable[[Batch], Tensor], *, dim: int
) -> Float[np.ndarray, "groups dim"]:
    """The sum over each group's targets of the `vectors` of a batch."""
    group = group_of_elements(groups)
    device = device_of(model)
    out = np.zeros((len(groups), dim), dtype=np.float32)
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            rows = group[batch.element[batch.target].numpy()]
            np.add.at(out, rows, vectors(batch.to(device)).cpu()[batch.target].numpy())
    return out


def group_attention(
    model: TwoPartModel,
    groups: Groups,
    *,
    length: int,
    part: str | None = None,
    term: str = "both",
) -> PositionAttention:
    """Attention of a fitted EFA model between the first `length` elements of groups.

    Weights are summed over all groups of at least that length, cut to it, then renormalized.
    Positions that come with the groups (times, say) act as in the model, but elements are aligned
    by their order.

    `part`: "items" or "values" of a model that has both, or None for the one it has
    `term`: "both", or "contextual" for attention without the encoding, which is taken out of all
        layers; what it makes alone is `positional`

    Raises ExfamError for a model without attention, for one whose weights are no shares, for a
    length that no group has, and for the contextual term of an encoding that leaves none.
    """
    check_whole("length", length)
    networks_of(model)
    network = cast(EFANetwork, network_of(model.part(part)))
    attention = network.layers[0].attention
    if not attention.kernel.normalizes:
        raise ExfamError(
            "`model` must have weights that are shares, got linear attention. Fit with "
            "attention='softmax'."
        )
    own = groups.stop - groups.start
    cut = groups[np.flatnonzero(own >= length)]
    if not len(cut):
        raise ExfamError(
            f"`length` must be at most that of the longest group, {int(own.max(initial=0))}, got "
            f"{length}. Take fewer positions."
        )
    cut = cut.with_(stop=cut.start + length, context_start=None, context_stop=None)
    seen = with_term(model, term)
    weights = _mean_weights(seen, cast(EFANetwork, network_of(seen.part(part))), cut)
    return PositionAttention(
        weights=renormalized(weights[..., :length]),
        positional=own_weights(
            network.encoding, length, head_dim=attention.head_dim, direction=network.direction
        ),
        elsewhere=weights[..., length:].sum(-1),
        n_averaged=len(cut),
        direction=network.direction,
    )


def _mean_weights(
    model: TwoPartModel, network: EFANetwork, groups: Groups
) -> Float64[Tensor, "layers heads length columns"]:
    """The mean over groups of the same length; after elements come null token and mask."""
    set_to_predict([model])
    device = device_of(model)
    total: Any = 0.0
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            layers = network.hidden(batch.to(device)).weights
            summed = [layer.sum(0, dtype=torch.float64) for layer in layers]
            total = total + torch.stack(summed).cpu()
    return total / len(groups)
