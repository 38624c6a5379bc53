"""From numbers to a field network: the default wiring."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import Attention, Block, NullToken, build_block
from exfam.checks import with_types
from exfam.embeddings import (
    Field,
    ItemEmbedding,
    MaskedField,
    NumberAttribute,
    NumberValue,
    TokenEmbedding,
)
from exfam.encodings import DistanceBias, Encoding, NoEncoding
from exfam.estimator.plain import from_plain
from exfam.families import Family, Gaussian
from exfam.fields.declarations import FieldNetworkParameters
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.network import FieldNetwork
from exfam.fields.networks.parts import (
    Hiding,
    Neighborhood,
    ReadOut,
    StepsBack,
)
from exfam.geometry import distances
from exfam.groups import Groups
from exfam.layers import mlp

# Sites whose distances give the unit of distance encodings.
MOST_SITES = 500


@dataclass(frozen=True)
class FieldShape:
    """What a field model must know of the training data to be built, as plain numbers.

    `step`: time from one map to the next; `center`, `spread`: of the sites' coordinates; `unit`: a
    quarter of the median distance of two sites, between the nearest and the far ones. The
    coordinates that a model sees are those of the data less `origin`, divided by `length`, as are
    covariates less `covariate_center`, divided by `covariate_scale`; `covariate_varies`: whether
    they change at a site.
    """

    column: str
    n_sites: int
    lags: int
    step: float
    metric: str
    center: tuple[float, ...]
    spread: tuple[float, ...]
    unit: float
    origin: tuple[float, ...] = ()
    length: float = 1.0
    covariate_center: tuple[float, ...] = ()
    covariate_scale: tuple[float, ...] = ()
    covariate_varies: tuple[bool, ...] = ()

    @property
    def n_dims(self) -> int:
        """Coordinates of a place."""
        return len(self.center)

    @property
    def fixed_covariates(self) -> tuple[int, ...]:
        """Covariates that say something of sites."""
        return tuple(k for k, varies in enumerate(self.covariate_varies) if not varies)

    @property
    def varying_covariates(self) -> tuple[int, ...]:
        """Covariates that change from map to map."""
        return tuple(k for k, varies in enumerate(self.covariate_varies) if varies)

    def placed(
        self, places: Float[np.ndarray, "places space"]
    ) -> Float[np.ndarray, "places space"]:
        """Places of the data as models see them."""
        return (places - np.array(self.origin)) / self.length if len(self.origin) else places

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "FieldShape":
        """The shape that a saved model holds as plain JSON."""
        return with_types(cls(**from_plain(dict(config))))


def field_shape(groups: Groups, *, lags: int, step: float, metric: str) -> FieldShape:
    """The shape of training groups that are a field."""
    assert groups.item is not None
    own = groups.elements()
    places = groups.attributes["coordinates"][own]
    sites = places[np.unique(groups.item[own], return_index=True)[1]]
    spread = sites.std(0)
    some = sites[:: max(1, len(sites) // MOST_SITES)]
    apart = distances(some, some, metric=metric)
    apart = apart[apart > 0]
    (column,) = groups.values
    return FieldShape(
        column=column,
        n_sites=groups.n_items,
        lags=lags,
        step=step,
        metric=metric,
        center=tuple(sites.mean(0).tolist()),
        spread=tuple(np.where(spread > 0, spread, 1.0).tolist()),
        unit=float(np.median(apart)) / 4 if apart.size else 1.0,
    )


def build_field_network(
    shape: FieldShape,
    settings: FieldNetworkParameters,
    *,
    climate: Climate,
    family: Family,
    start: Float[Tensor, "params"],
    generator: torch.Generator,
) -> FieldNetwork:
    """The default wiring; outputs start at `start`, in units of anomalies."""
    parts, dim = _Parts(shape, settings, generator), settings.embed_dim
    where = NumberAttribute(
        "coordinates",
        center=torch.tensor(shape.center),
        spread=torch.tensor(shape.spread),
        dim=dim,
        hidden_dim=dim,
        generator=generator,
    )
    fields: list[Field | MaskedField] = [where, StepsBack(shape.lags, dim=dim, generator=generator)]
    if settings.site_embedding:
        fields.append(ItemEmbedding(shape.n_sites, dim, generator=generator))
    value = NumberValue(
        shape.column, Gaussian(), center=0.0, spread=1.0, dim=dim, generator=generator
    )
    for network in (where.network, value.network):
        # The first layer's units bend at places all over the map, not at the mean alone.
        first = cast(nn.Linear, network[0])
        bound = first.in_features**-0.5
        for parameter in (first.weight, first.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    place, hidden = TokenEmbedding(fields), MaskedField(value, generator=generator)
    blocks = [parts.block() for _ in range(settings.n_layers)]
    n_location = family.n_params - family.n_dispersion
    head = FieldHead(settings, start=start, n_location=n_location, generator=generator)
    return FieldNetwork(
        place,
        hidden,
        blocks,
        head,
        climate=climate,
        family=family,
        column=shape.column,
        neighborhood=Neighborhood(settings.n_neighbors, shape.metric),
        hiding=Hiding(settings.hide),
        read_out=parts.read_out() if settings.read_out_heads else None,
        dropout=settings.dropout,
    )


class FieldHead(nn.Module):
    """lambda_2: the family's outputs from a hidden state; those of scale, or constants for them."""

    def __init__(
        self,
        settings: FieldNetworkParameters,
        *,
        start: Float[Tensor, "params"],
        n_location: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        dim, hidden = settings.embed_dim, settings.head_hidden_dim
        n_outputs = len(start) if settings.scale == "input" else n_location
        self.n_location = n_location
        self.norm = nn.LayerNorm(dim)
        self.network = mlp([dim, *([hidden] if hidden else []), n_outputs], generator=generator)
        last = cast(nn.Linear, self.network[-1])
        with torch.no_grad():
            # Small at first: the model starts at climate, and the read-out beside it.
            last.weight.mul_(0.1)
        self.constant = nn.Parameter(start.clone())

    def widen(self, shift: float) -> None:
        """Add to the first output that is no location: of a scale, its logarithm."""
        if len(self.constant) > self.n_location:
            with torch.no_grad():
                self.constant[self.n_location] += shift

    def forward(self, state: Float[Tensor, "batch own embed"]) -> Float[Tensor, "batch own params"]:
        outputs = self.network(self.norm(state))
        missing = len(self.constant) - outputs.shape[-1]
        return nn.functional.pad(outputs, (0, missing)) + self.constant


class _Parts(NamedTuple):
    shape: FieldShape
    settings: FieldNetworkParameters
    generator: torch.Generator

    def encoding(self, n_heads: int) -> Encoding:
        """The encoding of coordinates, for so many heads."""
        if self.settings.encoding == "none":
            return NoEncoding()
        return DistanceBias(n_heads, scale=self.shape.unit, metric=self.shape.metric)

    def null(self, n_heads: int) -> NullToken | None:
        """The key that stands for "none of these", if there is to be one."""
        if not self.settings.null_token:
            return None
        return NullToken(n_heads, self.settings.head_dim, generator=self.generator)

    def block(self) -> Block:
        """An attention layer, its feed-forward part included."""
        settings = self.settings
        attention = Attention(
            settings.embed_dim,
            n_heads=settings.n_heads,
            head_dim=settings.head_dim,
            generator=self.generator,
            encoding=self.encoding(settings.n_heads),
            null=self.null(settings.n_heads),
        )
        return build_block(
            attention,
            settings.embed_dim,
            connection="pre-norm",
            feed_forward_dim=settings.feed_forward_dim,
            generator=self.generator,
            dropout=settings.dropout,
        )

    def read_out(self) -> ReadOut:
        """The linear read-out beside attention."""
        n_heads = self.settings.read_out_heads
        null = self.null(n_heads)
        return ReadOut(
            self.settings.embed_dim,
            n_heads=n_heads,
            head_dim=self.settings.head_dim,
            encoding=self.encoding(n_heads),
            generator=self.generator,
            null_key=None if null is None else null.key,  # what takes it adds nothing
        )
