"""Numbers in, a table's model out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.encodings import EncodingSizes
from exfam.families import Categorical, Family
from exfam.tables.networks.column_heads import ColumnLaw
from exfam.tables.networks.column_vectors import OWN_VECTORS, ColumnPlaces, column_places
from exfam.tables.networks.deep import DeepTableNetwork
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.readout import Readout
from exfam.tables.networks.table_model import TableCells, TableColumn, TableColumns
from exfam.tables.networks.tokens import CellTokens, TokenPlan

__all__ = ["CATEGORIES", "NETWORKS", "TableSettings", "build_masked_table", "column_laws"]

CATEGORIES = ("per-column", "shared")
NETWORKS = ("linear", "deep")
# Beyond it a token is hardly ever seen, and its place on the line would dominate the direction.
_FARTHEST = 3.0


@dataclass(frozen=True)
class TableSettings:
    """What a network is made of.

    `network`: "linear", the single layer without layer norm, ReLU and dropout; or "deep"
    `categories`: "shared" has one space of categories for all columns, which must have equally many
    `ordinal`: for each of the networks side by side, whether labels that have an order have a
        direction along which their tokens and outputs lie, beside free vectors for each
    `n_layers`, `feed_forward_dim`, `dropout`, `norm` ("pre" or "post"): of the deep one
    `masked_columns`: names of columns whose absent cells are shown as MASK tokens
    `encoding`: of the columns' places, by name; "learned" is a free vector a column
    `positive_in_units`: whether families of positive numbers are of values divided by their mean
    """

    network: str
    categories: str
    ordinal: tuple[bool, ...]
    embed_dim: int
    n_heads: int
    head_dim: int
    n_layers: int
    feed_forward_dim: int
    dropout: float
    norm: str
    masked_columns: tuple[str, ...]
    # Stored models older than these choices have none.
    encoding: str = OWN_VECTORS
    positive_in_units: bool = False


def column_laws(
    schema: TableColumns, families: Sequence[Family], *, positive_in_units: bool = True
) -> list[ColumnLaw]:
    """Each column's family, in standard units if shifts and scales map it onto itself.

    Families that scales alone map onto themselves are of values divided by their mean, unless
    `positive_in_units` is false, as in models stored before.
    """
    laws = []
    for column, family in zip(schema.columns, families, strict=True):
        center, scale = 0.0, 1.0
        if family.equivariance == "location-scale":
            center, scale = column.center, column.scale
        elif family.equivariance == "scale" and positive_in_units:
            scale = column.center if column.center > 0 else 1.0
        laws.append(ColumnLaw(family.rescaled(scale), center=center, scale=scale))
    return laws


def build_masked_table(
    schema: TableColumns,
    settings: TableSettings,
    *,
    families: Sequence[Family],
    cells: TableCells | None,
    generator: torch.Generator,
) -> MaskedTableModel:
    """A model whose columns start from their marginal laws in `cells`.

    Without `cells` the numbers are to be loaded. Raises ExfamError for columns of unequal numbers
    of categories where they are to be shared.
    """
    check_choice("network", settings.network, NETWORKS)
    check_choice("categories", settings.categories, CATEGORIES)
    shared = settings.categories == "shared"
    if shared:
        _check_alike(schema)
    laws = column_laws(schema, families, positive_in_units=settings.positive_in_units)
    scores = [_scores(column, cells, place) for place, column in enumerate(schema.columns)]
    plan = TokenPlan(
        tuple(column.n_tokens for column in schema.columns),
        shared=shared,
        scores=tuple(scores),
        ordered=_ordered(schema, settings),
    )
    sizes = EncodingSizes(
        n_heads=settings.n_heads,
        head_dim=settings.head_dim,
        embed_dim=settings.embed_dim,
        n_positions=plan.n_columns,
        generator=generator,
    )
    places = column_places(settings.encoding, plan.n_members, sizes)
    tokens = CellTokens(
        plan,
        embed_dim=settings.embed_dim,
        generator=generator,
        positions=None if places is None else _fixed(places, settings.embed_dim),
    )
    readout = Readout(
        _bases(laws, plan),
        _biases(laws, cells),
        shared=shared,
        embed_dim=settings.embed_dim,
        generator=generator,
    )
    masked = [schema.place(name) for name in settings.masked_columns]
    network = _network(tokens, readout, places, settings, generator)
    return MaskedTableModel(network, schema=schema, laws=laws, masked_columns=masked)


def _fixed(places: ColumnPlaces, embed_dim: int) -> Float[Tensor, "members columns embed"]:
    """The vectors of an encoding that adds some, zeros of all others."""
    vectors = places.vectors()
    if vectors is None:
        vectors = torch.zeros(len(places.members), places.n_columns, embed_dim)
    return vectors


def _network(
    tokens: CellTokens,
    readout: Readout,
    places: ColumnPlaces | None,
    settings: TableSettings,
    generator: torch.Generator,
) -> LinearTableNetwork | DeepTableNetwork:
    heads: dict[str, Any] = {"n_heads": settings.n_heads, "head_dim": settings.head_dim}
    heads["places"] = places
    if settings.network == "linear":
        return LinearTableNetwork(tokens, readout, **heads, generator=generator)
    return DeepTableNetwork(
        tokens,
        readout,
        **heads,
        n_layers=settings.n_layers,
        feed_forward_dim=settings.feed_forward_dim,
        dropout=settings.dropout,
        norm=settings.norm,
        generator=generator,
    )


def _check_alike(schema: TableColumns) -> None:
    sizes = {column.name: column.n_tokens for column in schema.columns}
    finite = all(column.kind in ("categorical", "ordinal", "boolean") for column in schema.columns)
    if len(set(sizes.values())) > 1 or not finite:
        told = ", ".join(
            f"{name!r} ({column.kind}) {sizes[name]}"
            for name, column in zip(sizes, schema.columns, strict=True)
        )
        raise ExfamError(
            "`categories` must be 'per-column' unless all columns have labels, and equally many, "
            f"got 'shared' for {told}."
        )


def _scores(column: TableColumn, cells: TableCells | None, place: int) -> tuple[float, ...] | None:
    """Where a column's tokens lie on a line: normal scores of labels, standardized knots."""
    if _is_number(column):
        knots = (np.asarray(column.knots) - column.center) / column.scale
        return tuple(np.clip(knots, -_FARTHEST, _FARTHEST).tolist())
    if column.kind not in ("ordinal", "numeric"):
        return None
    if cells is None:
        return (0.0,) * column.n_tokens
    code = cells.code[:, place]
    counts = np.bincount(code[code >= 0], minlength=column.n_tokens) + 0.5
    shares = counts / counts.sum()
    middle = shares.cumsum() - shares / 2
    return tuple(np.clip(ndtri(middle), -_FARTHEST, _FARTHEST).tolist())


