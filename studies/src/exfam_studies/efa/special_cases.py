"""Latent factor models as attention: EFA weights that equal a given one exactly.

Propositions 1 and 3 of "Exponential Family Attention" (section 4.1, appendices E and G), read with
two corrections. Appendix E keeps the hidden element among the keys and makes up for it by
delta = I/(I-1) rho, which holds for groups of one length I only: here the hidden element is no key
and there is no null token, so that uniform weights are 1/(I-1) in groups of any length. Appendix G
prints W^V twice and a W^Q that reads rho off the context, which gives 0: the second W^V is W^K, and
W^Q must read alpha. Its delta = alpha/(I-1) is for one length as well: here the kernel divides.
"""

import copy

import torch
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
from exfam.efa.networks.efa_network import EFANetwork, ItemHead, ValueHead
from exfam.efa.networks.factor_network import LatentFactorItems, LatentFactorValues
from exfam.embeddings import Concatenated, Field, MaskedField, RawValue, TokenEmbedding
from exfam.encodings import NoEncoding


def items_from_latent_factor(part: LatentFactorItems, *, conditional: str = "auto") -> EFANetwork:
    """One layer of attention with the same eta as a latent factor item part.

    beta = alpha, delta = rho, W^V = 1 and W^Q = W^K = 0, so that all elements of the context weigh
    the same; for a sum, linear attention whose scores are all 1. Raises ExfamError for a causal
    part with "paper" pooling, which sees the group's final length.
    Source: proposition 1 and appendix E.
    """
    _check_pooling(part.pooling, part.direction)
    context, center = copy.deepcopy((part.context, part.center))  # at once, to keep them tied
    embedding = TokenEmbedding([hidden_by_zeros(context)])
    summed = part.pooling == "sum"
    attention = zeroed_attention(
        context.dim,
        head_dim=context.dim,
        kernel=Linear() if summed else Softmax(),
        like=context.table.weight,
    )
    with torch.no_grad():
        nn.init.eye_(attention.key_value.weight[context.dim :])
        nn.init.eye_(attention.output.weight)
        if summed:
            attention.query.bias[0] = 1.0
            attention.key_value.bias[0] = 1.0
        if part.mask_vector is not None:
            attention.output.bias.copy_(part.mask_vector)
    head = ItemHead(center, norm=nn.Identity(), bias=part.intercept)
    return _network(embedding, attention, head, part=part, conditional=conditional)


def values_from_latent_factor(part: LatentFactorValues, *, conditional: str = "auto") -> EFANetwork:
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
    values = [hidden_by_zeros(RawValue(*column)) for column in part.families.items()]
    embedding = TokenEmbedding([rho, alpha, *values], join=Concatenated())
    attention = zeroed_attention(
        embedding.dim,
        head_dim=head_dim,
        n_heads=n_outputs * len(columns),
        kernel=Linear() if part.pooling == "sum" else Mean(),
        like=alpha.table.weight,
    )
    _pool_values(attention, n_outputs=n_outputs, n_columns=len(columns))
    read = nn.utils.skip_init(nn.Linear, embedding.dim, n_outputs, bias=False)
    nn.init.eye_(read.weight)
    dispersion, intercept = copy.deepcopy((part.dispersion, part.intercept))
    head = ValueHead(read, norm=nn.Identity(), dispersion=dispersion, intercept=intercept)
    return _network(embedding, attention, head, part=part, conditional=conditional)


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


def hidden_by_zeros(field: Field) -> MaskedField:
    """The field, hidden at the center behind a vector of zeros."""
    hidden = MaskedField(field, generator=torch.Generator())
    nn.init.zeros_(hidden.mask)
    return hidden


def zeroed_attention(
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
    embedding: TokenEmbedding,
    attention: Attention,
    head: nn.Module,
    *,
    part: LatentFactorItems | LatentFactorValues,
    conditional: str,
) -> EFANetwork:
    """The network of one layer, in the precision of the latent factor part."""
    blocks = [Block(attention, connection=Connection("none", embedding.dim))]
    visibility = Visibility(part.direction)
    network = EFANetwork(
        embedding,
        NoEncoding(),
        blocks,
        head,
        conditional=choose_conditional(conditional, blocks=blocks, visibility=visibility),
        visibility=visibility,
    )
    like: Tensor = part.context.table.weight
    return network.to(device=like.device, dtype=like.dtype)
