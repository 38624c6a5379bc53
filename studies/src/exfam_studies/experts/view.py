"""Networks of EFA as mixtures of experts, exactly: each element of the context is one."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.conditionals import Tokens
from exfam.efa.networks.efa_network import EFANetwork, ItemHead, ValueHead
from exfam.groups import Batch


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


@torch.no_grad()
def element_experts(network: EFANetwork, batch: Batch) -> ElementExperts:
    """The experts of every center of a batch, exactly: theorem 2 with the network's own weights.

    `network`: one linear attention layer between tokens and outputs, such as `item_part` or
        `value_part` of a member of a fitted EFA

    Raises ExfamError for a network whose outputs are no such sum, naming each part that makes the
    view inexact and what to fit with instead, and for one that is set to train, as dropout makes
    its outputs random.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """
    reasons = dict(_inexact(network))
    if reasons:
        raise ExfamError(
            "`network` must be one linear attention layer for exact experts, got "
            f"{'; '.join(reasons)}. Fit with {', '.join(dict.fromkeys(reasons.values()))}."
        )
    if network.training:
        raise ExfamError(
            "`network` must be set to predict, got one set to train. Call its `eval()` first."
        )
    (block,) = network.layers
    tokens, output = network.tokens(batch), block.attention.output
    start = block.connection.after(tokens.center, output.bias.expand_as(tokens.center))
    by_head = output.weight.unflatten(1, (block.attention.n_heads, -1))
    through = torch.einsum("pe,ehd->hpd", _outputs(network.head), by_head)
    return ElementExperts(
        weights=network.hidden(batch).weights[0],
        contributions=torch.einsum("bhikd,hpd->bhikp", _values(network, tokens), through),
        constant=network.head(start, batch),
    )


def _values(
    network: EFANetwork, tokens: Tokens
) -> Float[Tensor, "batch heads length columns head_dim"]:
    """What each center reads of each column."""
    (block,) = network.layers
    values = block.keys(tokens.content, tokens.position)[1]
    if block.attention.null is not None:
        null = block.attention.null.value.expand(len(values), -1, -1, -1)
        values = torch.cat([values, null], dim=2)
    values = values[:, :, None].expand(-1, -1, tokens.center.shape[1], -1, -1)
    if not network.visibility.sees_mask:
        return values
    of_mask = block.keys(tokens.center, tokens.position)[1]
    return torch.cat([values, of_mask[:, :, :, None]], dim=3)


def _inexact(network: EFANetwork) -> Iterator[tuple[str, str]]:
    block, head = network.layers[0], network.head
    if len(network.layers) > 1:
        yield f"{len(network.layers)} layers", "n_layers=1"
    if not block.connection.linear or not isinstance(getattr(head, "norm", None), nn.Identity):
        yield "layer norm", "connection='residual' or 'none'"
    if block.feed_forward is not None:
        yield "a feed-forward layer with GELU", "feed_forward_dim=0"
    if not block.attention.kernel.normalizes:
        yield "attention weights that do not sum to 1", "attention='softmax'"
    if isinstance(head, ValueHead) and not isinstance(head.network, nn.Linear):
        yield "a head with a hidden layer", "head_hidden_dim=0"
    if isinstance(head, ValueHead) and head.offset is not None:
        yield "a group's level beside attention", "group_offset=False"
    if not isinstance(head, ItemHead | ValueHead):
        yield f"a head of type {type(head).__name__}", "the head of items or values"


def _outputs(head: nn.Module) -> Float[Tensor, "params embed"]:
    """The head's linear map; rows of zeros for dispersions, which no context moves."""
    if isinstance(head, ItemHead):
        return head.centers.vectors()
    assert isinstance(head, ValueHead) and isinstance(head.network, nn.Linear)
    split = head.network.weight.split(head.dispersion.n_locations)
    pairs = zip(split, head.dispersion.n_dispersion, strict=True)
    return torch.cat([nn.functional.pad(location, (0, 0, 0, n)) for location, n in pairs])
