"""EFA networks built from a schema of data and choices by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import SCORE_KERNELS, Attention, Block, NullToken, Visibility, build_block
from exfam.catalog.sampled import ItemSampler
from exfam.checks import ExfamError
from exfam.conditionals import Windowed, choose_conditional
from exfam.efa.networks.based import TRAINED_SCALE, BasedItems, NoCorrection
from exfam.efa.networks.based_values import BasedValues, ColumnBase, ValueCorrection
from exfam.efa.networks.context import ContextMean, DeepContext, GroupOffset
from exfam.efa.networks.efa_network import (
    Dispersion,
    EFANetwork,
    ItemBias,
    ItemHead,
    ValueHead,
    split_initial,
)
from exfam.embeddings import (
    CategoryAttribute,
    Concatenated,
    Field,
    ItemEmbedding,
    MaskedField,
    NumberAttribute,
    NumberValue,
    RawValue,
    Reflected,
    Summed,
    TableValue,
    TokenEmbedding,
    reflection_signs,
)
from exfam.encodings import Encoding, EncodingSizes, build_encoding
from exfam.estimator.schema import AttributeSpec, Schema, ValueSpec
from exfam.families import PerItem
from exfam.layers import linear, mlp
from exfam.likelihoods.earlier_columns import empty_earlier
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel

JOINS: dict[str, type[Summed] | type[Concatenated]] = {
    "concatenate": Concatenated,
    "sum": Summed,
}
TIES = ("none", "reflection", "same")
VALUE_EMBEDDINGS = ("auto", "network", "raw", "table")


@dataclass(frozen=True)
class EFASettings:
    """Choices of a model; the estimator's parameters have their names."""

    direction: str = "bidirectional"
    items: bool = True
    values: bool = True
    support: str = "none"
    embed_dim: int = 32
    n_heads: int = 2
    head_dim: int = 16
    n_layers: int = 2
    feed_forward_dim: int = 0
    connection: str = "pre-norm"
    encoding: str = "relative"
    attention: str = "softmax"
    score_scale: float | None = None
    null_token: bool = True
    sees_mask: bool = False
    conditional: str = "auto"
    dropout: float = 0.0
    tie: str = "none"
    join: str = "sum"
    item_sees_values: bool = False
    value_embedding: str = "auto"
    context_hidden_dim: int = 0
    head_hidden_dim: int = 32
    group_offset: bool = False
    dispersion: str = "global"


