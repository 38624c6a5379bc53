"""Elements to vectors: items, values, attributes; hidden fields; tokens joined from fields.

A field maps a batch to one vector an element. A token is a sum or concatenation of fields, seen in
two ways: as content (what the context shows) and as center (what the model may know of the element
that it predicts). `MaskedField(field)` shows a learned mask at the center in place of the field.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from exfam.checks import ExfamError
from exfam.families import Family
from exfam.families.base import compressed
from exfam.groups import Batch
from exfam.layers import mlp, normal, table

# Numbers from which on a parameter's gradient is memory to be kept from step to step: fresh memory
# costs more time than a step with the few rows of a large table that a batch needs.
LARGE_PARAMETER = 2**22
# Standard deviations from which on numbers enter as their logarithms.
_FAR = 100.0

Vectors = Float[Tensor, "batch length dim"]


class Field(nn.Module, ABC):
    """One property of an element as a vector of length `dim`."""

    dim: int

    @abstractmethod
    def forward(self, batch: Batch) -> Vectors:
        """A vector for each element."""

    def known(self, batch: Batch) -> Bool[Tensor, "batch length"] | None:
        """Where the property is known at all; None means everywhere."""
        return None


def item_rows(batch: Batch, n_items: int) -> Int[Tensor, "batch length"]:
    """Rows of a table with one row an item and a last one for unknown items.

    Groups without items, or a table of no items, have the last row everywhere.
    """
    if batch.item is None or n_items == 0:
        return torch.full_like(batch.element, n_items)
    return torch.where(batch.item < 0, n_items, batch.item)


class ItemVectors(Field, ABC):
    """A vector for each item; one more row stands for unknown items (code -1)."""

    n_items: int

    @abstractmethod
    def rows(self) -> Float[Tensor, "items_and_unknown dim"]:
        """The vectors in order of the items' codes, and that of unknown items."""

    def vectors(self) -> Float[Tensor, "items dim"]:
        """The items' vectors, in order of their codes."""
        return self.rows()[:-1]


class ItemEmbedding(ItemVectors):
    """A learned vector for each item; one more row stands for unknown items (code -1)."""

    row_parameters = ("table.weight",)

    def __init__(
        self, n_items: int, dim: int, *, generator: torch.Generator, scale: float = 0.1
    ) -> None:
        super().__init__()
        self.n_items, self.dim = n_items, dim
        self.table = table(n_items + 1, dim, scale=scale, generator=generator)
        with torch.no_grad():
            # No item of the training data trains this row: zero is the mean of the others.
            self.table.weight[-1] = 0.0

    def rows(self) -> Float[Tensor, "items_and_unknown dim"]:
        """The vectors in order of the items' codes, and that of unknown items."""
        return self.table.weight

    def forward(self, batch: Batch) -> Vectors:
        if batch.item is None:
            raise ExfamError("`item` must be given for this model, got groups without items.")
        return rows_of(self.table.weight, item_rows(batch, self.n_items))


def reflection_signs(dim: int, *, share: float = 0.5) -> Float[Tensor, "dim"]:
    """Signs of an involution: the first `share` of the coordinates +1, the rest -1."""
    if not 0 <= share <= 1:
        raise ExfamError(f"`share` must be a number in [0, 1], got {share!r}.")
    signs = torch.ones(dim)
    signs[round(dim * share) :] = -1.0
    return signs


class Reflected(nn.Module):
    """Center vectors tied to context vectors by a reflection: c = q * w.

    `signs` is any vector of +1 and -1. Halves the parameters of an item part.
    Source: "Context Vectors are Reflections of Word Vectors in Half the Dimensions", theorem 1.
    """

    signs: Tensor

    def __init__(self, items: ItemVectors, signs: Float[Tensor, "dim"]) -> None:
        super().__init__()
        if signs.shape != (items.dim,) or not bool((signs.abs() == 1).all()):
            raise ExfamError(
                f"`signs` must be {items.dim} numbers +1 or -1, got shape {tuple(signs.shape)}."
            )
        self.items = items
        self.register_buffer("signs", signs)

    def vectors(self) -> Float[Tensor, "items dim"]:
        """The items' reflected vectors."""
        return self.items.vectors() * self.signs


