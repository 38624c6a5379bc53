"""Latent factor models as attention: EFA weights that equal a given one exactly.

Propositions 1 to 3 of "Exponential Family Attention" (section 4.1, appendices E to G), read with
two corrections. Appendix E keeps the hidden element among the keys and makes up for it by
delta = I/(I-1) rho, which holds for groups of one length I only: here the hidden element is no key
and there is no null token, so that uniform weights are 1/(I-1) in groups of any length. Appendix G
prints W^V twice and a W^Q that reads rho off the context, which gives 0: the second W^V is W^K, and
W^Q must read alpha. Its delta = alpha/(I-1) is for one length as well: here the kernel divides.
"""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import (
    Attention,
    Block,
    Connection,
    Linear,
    Mean,
    ScoreKernel,
    Softmax,
    Visibility,
)
from exfam.checks import ExfamError
from exfam.conditionals import choose_conditional
from exfam.conditionals.base import attend
from exfam.efa.networks.efa_network import Dispersion, EFANetwork, ItemBias, ItemHead, ValueHead
from exfam.efa.networks.factor_network import LatentFactorItems, LatentFactorValues
from exfam.embeddings import Concatenated, Field, MaskedField, RawValue, TokenEmbedding
from exfam.encodings import NoEncoding
from exfam.families import Gaussian
from exfam.fields.networks.factor_network import FieldLatentFactorPart, NearestObserved
from exfam.groups import Batch


def items_from_latent_factor(part: LatentFactorItems) -> EFANetwork:
    """One layer of attention with the same eta as a latent factor item part.

    beta = alpha, delta = rho, W^V = 1 and W^Q = W^K = 0, so that all elements of the context weigh
    the same; for a sum, linear attention whose scores are all 1. Raises ExfamError for a causal
    part with "paper" pooling, which sees the group's final length.
    Source: proposition 1 and appendix E.
    """
    _check_pooling(part.pooling, part.direction)
    context, center = copy.deepcopy((part.context, part.center))  # at once, to keep them tied
    embedding = TokenEmbedding([_hidden_by_zeros(context)])
    summed = part.pooling == "sum"
    size, kernel = context.dim, Linear() if summed else Softmax()
    attention = _zeroed_attention(size, head_dim=size, kernel=kernel, like=context.table.weight)
    with torch.no_grad():
        nn.init.eye_(attention.key_value.weight[size:])
        nn.init.eye_(attention.output.weight)
        if summed:
            attention.query.bias[0] = 1.0
            attention.key_value.bias[0] = 1.0
        if part.mask_vector is not None:
            attention.output.bias.copy_(part.mask_vector)
    head = ItemHead(center, norm=nn.Identity(), bias=part.intercept)
    return _network(embedding, attention, head, direction=part.direction)


def values_from_latent_factor(part: LatentFactorValues) -> EFANetwork:
    """One layer of linear attention with the same eta as a latent factor value part.

    Tokens are [rho; alpha; y], y being 0 where it is hidden. A head scores rho_i . alpha_j (the
    appendix's W^Q and W^K, corrected, are this bilinear form), pools y_j, and there is one for each
    pair of an output and a value column. Equal where all values of a group are observed: pooling
    by "mean" counts observed values, attention counts elements. Raises ExfamError for a causal part
    with "paper" pooling, which sees the group's final length.
    Source: proposition 3 and appendix G.
    """
    _check_pooling(part.pooling, part.direction)
    n_outputs, columns = part.dispersion.n_location, part.families
    head_dim = part.context.dim // len(columns)
    rho, alpha = copy.deepcopy((part.center, part.context))
    values = [_hidden_by_zeros(RawValue(*column)) for column in part.families.items()]
    embedding = TokenEmbedding([rho, alpha, *values], join=Concatenated())
    attention = _zeroed_attention(
        embedding.dim,
        head_dim=head_dim,
        n_heads=n_outputs * len(columns),
        kernel=Linear() if part.pooling == "sum" else Mean(),
        like=alpha.table.weight,
    )
    _pool_values(attention, n_outputs=n_outputs, n_columns=len(columns))
    dispersion, intercept = copy.deepcopy((part.dispersion, part.intercept))
    head = _first_entries(embedding, n_outputs, dispersion=dispersion, intercept=intercept)
    return _network(embedding, attention, head, direction=part.direction)


class NeighborhoodAttention(nn.Module):
    """An EFA network of one layer whose centers attend to their neighbors' tokens alone."""

    direction = "bidirectional"

    def __init__(self, network: EFANetwork, *, neighbors: NearestObserved) -> None:
        super().__init__()
        self.network, self.neighbors = network, neighbors

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """The head's outputs for all elements, each given its neighbors."""
        tokens, (block,) = self.network.tokens(batch), self.network.layers
        state, _ = attend(block, tokens.center, tokens.content, tokens, self.neighbors(batch))
        return self.network.head(state, batch)