def build_efa(
    schema: Schema,
    settings: EFASettings,
    *,
    generator: torch.Generator,
    item_bias: Float[Tensor, "items"] | None = None,
    sampler: ItemSampler | None = None,
    base: nn.Module | None = None,
    value_bases: list[ColumnBase] | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> TwoPartModel:
    """Exponential family attention for data of this schema.

    `item_bias` starts the items' biases (log-frequencies, say). `sampler` draws the items that
    training sums over. With a `base` of items attention corrects it, from 0, or not at all if
    `attention` is "none". `earlier`: the shape of what value columns say of later ones.
    """
    builder = _Builder(schema, settings, generator)
    item_part: nn.Module | None = None
    if settings.items:
        build = builder.item_part if base is None else partial(builder.based_items, base)
        item_part = build(item_bias)
    value_part: nn.Module | None = None
    families = schema.families if settings.values else None
    if settings.values and value_bases:
        value_part = builder.based_values(value_bases)
        families = {column.column: column.family for column in value_bases}
    elif settings.values:
        value_part = builder.value_part()
    return TwoPartModel(
        direction=settings.direction,
        item_part=item_part,
        value_part=value_part,
        families=families,
        exposure=schema.exposure if settings.values else None,
        support=SUPPORTS[settings.support]() if settings.items else None,
        sampler=sampler,
        earlier=empty_earlier(earlier, families or {}),
    )


@dataclass(frozen=True)
class _Builder:
    """The parts of a model, their weights drawn in this order."""

    schema: Schema
    settings: EFASettings
    generator: torch.Generator

    def item_part(self, bias: Float[Tensor, "items"] | None) -> EFANetwork:
        """p(item | context), the center's item, values and unknown attributes hidden."""
        schema, settings, generator = self.schema, self.settings, self.generator
        if schema.n_items is None:
            raise ExfamError("`item` must be given for an item part, got data without items.")
        items = ItemEmbedding(schema.n_items, settings.embed_dim, generator=generator)
        fields: list[Field | MaskedField] = [MaskedField(items, generator=generator)]
        if settings.item_sees_values:
            fields += map(self._value_field, schema.values)
        for spec in schema.attributes:
            field = self._attribute_field(spec)
            seen = spec.known or spec.of_group
            fields.append(field if seen else MaskedField(field, generator=generator))
        embedding = TokenEmbedding(fields, join=JOINS[settings.join]())
        centers = self._centers(items, embedding.dim)
        bias = torch.zeros(schema.n_items) if bias is None else bias
        head = ItemHead(centers, norm=self._last_norm(embedding.dim), bias=bias)
        return self._network(embedding, head)

    def based_items(self, base: nn.Module, bias: Float[Tensor, "items"] | None) -> BasedItems:
        """A base with a correction, at the start what the biases say where it has less of the base.

        Unless vectors are tied.
        """
        settings, n_items = self.settings, self.schema.n_items or 0
        if settings.attention == "none":
            return BasedItems(base, NoCorrection(n_items, settings.direction))
        network = self.item_part(None if bias is None else bias * (1 - TRAINED_SCALE))
        head: Any = network.head
        if network.visibility.causal:
            network.conditional = Windowed(network.conditional)
        else:
            vectors = ItemEmbedding(
                n_items, network.embedding.dim, generator=self.generator, scale=0.05
            )
            head.beside = self._context(vectors)
        # Center vectors that are context vectors cannot start at 0, and a factor of 0 between them
        # costs 0.02 nats at the end of a fit: it leaves 0 with any sign.
        if settings.tie == "none":
            nn.init.zeros_(head.centers.table.weight)
        return BasedItems(base, network)

    def _context(self, items: ItemEmbedding) -> ContextMean | DeepContext:
        """What the whole context of a set adds to what attention makes of it."""
        settings = self.settings
        if not settings.context_hidden_dim:
            return ContextMean(items, direction=settings.direction)
        return DeepContext(
            items,
            direction=settings.direction,
            width=settings.context_hidden_dim,
            hidden=settings.dropout,
            generator=self.generator,
        )

    def based_values(self, columns: list[ColumnBase]) -> BasedValues:
        """Bases with a correction, of attention and what the bases know."""
        settings = self.settings
        if settings.attention == "none":
            return BasedValues(columns, None)
        embedding = self._value_embedding()
        correction = ValueCorrection(
            self._network(embedding, nn.Identity()),
            dim=embedding.dim,
            n_inputs=sum(column.n_inputs for column in columns),
            n_outputs=sum(column.head.n_changes for column in columns),
            hidden=settings.head_hidden_dim or 32,
            dropout=settings.dropout,
            generator=self.generator,
        )
        return BasedValues(columns, correction)

    def value_part(self) -> EFANetwork:
        """p(value | item, context), the center's values hidden, all else shown."""
        if not self.schema.values:
            raise ExfamError("`value` must be given for a value part, got data without values.")
        embedding = self._value_embedding()
        return self._network(embedding, self._value_head(embedding.dim))

    def _value_embedding(self) -> TokenEmbedding:
        schema, settings = self.schema, self.settings
        fields: list[Field | MaskedField] = []
        if schema.n_items is not None:
            dim = settings.embed_dim
            fields.append(ItemEmbedding(schema.n_items, dim, generator=self.generator))
        fields += [self._attribute_field(spec) for spec in schema.attributes]
        fields += map(self._value_field, schema.values)
        return TokenEmbedding(fields, join=JOINS[settings.join]())

    def _network(self, embedding: TokenEmbedding, head: nn.Module) -> EFANetwork:
        """The default wiring: one encoding shared by all layers, the same kind of block in each."""
        settings = self.settings
        visibility = Visibility(settings.direction, settings.sees_mask)
        sizes = EncodingSizes(
            n_heads=settings.n_heads,
            head_dim=settings.head_dim,
            embed_dim=embedding.dim,
            n_positions=self.schema.n_positions,
            position_scale=self.schema.position_scale,
            generator=self.generator,
        )
        encoding = build_encoding(settings.encoding, sizes)
        blocks = [self._block(embedding.dim, encoding) for _ in range(settings.n_layers)]
        conditional = choose_conditional(settings.conditional, blocks=blocks, visibility=visibility)
        return EFANetwork(
            embedding,
            encoding,
            blocks,
            head,
            conditional=conditional,
            visibility=visibility,
            dropout=settings.dropout,
        )

    def _block(self, dim: int, encoding: Encoding) -> Block:
        settings, generator = self.settings, self.generator
        heads = {"n_heads": settings.n_heads, "head_dim": settings.head_dim}
        attention = Attention(
            dim,
            **heads,
            generator=generator,
            scale=settings.score_scale,
            kernel=SCORE_KERNELS[settings.attention](),
            encoding=encoding,
            null=NullToken(**heads, generator=generator) if settings.null_token else None,
        )
        return build_block(
            attention,
            dim,
            connection=settings.connection,
            feed_forward_dim=settings.feed_forward_dim,
            generator=generator,
            dropout=settings.dropout,
        )

    def _centers(self, items: ItemEmbedding, dim: int) -> ItemEmbedding | Reflected:
        if self.settings.tie == "none":
            return ItemEmbedding(items.n_items, dim, generator=self.generator)
        if dim != items.dim:
            raise ExfamError(
                "`tie` must be 'none' where tokens hold more than items side by side, got "
                f"{self.settings.tie!r} with tokens of length {dim}. Use join='sum'."
            )
        if self.settings.tie == "same":
            return items
        return Reflected(items, reflection_signs(dim))

    def _last_norm(self, dim: int) -> nn.Module:
        """Pre-norm blocks leave their stream unnormalized; the others need nothing more."""
        return nn.LayerNorm(dim) if self.settings.connection == "pre-norm" else nn.Identity()

    def _value_head(self, dim: int) -> ValueHead:
        schema, generator = self.schema, self.generator
        initial = {value.column: torch.tensor(value.initial_eta) for value in schema.values}
        location, spread = split_initial(schema.families, initial)
        of_item = schema.n_items if self.settings.dispersion == "item" else None
        dispersion = Dispersion(schema.families, spread, n_items=of_item)
        hidden, n_location = self.settings.head_hidden_dim, dispersion.n_location
        network: nn.Module
        if hidden:
            network = mlp([dim, hidden, n_location], generator=generator)
        else:
            network = linear(dim, n_location, generator=generator)
        return ValueHead(
            network,
            norm=self._last_norm(dim),
            dispersion=dispersion,
            intercept=ItemBias(location, n_items=schema.n_items),
            offset=self._group_offset() if self.settings.group_offset else None,
        )

    def _group_offset(self) -> GroupOffset:
        schema = self.schema
        return GroupOffset(
            schema.families,
            slope=torch.block_diag(*(_location_slopes(value) for value in schema.values)),
            center=torch.tensor([value.center for value in schema.values]),
            direction=self.settings.direction,
            n_items=schema.n_items,
        )

    def _value_field(self, spec: ValueSpec) -> MaskedField:
        column, family, kind = spec.column, spec.family, self.settings.value_embedding
        if kind == "table" and not family.n_categories:
            raise ExfamError(
                f"`value_embedding` must not be 'table' for family {family.name!r}, whose values "
                "are not a few categories. Use 'network'."
            )
        sizes: dict[str, Any] = {"dim": self.settings.embed_dim, "generator": self.generator}
        field: Field = RawValue(column, family)
        if family.n_categories and kind in ("auto", "table"):
            field = TableValue(column, family, **sizes)
        elif kind != "raw":
            field = NumberValue(column, family, center=spec.center, spread=spec.spread, **sizes)
        return MaskedField(field, generator=self.generator)

    def _attribute_field(self, spec: AttributeSpec) -> Field:
        sizes: dict[str, Any] = {
            "dim": self.settings.embed_dim,
            "generator": self.generator,
            "of_group": spec.of_group,
        }
        if spec.n is not None:
            return CategoryAttribute(spec.name, n=spec.n, **sizes)
        center, spread = torch.tensor(spec.center), torch.tensor(spec.spread)
        return NumberAttribute(spec.name, center=center, spread=spread, **sizes)


def _location_slopes(spec: ValueSpec) -> Float[Tensor, "1 outputs"]:
    """How location outputs change with the mean, standardized, at the outputs that fit all values.

    Categorical outputs move along the categories' values, as an exponential tilt does. 0 where
    the mean depends on the item; of families without a mean, how they change with the median.
    """
    family = spec.family.of_units
    n_location = family.n_params - family.n_dispersion
    eta = torch.tensor(spec.initial_eta).requires_grad_()
    if isinstance(family, PerItem):
        return torch.zeros(1, n_location)
    if not family.has_mean:
        median = family.quantile(0.5, eta.detach()).requires_grad_()
        location = family.from_mean(median)[:n_location]
        return torch.autograd.grad(location.sum(), median)[0].expand(1, n_location)
    mean = family.mean(eta)
    (gradient,) = torch.autograd.grad(mean, eta)
    gradient = gradient[:n_location]
    direction = gradient
    if n_location == family.n_categories:
        direction = torch.tensor(family.categories) - mean.detach()
    return (direction / (gradient * direction).sum())[None]
