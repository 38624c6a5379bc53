"""Outputs that are products of hidden states and item vectors, computed a chunk at a time."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.embeddings import ItemVectors, Reflected

# Items from which on outputs are kept as factors. As fast there as one product and one softmax, and
# from twice as many on at least twice as fast (one thread, 300 to 4,000 targets of 32 dimensions).
LARGE_CATALOG = 500
# Outputs that a processor computes at a time, which works fastest on what its cache holds; bytes
# of them that a forward pass may keep for the backward pass, which computes more of them again.
# Kept ones save a quarter of the time as long as a cache holds them, and little beyond that.
TILE, KEPT_BYTES = 2**20, 2**25
# A GPU needs many of them to be busy at all: the shares of its memory that they may take.
TILE_SHARE, KEPT_SHARE = 1 / 256, 1 / 16
# Rows of a tile at least, if there are that many: matrix products want both sides large.
TILE_ROWS = 512


Where = tuple[Int64[Tensor, "rows"], Int64[Tensor, "rows"]]


class Offset(Protocol):
    """Outputs that are added to products and have no gradients, computed a tile at a time.

    `at` some of the rows, `among` some of the items; `own`: of one item a row.
    """

    def at(self, where: Where | slice) -> "Offset": ...

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "Offset": ...

    def tile(self, rows: slice, classes: slice) -> Float[Tensor, "rows classes"]: ...

    def own(self, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]: ...


class LinearEta(NamedTuple):
    """eta = state @ vectors[:n_items].T + bias + offset, kept as its factors.

    Rows of `vectors` beyond the items, such as one for unknown items, are no outputs.
    """

    state: Float[Tensor, "*rows dim"]
    vectors: Float[Tensor, "items_or_more dim"]
    bias: Float[Tensor, "items"] | None
    n_items: int
    offset: Offset | None = None

    def dense(self) -> Float[Tensor, "*rows items"]:
        """The product, without an offset."""
        eta = self.state @ self.vectors[: self.n_items].T
        return eta if self.bias is None else eta + self.bias

    def at(self, where: Where | slice) -> "LinearEta":
        """Some of the rows."""
        offset = None if self.offset is None else self.offset.at(where)
        return self._replace(state=self.state[where], offset=offset)

    def own(self, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """The output of one item a row."""
        own = (self.state * self.vectors[item]).sum(-1)
        own = own if self.bias is None else own + self.bias[item]
        return own if self.offset is None else own + self.offset.own(item)


def item_products(
    state: Float[Tensor, "*rows dim"],
    items: ItemVectors | Reflected,
    bias: Float[Tensor, "items"] | None,
) -> LinearEta:
    """The products of states with the items' vectors, without a copy of the vectors."""
    if isinstance(items, Reflected):
        # The reflection of one side of a product is as good as that of the other.
        return item_products(state * items.signs, items.items, bias)
    return LinearEta(state, items.rows(), bias, items.n_items)


def tile_shape(n_rows: int, n_classes: int, *, device: torch.device) -> tuple[int, int]:
    """Rows and classes computed at a time."""
    tile = TILE if device.type != "cuda" else int(TILE_SHARE * _gpu_bytes(device)) // 4
    rows = max(1, min(n_rows, max(TILE_ROWS, tile // max(1, n_classes))))
    return rows, max(1, min(n_classes, tile // rows))


def may_keep(n_outputs: int, *, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether so many outputs may be kept for the backward pass."""
    most = KEPT_BYTES if device.type != "cuda" else int(KEPT_SHARE * _gpu_bytes(device))
    return n_outputs * dtype.itemsize <= most


@cache
def _gpu_bytes(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


def chunks_of(n: int, size: int) -> Iterator[slice]:
    """0 .. n - 1 in slices of at most `size`."""
    return (slice(first, min(first + size, n)) for first in range(0, n, size))