def field_from_latent_factor(part: FieldLatentFactorPart, *, column: str) -> NeighborhoodAttention:
    """One layer of linear attention with the same eta as a latent factor model of a field.

    Tokens are [h(tau); y], y being 0 where it is hidden or missing. W^Q and W^K read h, so that
    scores are h(tau_i) . h(tau_j), and W^V reads y. `column` names the value. Raises ExfamError for
    a model of anomalies, whose values are not those of its tokens.
    Source: proposition 2 and appendix F.
    """
    if part.climate is not None:
        raise ExfamError("`part` must be a model of the values as they are, got one of anomalies.")
    factors = copy.deepcopy(part.factors)
    value = _hidden_by_zeros(RawValue(column, Gaussian()))
    embedding = TokenEmbedding([factors, value], join=Concatenated())
    size, like = factors.dim, part.log_scale
    attention = _zeroed_attention(embedding.dim, head_dim=size, kernel=Linear(), like=like)
    with torch.no_grad():
        attention.query.weight[:, :size] = torch.eye(size)
        attention.key_value.weight[:size, :size] = torch.eye(size)
        attention.key_value.weight[size, size] = 1.0
        attention.output.weight[0, 0] = 1.0
    intercept = None if part.intercept is None else ItemBias(part.intercept[None])
    dispersion = Dispersion({column: Gaussian()}, like[None])
    head = _first_entries(embedding, 1, dispersion=dispersion, intercept=intercept)
    network = _network(embedding, attention, head, direction=part.direction)
    return NeighborhoodAttention(network, neighbors=part.neighbors)


def _first_entries(embedding: TokenEmbedding, n: int, **more: Any) -> ValueHead:
    """A head that reads the first `n` coordinates of the stream as they are."""
    read = nn.utils.skip_init(nn.Linear, embedding.dim, n, bias=False)
    nn.init.eye_(read.weight)
    return ValueHead(read, norm=nn.Identity(), **more)


def _pool_values(attention: Attention, *, n_outputs: int, n_columns: int) -> None:
    """Head (l, c): scores rho_l . alpha_c, values y_c, pooled into coordinate l of the stream."""
    size = attention.head_dim
    one = torch.eye(size)
    alpha_at, value_at = n_outputs * size, (n_outputs + n_columns) * size
    key, value = attention.key_value.weight.chunk(2)
    with torch.no_grad():
        for output in range(n_outputs):
            for column in range(n_columns):
                row = (output * n_columns + column) * size
                head = slice(row, row + size)
                attention.query.weight[head, output * size : (output + 1) * size] = one
                alpha = alpha_at + column * size
                key[head, alpha : alpha + size] = one
                value[row, value_at + column] = 1.0
                attention.output.weight[output, row] = 1.0


def _check_pooling(pooling: str, direction: str) -> None:
    if pooling == "paper" and direction == "causal":
        raise ExfamError(
            "`pooling` must be 'mean' or 'sum' for a causal part, got 'paper', which divides by a "
            "length that is not known yet."
        )


def _hidden_by_zeros(field: Field) -> MaskedField:
    """The field, hidden at the center behind a vector of zeros."""
    hidden = MaskedField(field, generator=torch.Generator())
    nn.init.zeros_(hidden.mask)
    return hidden


def _zeroed_attention(
    embed_dim: int, *, head_dim: int, kernel: ScoreKernel, like: Tensor, n_heads: int = 1
) -> Attention:
    """Attention with all weights 0, to be filled in, in the precision of `like`."""
    attention = Attention(
        embed_dim,
        n_heads=n_heads,
        head_dim=head_dim,
        generator=torch.Generator(),
        scale=1.0,
        kernel=kernel,
    )
    for parameter in attention.parameters():
        nn.init.zeros_(parameter)
    return attention.to(device=like.device, dtype=like.dtype)


def _network(
    embedding: TokenEmbedding, attention: Attention, head: nn.Module, *, direction: str
) -> EFANetwork:
    """The network of one layer, in the precision of its attention."""
    blocks = [Block(attention, connection=Connection("none", embedding.dim))]
    visibility, like = Visibility(direction), attention.output.weight
    conditional = choose_conditional("auto", blocks=blocks, visibility=visibility)
    parts = (embedding, NoEncoding(), blocks, head)
    network = EFANetwork(*parts, conditional=conditional, visibility=visibility)
    return network.to(device=like.device, dtype=like.dtype)
