"""Latent factor models are special cases of attention: propositions 1, 2 and 3, by construction.

Section 4.1 and appendices E to G of "Exponential Family Attention", read with two corrections.
Appendix E keeps the hidden element among the keys and makes up for it by delta = I/(I-1) rho, which
holds for groups of one length I only: here the hidden element is no key and there is no null token,
so that uniform weights are 1/(I-1) in groups of any length. Appendix G prints W^V twice and a W^Q
that reads rho off the context, which gives 0: the second W^V is W^K, and W^Q must read alpha. Its
delta = alpha/(I-1) is for one length as well: here the kernel divides.

Nothing is fitted: "max-difference" is the largest difference, over random groups and weights, of
natural parameters and of log-probabilities in nats, in double precision.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import (
    Attention,
    Block,
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
from exfam.efa.networks.factor_network import (
    LatentFactorItems,
    LatentFactorSettings,
    LatentFactorValues,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.embeddings import Concatenated, Field, MaskedField, RawValue, TokenEmbedding
from exfam.encodings import NoEncoding
from exfam.encodings.base import Sight
from exfam.families import Family, Gaussian, Poisson
from exfam.fields.declarations import LatentFactorParameters
from exfam.fields.latent_factor import (
    FieldLatentFactorPart,
    NearestObserved,
    build_field_latent_factor,
)
from exfam.groups import Batch, Groups
from exfam.layers import Connection
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row

TASKS = ("proposition-1", "proposition-2", "proposition-3")
SEEDS = 5
DIM = 8
N_ITEMS = 30
N_GROUPS, FAST_GROUPS = 100, 10
LONGEST = 20
COLUMN = "value"
_SETTINGS = LatentFactorSettings(dim=DIM, intercept=False)
_TwoPart = partial(TwoPartModel, direction="bidirectional")
# A latent factor model and the attention that is to equal it.
_Pair = tuple[TwoPartModel, TwoPartModel]


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
        sight = Sight(self.neighbors(batch), (tokens.position, tokens.position))
        keys = block.keys(tokens.content, tokens.position)
        state, _ = attend(block, tokens.center, keys, sight)
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


class _Case(NamedTuple):
    """A proposition, how to build both of its sides, and the share of values that are missing."""

    task: str
    settings: dict[str, str | int]
    build: Callable[[Groups, int], _Pair]
    missing: float


def run(options: Options) -> list[Row]:
    """Build and compare, for the wanted propositions."""
    n_seeds, n_groups = options.n_seeds(SEEDS), FAST_GROUPS if options.fast else N_GROUPS
    return [
        Row(
            task=case.task,
            model="efa",
            settings={"dim": DIM, **case.settings},
            metric="max-difference",
            value=max(_difference(case, seed=seed, n_groups=n_groups) for seed in range(n_seeds)),
            n_seeds=n_seeds,
        )
        for case in CASES
        if options.wants(case.task)
    ]


def _difference(case: _Case, *, seed: int, n_groups: int) -> float:
    """Largest difference of the parameters and of the log-probabilities, over random groups."""
    groups = _groups(seed, n_groups=n_groups, missing=case.missing)
    batch = groups.pad(np.arange(len(groups)))
    with torch.no_grad():
        sides = (_figures(model, batch) for model in case.build(groups, seed))
        return max(float((one - two).abs().max()) for one, two in zip(*sides, strict=True))


def _figures(model: TwoPartModel, batch: Batch) -> list[torch.Tensor]:
    part: Any = model.item_part if model.value_part is None else model.value_part
    return [part.eta(batch)[batch.target], model.log_prob(batch).total()]


def _groups(seed: int, *, n_groups: int, missing: float) -> Groups:
    """Groups of 2 to LONGEST elements: items, values 1 to 3 and coordinates at random."""
    random = np.random.default_rng(seed)
    length = random.integers(2, LONGEST + 1, n_groups)
    stop = np.cumsum(length)
    n = int(stop[-1])
    item = np.concatenate([random.permutation(N_ITEMS)[:own] for own in length])
    return Groups(
        start=stop - length,
        stop=stop,
        item=item.astype(np.int32),
        values={COLUMN: random.integers(1, 4, n).astype(np.float64)},
        observed=random.random(n) >= missing,
        attributes={"coordinates": random.uniform([25.0, -120.0], [50.0, -70.0], (n, 2))},
        vocabulary={"item": np.arange(N_ITEMS)},
    )


def _items(groups: Groups, seed: int) -> _Pair:
    part = _drawn(partial(build_latent_factor_items, N_ITEMS, _SETTINGS), seed)
    return _TwoPart(item_part=part), _TwoPart(item_part=items_from_latent_factor(part))


def _values(groups: Groups, seed: int) -> _Pair:
    families = {COLUMN: Poisson(shift=1)}
    part = _drawn(partial(build_latent_factor_values, N_ITEMS, families, _SETTINGS), seed)
    return _pair(part, values_from_latent_factor(part), families[COLUMN])


def _field(k: int | None, groups: Groups, seed: int) -> _Pair:
    settings = LatentFactorParameters(dim=DIM, hidden_dim=DIM, k=k)
    build = partial(build_field_latent_factor, groups, settings, metric="haversine")
    part = _drawn(build, seed)
    return _pair(part, field_from_latent_factor(part, column=COLUMN), Gaussian())


def _pair(part: nn.Module, attention: nn.Module, family: Family) -> _Pair:
    value = partial(_TwoPart, families={COLUMN: family})
    return value(value_part=part), value(value_part=attention)


def _drawn(build: Callable[..., Any], seed: int) -> Any:
    """The part in double precision, all its weights drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    part = build(generator=generator).double()
    with torch.no_grad():
        for parameter in part.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn / DIM**0.5)
    return part


# Proposition 2 sums over all neighbors, and over as many as the paper found best; proposition 3
# divides by the number of values, attention by that of elements: none is missing.
CASES = [
    _Case("proposition-1", {}, _items, missing=0.0),
    _Case("proposition-2", {"k": "all"}, partial(_field, None), missing=0.1),
    _Case("proposition-2", {"k": 5}, partial(_field, 5), missing=0.1),
    _Case("proposition-3", {}, _values, missing=0.0),
]