class _Value(Field, ABC):
    """A value column, known where it was observed; its family says how networks see values."""

    def __init__(self, column: str, family: Family, dim: int) -> None:
        super().__init__()
        self.column, self.family, self.dim = column, family, dim

    def known(self, batch: Batch) -> Bool[Tensor, "batch length"]:
        return batch.has_value(self.column)

    def values(self, batch: Batch) -> Float[Tensor, "batch length"]:
        """The column as networks see it, with 0 where it was not observed."""
        inputs = self.family.network_input(batch.values[self.column], item=batch.item)
        return torch.where(self.known(batch), inputs, 0.0)


class RawValue(_Value):
    """The value itself, standardized, as a vector of length 1: the paper's identity lambda_1."""

    like: Tensor

    def __init__(self, column: str, family: Family) -> None:
        super().__init__(column, family, 1)
        # Has the precision of the model's parameters, of which this field has none.
        self.register_buffer("like", torch.zeros(()), persistent=False)

    def forward(self, batch: Batch) -> Vectors:
        return self.values(batch)[..., None].to(self.like)


class TableValue(_Value):
    """A learned vector for each of the values of a finite family."""

    def __init__(
        self, column: str, family: Family, *, dim: int, generator: torch.Generator
    ) -> None:
        super().__init__(column, family, dim)
        n, self.start = len(family.categories), family.categories[0]
        self.step = family.spacing
        self.table = table(n, dim, scale=0.1, generator=generator)

    def forward(self, batch: Batch) -> Vectors:
        code = ((self.values(batch) - self.start) / self.step).round().long()
        return self.table(torch.where(self.known(batch), code, 0))


