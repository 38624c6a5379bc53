"""From a schema of the data and settings to a model of two attention parts."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.catalog import ItemSampler
from exfam.checks import ExfamError, check_choice
from exfam.efa.networks.dispersion import Dispersion, ItemBias, split_initial
from exfam.efa.networks.efa_network import EFANetwork, EFASettings, build_network
from exfam.efa.networks.heads import ItemHead, ValueHead
from exfam.efa.networks.offsets import GroupOffset
from exfam.embeddings import (
    CategoryAttribute,
    Concatenated,
    Field,
    Hidden,
    ItemEmbedding,
    NumberAttribute,
    NumberValue,
    RawValue,
    Reflected,
    Summed,
    TableValue,
    TokenEmbedding,
    reflection_signs,
)
from exfam.estimator.schema import AttributeSpec, Schema, ValueSpec
from exfam.families import PerItem
from exfam.layers import linear, mlp
from exfam.likelihoods.support import SUPPORTS
from exfam.likelihoods.two_part import TwoPartModel

__all__ = ["ModelSettings", "build_efa", "build_item_network", "build_value_network"]

JOINS: dict[str, type[Summed] | type[Concatenated]] = {
    "concatenate": Concatenated,
    "sum": Summed,
}
TIES = ("none", "reflection")
VALUE_EMBEDDINGS = ("auto", "network", "raw", "table")


@dataclass(frozen=True)
class ModelSettings:
    """Choices of a whole model: which parts, how values enter, what is tied."""

    network: EFASettings = EFASettings()
    items: bool = True
    values: bool = True
    support: str = "none"
    tie: str = "none"
    join: str = "sum"
    item_sees_values: bool = False
    value_embedding: str = "auto"
    head_hidden_dim: int = 32
    group_offset: bool = False
    dispersion: str = "global"

    def __post_init__(self) -> None:
        check_choice("support", self.support, SUPPORTS)
        check_choice("tie", self.tie, TIES)
        check_choice("join", self.join, JOINS)
        check_choice("value_embedding", self.value_embedding, VALUE_EMBEDDINGS)
        check_choice("dispersion", self.dispersion, ["global", "item"])


def build_efa(
    schema: Schema,
    settings: ModelSettings,
    *,
    generator: torch.Generator,
    item_bias: Float[Tensor, "items"] | None = None,
    sampler: ItemSampler | None = None,
) -> TwoPartModel:
    """Exponential family attention for data of this schema.

    `item_bias` starts the items' biases (log-frequencies, say); zeros unless given. `sampler` draws
    the items that training sums over; all unless given.
    """
    item_part = value_part = None
    if settings.items:
        item_part = build_item_network(schema, settings, generator=generator, item_bias=item_bias)
    if settings.values:
        value_part = build_value_network(schema, settings, generator=generator)
    return TwoPartModel(
        direction=settings.network.direction,
        item_part=item_part,
        value_part=value_part,
        families=schema.families if settings.values else None,
        support=SUPPORTS[settings.support]() if settings.items else None,
        sampler=sampler,
    )


def build_item_network(
    schema: Schema,
    settings: ModelSettings,
    *,
    generator: torch.Generator,
    item_bias: Float[Tensor, "items"] | None = None,
) -> EFANetwork:
    """The item part: p(item | context), the center's item, values and unknown attributes hidden."""
    if schema.n_items is None:
        raise ExfamError("`item` must be given for an item part, got data without items.")
    dim = settings.network.embed_dim
    items = ItemEmbedding(schema.n_items, dim, generator=generator)
    fields: list[Field | Hidden] = [Hidden(items, generator=generator)]
    if settings.item_sees_values:
        fields += _value_fields(schema, settings, generator)
    for spec in schema.attributes:
        field = _attribute_field(spec, dim, generator)
        seen = spec.known or spec.of_group
        fields.append(field if seen else Hidden(field, generator=generator))
    embedding = TokenEmbedding(fields, join=JOINS[settings.join]())
    centers: ItemEmbedding | Reflected
    if settings.tie == "reflection":
        if embedding.dim != dim:
            raise ExfamError(
                "`tie` must be 'none' where tokens hold more than items side by side, got "
                f"'reflection' with tokens of length {embedding.dim}. Use join='sum'."
            )
        centers = Reflected(items, reflection_signs(dim))
    else:
        centers = ItemEmbedding(schema.n_items, embedding.dim, generator=generator)
    bias = torch.zeros(schema.n_items) if item_bias is None else item_bias
    head = ItemHead(centers, norm=_last_norm(embedding.dim, settings), bias=bias)
    return _network(embedding, head, schema, settings, generator)


