"""Numbers in, a table's model out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.encodings import EncodingSizes, build_encoding
from exfam.families import Categorical, Family
from exfam.tables.data import LABEL_KINDS, Cells, Column, TableSchema
from exfam.tables.networks.deep import DeepTableNetwork
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.parts import (
    OWN_VECTORS,
    CellTokens,
    ColumnEncodings,
    Readout,
    TableSettings,
    TokenPlan,
)
from exfam.tables.networks.standardized import StandardizedFamily, standardized_families

CATEGORIES = ("per-column", "shared")
NETWORKS = ("linear", "deep")
# Beyond it a token is hardly ever seen, and its score would dominate the direction.
_FARTHEST = 3.0
# Raw outputs start near 0, and large logits set labels apart.
_STEEP = 3.0
# How spread a value is takes more rows to learn than where it lies.
_SLOW = 0.3
# Rows enough for a column's marginal distribution.
_MANY = 100_000


def build_masked_table(
    schema: TableSchema,
    settings: TableSettings,
    *,
    families: Sequence[Family],
    cells: Cells | None,
    generator: torch.Generator,
) -> MaskedTableModel:
    """A model whose columns start from their distributions in `cells`; None to load numbers."""
    check_choice("network", settings.network, NETWORKS)
    check_choice("categories", settings.categories, CATEGORIES)
    shared = settings.categories == "shared"
    finite = all(column.kind in LABEL_KINDS for column in schema.columns)
    if shared and (not finite or len({column.n_tokens for column in schema.columns}) > 1):
        sizes = ", ".join(f"{c.name!r} ({c.kind}) {c.n_tokens}" for c in schema.columns)
        raise ExfamError(
            "`categories` must be 'per-column' unless all columns have labels, and equally many, "
            f"got 'shared' for {sizes}."
        )
    standardized = standardized_families(
        schema, families, positive_in_units=settings.positive_in_units
    )
    # Numbers lie on a line in every member, ordered labels where `ordinal` says so.
    numbers = [_is_number(column) for column in schema.columns]
    plan = TokenPlan(
        tuple(column.n_tokens for column in schema.columns),
        shared=shared,
        scores=tuple(_scores(column, cells, k) for k, column in enumerate(schema.columns)),
        ordered=tuple(tuple(own or number for number in numbers) for own in settings.ordinal),
    )
    encoding_sizes = EncodingSizes(
        n_heads=settings.n_heads,
        head_dim=settings.head_dim,
        embed_dim=settings.embed_dim,
        n_positions=plan.n_columns,
        generator=generator,
    )
    encodings = None
    if settings.encoding != OWN_VECTORS:
        own = [build_encoding(settings.encoding, encoding_sizes) for _ in settings.ordinal]
        encodings = ColumnEncodings(own, n_columns=plan.n_columns)
    drawn: dict[str, Any] = {"embed_dim": settings.embed_dim, "generator": generator}
    vectors = None if encodings is None else encodings.vectors(settings.embed_dim)
    tokens = CellTokens(plan, positions=vectors, **drawn)
    bases, biases = _bases(standardized, plan), _biases(standardized, cells)
    readout = Readout(bases, biases, shared=shared, **drawn)
    kind = LinearTableNetwork if settings.network == "linear" else DeepTableNetwork
    network = kind(tokens, readout, settings, places=encodings, generator=generator)
    return MaskedTableModel(network, schema=schema, standardized=standardized)


def _scores(column: Column, cells: Cells | None, index: int) -> tuple[float, ...] | None:
    """Where a column's tokens lie on a line: normal scores of labels, standardized knots."""
    if _is_number(column):
        knots = (np.asarray(column.knots) - column.center) / column.scale
        return tuple(np.clip(knots, -_FARTHEST, _FARTHEST).tolist())
    if column.kind not in ("ordinal", "numeric"):
        return None
    if cells is None:
        return (0.0,) * column.n_tokens
    code = cells.code[:, index]
    counts = np.bincount(code[code >= 0], minlength=column.n_tokens) + 0.5
    shares = counts / counts.sum()
    middle = shares.cumsum() - shares / 2
    return tuple(np.clip(ndtri(middle), -_FARTHEST, _FARTHEST).tolist())


def _is_number(column: Column) -> bool:
    return column.kind not in LABEL_KINDS and not column.binned


def _bases(
    standardized: Sequence[StandardizedFamily], plan: TokenPlan
) -> Float[Tensor, "members columns params raw"]:
    """What raw outputs are multiplied by: one per parameter, and for ordered labels two of all.

    With scores s, the logits s u - s^2 v / 2 are those of a normal distribution cut into labels.
    """
    families = [column.family for column in standardized]
    n_params = max(family.n_params for family in families)
    basis = torch.zeros(plan.n_members, len(families), n_params, n_params + 2)
    for column, (family, scores) in enumerate(zip(families, plan.scores, strict=True)):
        size = family.n_params
        basis[:, column, :size, :size] = torch.eye(size)
        first = size - family.n_dispersion
        basis[:, column, first:size, first:size] *= _SLOW
        if scores is not None and isinstance(family, Categorical):
            score = torch.tensor(scores)
            line = torch.stack([_STEEP * score, -0.5 * _STEEP * score**2], 1)
            ordered = torch.tensor([own[column] for own in plan.ordered], dtype=torch.float32)
            basis[:, column, : len(score), n_params:] = ordered[:, None, None] * line
    return basis


def _biases(
    standardized: Sequence[StandardizedFamily], cells: Cells | None
) -> Float[Tensor, "columns params"]:
    bias = torch.zeros(len(standardized), max(c.family.n_params for c in standardized))
    if cells is None:
        return bias
    for k, column in enumerate(standardized):
        value = cells.value[:_MANY, k]
        value = (value[~np.isnan(value)] - column.center) / column.scale
        if len(value):
            family = column.family
            bias[k, : family.n_params] = family.initial_eta(torch.from_numpy(value))
    return bias
