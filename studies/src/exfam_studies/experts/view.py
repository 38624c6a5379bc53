"""Fitted models as mixtures of experts, exactly; of EFA, each element of the context is one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.conditionals import Tokens
from exfam.efa.networks.efa_network import EFANetwork, ItemHead, ValueHead
from exfam.groups import Batch
from exfam.layers import Dropout
from exfam.likelihoods.two_part import TwoPartModel
from exfam.tables.experts.table_attention import TableAttention, attention_of_table
from exfam_studies.experts.context_words import ContextWords


@dataclass(frozen=True, eq=False)
class ElementExperts:
    """eta of every center as a constant plus weights times experts, summed over heads and columns.

    Columns are the elements, then the null token and the center's MASK token where the network has
    them. `constant` holds what the context does not move: the residual of the center itself,
    biases, intercepts, dispersions. Weights sum to 1 in each head (0 for a center that has nothing
    to attend to); then 1/H of the constant may be put into each expert, as theorem 2 does.
    """

    weights: Float[Tensor, "batch heads length columns"]
    contributions: Float[Tensor, "batch heads length columns params"]
    constant: Float[Tensor, "batch length params"]

    @property
    def parts(self) -> Float[Tensor, "batch length columns params"]:
        """What each column adds to eta of each center."""
        return (self.weights[..., None] * self.contributions).sum(1)

    @property
    def eta(self) -> Float[Tensor, "batch length params"]:
        """The network's outputs."""
        return self.parts.sum(2) + self.constant


@dataclass(frozen=True, eq=False)
class ElementAttention:
    """An EFA network that is one linear attention layer between tokens and outputs.

    Raises ExfamError for a network whose outputs are not such a sum, naming each part that makes
    the expert view inexact and what to fit with instead.
    """

    network: EFANetwork

    def __post_init__(self) -> None:
        reasons = dict(_inexact(self.network))
        if reasons:
            raise ExfamError(
                "`model` must be one linear attention layer for exact experts, got "
                f"{'; '.join(reasons)}. Fit with {', '.join(dict.fromkeys(reasons.values()))}."
            )

    @torch.no_grad()
    def experts(self, batch: Batch, *, params: Sequence[int] | None = None) -> ElementExperts:
        """The experts of every center of a batch, towards all outputs or those in `params`.

        Raises ExfamError for outputs that the network does not have, or for a network with dropout
        that is set to train.
        """
        network, (block,) = self.network, self.network.layers
        drops = any(isinstance(part, Dropout) and part.p > 0 for part in network.modules())
        if network.training and drops:
            raise ExfamError(
                "`model` must be set to predict, as dropout makes its outputs random, got one set "
                "to train. Call its `eval()` first."
            )
        to_eta = _outputs(network.head)
        chosen = list(range(len(to_eta)) if params is None else params)
        for param in chosen:
            if not 0 <= param < len(to_eta):
                raise ExfamError(f"`params` must be in 0 .. {len(to_eta) - 1}, got {param}.")
        tokens, output = network.tokens(batch), block.attention.output
        start = block.connection.after(tokens.center, output.bias.expand_as(tokens.center))
        return ElementExperts(
            weights=network.hidden(batch).weights[0],
            contributions=_contributions(network, tokens, to_eta[chosen]),
            constant=network.head(start, batch)[..., chosen],
        )


def attention_as_experts(
    model: object, *, member: int = 0, part: str | None = None
) -> TableAttention | ElementAttention | ContextWords:
    """A fitted model as a mixture of experts, exactly: theorem 2 with the model's own weights.

    `model`: a table model, an EFA model or one of its networks, a fitted estimator of either, or a
        model of words; `member`: which of an ensemble
    `part`: "items" or "values" of an EFA model that has both, or None for the one it has

    Raises ExfamError for a model that is no such mixture, naming what makes it inexact and what to
    fit instead.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """
    network: Any = getattr(model, "model_", model)
    members = getattr(network, "members_", None)
    if members is not None:
        if not 0 <= member < len(members):
            raise ExfamError(f"`member` must be in 0 .. {len(members) - 1}, got {member}.")
        network = members[member]
    if isinstance(network, TwoPartModel):
        network = network.part(part)
    if isinstance(network, ContextWords):
        return network
    if isinstance(network, EFANetwork):
        return ElementAttention(network)
    return attention_of_table(network, member=member)


def _contributions(
    network: EFANetwork, tokens: Tokens, to_eta: Float[Tensor, "params embed"]
) -> Float[Tensor, "batch heads length columns params"]:
    (block,) = network.layers
    attention = block.attention
    by_head = attention.output.weight.unflatten(1, (attention.n_heads, attention.head_dim))
    through = torch.einsum("pe,ehd->hpd", to_eta, by_head)
    value = block.keys(tokens.content, tokens.position)[1]
    if attention.null is not None:
        null = attention.null.value.expand(len(value), -1, -1, -1)
        value = torch.cat([value, null], dim=2)
    of_columns = torch.einsum("bhkd,hpd->bhkp", value, through)[:, :, None]
    contributions = of_columns.expand(-1, -1, tokens.content.shape[1], -1, -1)
    if not network.visibility.sees_mask:
        return contributions
    mask = block.keys(tokens.center, tokens.position)[1]
    of_mask = torch.einsum("bhid,hpd->bhip", mask, through)[:, :, :, None]
    return torch.cat([contributions, of_mask], dim=3)


def _inexact(network: EFANetwork) -> Iterator[tuple[str, str]]:
    block, head = network.layers[0], network.head
    if len(network.layers) > 1:
        yield f"{len(network.layers)} layers", "n_layers=1"
    if not block.connection.linear:
        yield "layer norm around attention", "connection='residual' or 'none'"
    if block.feed_forward is not None:
        yield "a feed-forward layer with GELU", "feed_forward_dim=0"
    if not block.attention.kernel.normalizes:
        yield "attention weights that do not sum to 1", "attention='softmax'"
    if not isinstance(head, (ItemHead, ValueHead)):
        yield f"a head of type {type(head).__name__}", "the head of items or values"
        return
    if not isinstance(head.norm, nn.Identity):
        yield "layer norm before the head", "connection='residual' or 'none'"
    if isinstance(head, ValueHead) and not isinstance(head.network, nn.Linear):
        yield "a head with a hidden layer", "head_hidden_dim=0"
    if isinstance(head, ValueHead) and head.offset is not None:
        yield "a group's level beside attention", "group_offset=False"


def _outputs(head: nn.Module) -> Float[Tensor, "params embed"]:
    """The head's linear map; rows of zeros for dispersions, which no context moves."""
    if isinstance(head, ItemHead):
        return head.centers.vectors()
    values = cast(ValueHead, head)
    weight = cast(nn.Linear, values.network).weight
    rows = []
    split = weight.split(values.dispersion.n_locations)
    for location, n_dispersion in zip(split, values.dispersion.n_dispersion, strict=True):
        rows += [location, weight.new_zeros(n_dispersion, weight.shape[1])]
    return torch.cat(rows)