def build_value_network(
    schema: Schema, settings: ModelSettings, *, generator: torch.Generator
) -> EFANetwork:
    """The value part: p(value | item, context), the center's values hidden, all else shown."""
    if not schema.values:
        raise ExfamError("`value` must be given for a value part, got data without values.")
    dim = settings.network.embed_dim
    fields: list[Field | Hidden] = []
    if schema.n_items is not None:
        fields.append(ItemEmbedding(schema.n_items, dim, generator=generator))
    fields += [_attribute_field(spec, dim, generator) for spec in schema.attributes]
    fields += _value_fields(schema, settings, generator)
    embedding = TokenEmbedding(fields, join=JOINS[settings.join]())
    head = _value_head(embedding.dim, schema, settings, generator)
    return _network(embedding, head, schema, settings, generator)


def _network(
    embedding: TokenEmbedding,
    head: nn.Module,
    schema: Schema,
    settings: ModelSettings,
    generator: torch.Generator,
) -> EFANetwork:
    return build_network(
        embedding,
        head,
        settings=replace(settings.network, embed_dim=embedding.dim),
        n_positions=schema.n_positions,
        position_scale=schema.position_scale,
        generator=generator,
    )


def _last_norm(dim: int, settings: ModelSettings) -> nn.Module:
    """Pre-norm blocks leave their stream unnormalized; the others need nothing more."""
    return nn.LayerNorm(dim) if settings.network.connection == "pre-norm" else nn.Identity()


def _value_head(
    dim: int, schema: Schema, settings: ModelSettings, generator: torch.Generator
) -> ValueHead:
    initial = {value.column: torch.tensor(value.initial_eta) for value in schema.values}
    location, spread = split_initial(schema.families, initial)
    of_item = schema.n_items if settings.dispersion == "item" else None
    dispersion = Dispersion(schema.families, spread, n_items=of_item)
    hidden, n_location = settings.head_hidden_dim, dispersion.n_location
    network: nn.Module = (
        mlp([dim, hidden, n_location], generator=generator)
        if hidden
        else linear(dim, n_location, generator=generator)
    )
    return ValueHead(
        network,
        norm=_last_norm(dim, settings),
        dispersion=dispersion,
        intercept=ItemBias(location, n_items=schema.n_items),
        offset=_group_offset(schema, settings) if settings.group_offset else None,
    )


def _group_offset(schema: Schema, settings: ModelSettings) -> GroupOffset:
    return GroupOffset(
        schema.families,
        slope=torch.block_diag(*(_location_slopes(value) for value in schema.values)),
        center=torch.tensor([value.center for value in schema.values]),
        direction=settings.network.direction,
        n_items=schema.n_items,
    )


def _location_slopes(spec: ValueSpec) -> Float[Tensor, "1 outputs"]:
    """How location outputs change with the mean, standardized, at the outputs that fit all values.

    Categorical outputs move along the categories' values, as an exponential tilt does. 0 where an
    item is needed to tell the mean.
    """
    family = spec.family.of_units
    n_location = family.n_params - family.n_dispersion
    eta = torch.tensor(spec.initial_eta).requires_grad_()
    if isinstance(family, PerItem):
        return torch.zeros(1, n_location)
    mean = family.mean(eta)
    (gradient,) = torch.autograd.grad(mean, eta)
    gradient = gradient[:n_location]
    one_each = n_location == family.n_categories
    direction = torch.tensor(family.categories) - mean.detach() if one_each else gradient
    return (direction / (gradient * direction).sum())[None]


def _value_fields(
    schema: Schema, settings: ModelSettings, generator: torch.Generator
) -> list[Field | Hidden]:
    dim = settings.network.embed_dim
    return [
        Hidden(_value_field(spec, settings.value_embedding, dim, generator), generator=generator)
        for spec in schema.values
    ]


def _value_field(spec: ValueSpec, kind: str, dim: int, generator: torch.Generator) -> Field:
    categories = spec.family.categories if spec.family.n_categories else ()
    if kind == "raw":
        return RawValue(spec.column, spec.family)
    if kind == "table" and not categories:
        raise ExfamError(
            f"`value_embedding` must not be 'table' for family {spec.family.name!r}, whose values "
            "are not a few categories. Use 'network'."
        )
    if categories and kind != "network":
        return TableValue(spec.column, spec.family, dim=dim, generator=generator)
    return NumberValue(
        spec.column,
        spec.family,
        center=spec.center,
        spread=spec.spread,
        dim=dim,
        generator=generator,
    )


def _attribute_field(spec: AttributeSpec, dim: int, generator: torch.Generator) -> Field:
    if spec.n is not None:
        return CategoryAttribute(
            spec.name, n=spec.n, dim=dim, generator=generator, of_group=spec.of_group
        )
    return NumberAttribute(
        spec.name,
        center=torch.tensor(spec.center),
        spread=torch.tensor(spec.spread),
        dim=dim,
        generator=generator,
        of_group=spec.of_group,
    )