def _is_number(column: TableColumn) -> bool:
    return column.kind in ("numeric", "count", "date") and not column.binned


def _ordered(schema: TableColumns, settings: TableSettings) -> tuple[tuple[bool, ...], ...]:
    """For each member, which columns lie on a line: numbers always do."""
    numbers = [_is_number(column) for column in schema.columns]
    return tuple(tuple(own or number for number in numbers) for own in settings.ordinal)


def _bases(
    laws: Sequence[ColumnLaw], plan: TokenPlan
) -> Float[Tensor, "members columns params raw"]:
    """What raw outputs are multiplied by: one a parameter, and for ordered labels two of all.

    With scores s, the logits s u - s^2 v / 2 are those of a normal law cut into labels.
    """
    n_params = max(law.family.n_params for law in laws)
    basis = torch.zeros(plan.n_members, len(laws), n_params, n_params + 2)
    for place, (law, given) in enumerate(zip(laws, plan.scores, strict=True)):
        size = law.family.n_params
        basis[:, place, :size, :size] = torch.eye(size)
        first = size - law.family.n_dispersion
        basis[:, place, first:size, first:size] *= _SLOW
        if given is not None and isinstance(law.family, Categorical):
            score = torch.tensor(given)
            shared = torch.stack([_STEEP * score, -0.5 * _STEEP * score**2], 1)
            ordered = torch.tensor([own[place] for own in plan.ordered], dtype=torch.float32)
            basis[:, place, : len(score), n_params:] = ordered[:, None, None] * shared
    return basis


# Raw outputs start near 0 and labels are told apart by large logits.
_STEEP = 3.0
# How spread a value is takes more rows to learn than where it lies.
_SLOW = 0.3


def _biases(laws: Sequence[ColumnLaw], cells: TableCells | None) -> Float[Tensor, "columns params"]:
    """The parameters of each column's marginal law."""
    bias = torch.zeros(len(laws), max(law.family.n_params for law in laws))
    if cells is None:
        return bias
    for place, law in enumerate(laws):
        value = cells.value[:_MANY, place]
        value = (value[~np.isnan(value)] - law.center) / law.scale
        if len(value):
            bias[place, : law.family.n_params] = law.family.initial_eta(torch.from_numpy(value))
    return bias


# Rows that say what a column's marginal law is about.
_MANY = 100_000