class NumberValue(_Value):
    """A small network of the standardized value; `center` and `spread` are those of its inputs."""

    def __init__(
        self,
        column: str,
        family: Family,
        *,
        center: float,
        spread: float,
        dim: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(column, family, dim)
        self.center, self.spread = center, spread
        self.network = mlp([1, 32, dim], generator=generator)

    def forward(self, batch: Batch) -> Vectors:
        standardized = (self.values(batch) - self.center) / self.spread
        return self.network(standardized[..., None].to(next(self.parameters()).dtype))


class _Attribute(Field, ABC):
    """A column of elements, or of groups, which is the same for all elements of one."""

    def __init__(self, name: str, *, dim: int, of_group: bool) -> None:
        super().__init__()
        self.name, self.dim, self.of_group = name, dim, of_group

    @abstractmethod
    def embed(self, column: Tensor) -> Tensor:
        """A vector for each entry of the column."""

    def forward(self, batch: Batch) -> Vectors:
        if not self.of_group:
            return self.embed(batch.attributes[self.name])
        vectors = self.embed(batch.group_attributes[self.name])
        return vectors[:, None].expand(*batch.present.shape, -1)


class CategoryAttribute(_Attribute):
    """A learned vector for each category; code -1, never seen in training, is a zero vector."""

    def __init__(
        self, name: str, *, n: int, dim: int, generator: torch.Generator, of_group: bool = False
    ) -> None:
        super().__init__(name, dim=dim, of_group=of_group)
        self.table = table(n, dim, scale=0.1, generator=generator)

    def embed(self, column: Tensor) -> Tensor:
        return self.table(column.clamp_min(0)) * (column >= 0)[..., None]


class NumberAttribute(_Attribute):
    """A small network of standardized numbers."""

    center: Tensor
    spread: Tensor

    def __init__(
        self,
        name: str,
        *,
        center: Float[Tensor, "width"],
        spread: Float[Tensor, "width"],
        dim: int,
        generator: torch.Generator,
        hidden_dim: int = 32,
        of_group: bool = False,
    ) -> None:
        super().__init__(name, dim=dim, of_group=of_group)
        self.register_buffer("center", center)
        self.register_buffer("spread", spread)
        self.network = mlp([len(center), hidden_dim, dim], generator=generator)

    def embed(self, column: Tensor) -> Tensor:
        return self.network(compressed((column - self.center) / self.spread, _FAR))


class MaskedField(nn.Module):
    """A field that the center does not show: there, and where it is unknown, stands a mask."""

    def __init__(self, field: Field, *, generator: torch.Generator) -> None:
        super().__init__()
        self.field, self.dim = field, field.dim
        self.mask = nn.Parameter(normal(field.dim, scale=0.1, generator=generator))

    def content(self, batch: Batch) -> Vectors:
        """The field, as the context shows it."""
        known = self.field.known(batch)
        vectors = self.field(batch)
        return vectors if known is None else torch.where(known[..., None], vectors, self.mask)

    def center(self, batch: Batch) -> Vectors:
        """The mask, for every element."""
        return self.mask.expand(*batch.present.shape, -1)


class Summed:
    """Fields added; all have one length."""

    def dim(self, dims: Sequence[int]) -> int:
        """Length of the token."""
        if len(set(dims)) != 1:
            raise ExfamError(
                f"`fields` must have one length to be summed, got {list(dims)}. "
                "Use join='concatenate'."
            )
        return dims[0]

    def join(self, vectors: Sequence[Vectors]) -> Vectors:
        """The token."""
        return torch.stack(list(vectors)).sum(0) if len(vectors) > 1 else vectors[0]


class Concatenated:
    """Fields side by side, as in the paper's value part."""

    def dim(self, dims: Sequence[int]) -> int:
        """Length of the token."""
        return sum(dims)

    def join(self, vectors: Sequence[Tensor]) -> Float[Tensor, "batch length joined"]:
        """The token."""
        return torch.cat(list(vectors), dim=-1)


class TokenEmbedding(nn.Module):
    """Tokens from fields: shown ones, and `MaskedField` ones that the center does not know."""

    def __init__(
        self, fields: Sequence[Field | MaskedField], *, join: Summed | Concatenated | None = None
    ) -> None:
        super().__init__()
        if not fields:
            raise ExfamError("`fields` must hold at least one field, got none.")
        self.fields = nn.ModuleList(fields)
        self.join = join or Summed()
        self.dim = self.join.dim([field.dim for field in fields])

    def content(self, batch: Batch) -> Vectors:
        """Tokens as the context shows them."""
        return self.join.join(
            [f.content(batch) if isinstance(f, MaskedField) else f(batch) for f in self.fields]
        )

    def center(self, batch: Batch) -> Vectors:
        """Tokens as the model knows them when it predicts them."""
        return self.join.join(
            [f.center(batch) if isinstance(f, MaskedField) else f(batch) for f in self.fields]
        )


@runtime_checkable
class ReadByRow(Protocol):
    """What a table is read through while it is trained by row: its `by_row`."""

    def read(self, index: Int[Tensor, "*shape"]) -> Float[Tensor, "*numbers"]:
        """Rows as they are by now."""

    def receive(self, index: Int[Tensor, "*shape"], gradient: Float[Tensor, "*numbers"]) -> None:
        """Take in gradients of these rows."""


def is_by_row(table: Float[Tensor, "rows *row"]) -> bool:
    """Whether the table is trained by row at present: then its numbers are read by `rows_of`."""
    return getattr(table, "by_row", None) is not None


def rows_of(
    table: Float[Tensor, "rows *row"], index: Int[Tensor, "*shape"]
) -> Float[Tensor, "*numbers"]:
    """Rows of a table; into a large one, the backward pass adds the gradients of these rows alone.

    That is where it has a gradient to add to; its first one is a tensor as large as the table. One
    that is trained by row has none: its `by_row` takes in gradients.
    """
    by_row: ReadByRow | None = getattr(table, "by_row", None)
    if by_row is not None:
        read: Tensor = _ReadRows.apply(table, index, by_row)
        return read
    if table.ndim == 1:
        return table[index]
    if table.numel() < LARGE_PARAMETER:
        return functional.embedding(index, table)
    rows: Tensor = _Rows.apply(table, index)
    return rows


class _ReadRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, by_row: ReadByRow) -> Tensor:
        ctx.index, ctx.by_row = index, by_row
        return by_row.read(index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        ctx.by_row.receive(ctx.index, gradient)
        return None, None, None


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(table, index)
        return functional.embedding(index, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        table, index = ctx.saved_tensors
        if not table.is_leaf or table.grad is None:
            dense = torch.ops.aten.embedding_dense_backward
            return dense(gradient, index, len(table), -1, False), None
        rows = gradient.reshape(-1, gradient.shape[-1])
        index = index.reshape(1, -1)
        return torch.sparse_coo_tensor(index, rows, table.shape, check_invariants=False), None
