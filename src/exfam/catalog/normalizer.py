"""Log-probabilities of chosen classes, exactly, without ever holding rows x classes.

The normalizer is a sum over classes: tiles of some rows and some classes are computed, summed up
and forgotten; the backward pass computes them again, unless all of them together take no more than
`KEPT_BYTES` of memory. Sums run in float32 at least. Under torch's autocast the factors of products
are rounded, and the products; softmaxes and sums over rows and classes are not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from exfam.catalog.linear import LinearEta, chunks_of, may_keep, tile_shape
from exfam.catalog.listed import Listed

# Outputs from which on a processor rounds factors where it may.
LEAST_ROUNDED = 2**20


@dataclass(frozen=True, eq=False)
class ItemChoice:
    """Rows that each choose one of the items: linear outputs with their support applied.

    `excluded` pairs of a row and an item cannot be chosen; at `penalized` pairs the (learned)
    `penalty` is taken off. `again`: whether that is so for the row's own item.
    """

    eta: LinearEta
    excluded: tuple[Listed, ...] = ()
    penalized: tuple[Listed, ...] = ()
    penalty: Float[Tensor, ""] | None = None
    again: Bool[Tensor, "rows"] | None = None

    def part(self, rows: slice) -> "ItemChoice":
        """The same of some rows."""
        return ItemChoice(
            self.eta.at(rows),
            excluded=tuple(listed.part(rows) for listed in self.excluded),
            penalized=tuple(listed.part(rows) for listed in self.penalized),
            penalty=self.penalty,
            again=None if self.again is None else self.again[rows],
        )


@dataclass(frozen=True, eq=False)
class _Tile:
    """Outputs of some rows and classes, support applied.

    `flat`: the same outputs and one number more, at `penalized` positions or none
    """

    rows: slice
    classes: slice
    eta: Tensor
    flat: Tensor
    vectors: Tensor
    penalized: Tensor | None


def log_prob_of(choice: ItemChoice, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Log-probability in nats of each row's `item`, with gradients.

    Raises nothing for an excluded item: its log-probability is about -1e38.
    """
    flat = not choice.eta.vectors.shape[1] and choice.eta.offset is None
    if flat and choice.penalty is None:
        return _log_prob_of_biases(choice, item)
    return _apply(choice, item)


def log_normalizer(choice: ItemChoice) -> Float[Tensor, "rows"]:
    """Log of the sum of exp over each row's classes, with gradients."""
    return -_apply(choice, None)


def _log_prob_of_biases(choice: ItemChoice, item: Tensor) -> Tensor:
    """Where all rows have the same outputs: one sum for all, less what each row excludes."""
    assert choice.eta.bias is not None
    nats = choice.eta.bias.double().log_softmax(0)
    excluded = torch.zeros(len(item), dtype=nats.dtype, device=nats.device)
    every = slice(0, choice.eta.n_items)
    n_rows, _ = tile_shape(len(item), choice.eta.n_items, device=nats.device)
    for rows in chunks_of(len(item), n_rows):
        for listed in choice.excluded:
            row, column = listed.within(rows, every)
            excluded[rows].index_add_(0, row, nats[column].exp())
    return (nats[item] - torch.log1p(-excluded)).to(choice.eta.bias.dtype)


def _apply(choice: ItemChoice, item: Tensor | None) -> Tensor:
    inputs = (*choice.eta[:3], choice.penalty)
    learns = any(tensor is not None and tensor.requires_grad for tensor in inputs)
    state, n_outputs = choice.eta.state, len(choice.eta.state) * choice.eta.n_items
    fits = may_keep(n_outputs, dtype=_precise(state.dtype), device=state.device)
    keeps = learns and torch.is_grad_enabled() and fits
    factors = _rounding(state.device, n_outputs)
    out: Tensor = _LogProb.apply(*inputs, choice, item, keeps, factors)
    return out


def _rounding(device: torch.device, n_outputs: int) -> torch.dtype | None:
    """What factors are rounded to by torch's autocast; None for not at all.

    A processor needs longer to prepare few rounded products than they save.
    """
    is_small = device.type == "cpu" and n_outputs < LEAST_ROUNDED
    if is_small or not torch.is_autocast_enabled(device.type):
        return None
    dtype: torch.dtype = torch.get_autocast_dtype(device.type)
    return dtype


class _LogProb(torch.autograd.Function):
    """Minus the log-normalizer, plus the output of the item if there is one.

    `keeps`: whether outputs are kept for the backward pass. `factors`: what those of products are
    rounded to, None for not at all.
    """

    @staticmethod
    def forward(
        ctx: Any,
        state: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        penalty: Tensor | None,
        choice: ItemChoice,
        item: Tensor | None,
        keeps: bool,
        factors: torch.dtype | None,
    ) -> Tensor:
        total = torch.full((len(state),), -torch.inf, dtype=torch.float64, device=state.device)
        chosen, kept = torch.zeros_like(total), []
        for tile in tiles(choice, reuse=not keeps, factors=factors):
            if item is not None:
                column, inside = _columns_of(item, tile)
                own = tile.eta.gather(1, column)[:, 0].double()
                chosen[tile.rows] = torch.where(inside, own, chosen[tile.rows])
            nats, _ = tile_log_normalizer(tile.eta)
            total[tile.rows] = torch.logaddexp(total[tile.rows], nats)
            if keeps:
                kept.append((tile, nats, tile.eta))
        ctx.save_for_backward(state, vectors, bias, penalty, total)
        ctx.choice, ctx.item, ctx.kept, ctx.factors = choice, item, kept, factors
        return (chosen - total).to(state.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        state, vectors, bias, penalty, total = ctx.saved_tensors
        sums = _Gradients(state, vectors, bias, penalty, factors=ctx.factors)
        gradient = gradient.to(sums.state.dtype)
        # What is kept is used up, so that another backward pass computes it again.
        kept, ctx.kept = ctx.kept or _softmaxes(ctx.choice, ctx.factors), None
        for tile, nats, softmax in kept:
            # From shares of the tile to shares of all classes.
            of_all = (nats - total[tile.rows]).exp().to(gradient.dtype)
            softmax.mul_((-gradient[tile.rows] * of_all)[:, None])
            if ctx.item is not None:
                column, inside = _columns_of(ctx.item, tile)
                own = torch.where(inside, gradient[tile.rows], 0.0).to(softmax.dtype)
                softmax.scatter_add_(1, column, own[:, None])
            sums.add(tile)
        given = zip(
            (sums.state, sums.vectors, sums.bias, sums.penalty),
            (state, vectors, bias, penalty),
            ctx.needs_input_grad,
            strict=False,
        )
        gradients = (
            None if total is None or not needed else total.to(like.dtype)
            for total, like, needed in given
        )
        return (*gradients, None, None, None, None)


def _columns_of(item: Tensor, tile: _Tile) -> tuple[Int64[Tensor, "rows 1"], Tensor]:
    """Each row's item as a column of the tile, any where it is in none; and whether it is in one.

    Not by the indices of those inside: of a GPU these have to be waited for.
    """
    column = item[tile.rows] - tile.classes.start
    n = tile.classes.stop - tile.classes.start
    return column.clamp(0, n - 1)[:, None], (column >= 0) & (column < n)


def _softmaxes(
    choice: ItemChoice, factors: torch.dtype | None
) -> Iterator[tuple[_Tile, Tensor, Tensor]]:
    """Tiles with their log-normalizers and, in place of their outputs, their softmaxes."""
    return ((tile, *tile_log_normalizer(tile.eta)) for tile in tiles(choice, factors=factors))


class _Gradients:
    """Sums over tiles, in the precision of the tiles."""

    def __init__(
        self,
        state: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        penalty: Tensor | None,
        *,
        factors: torch.dtype | None,
    ) -> None:
        dtype = _precise(state.dtype)
        self.rows, self.state = state.to(factors or dtype), torch.zeros_like(state, dtype=dtype)
        self.vectors = torch.zeros_like(vectors, dtype=dtype)
        self.bias = None if bias is None else torch.zeros_like(bias, dtype=dtype)
        self.penalty = None if penalty is None else torch.zeros_like(penalty, dtype=dtype)

    def add(self, tile: _Tile) -> None:
        """Take in a tile whose outputs have been replaced by their gradients."""
        eta = tile.eta.to(tile.vectors.dtype)
        if eta is tile.eta:
            self.state[tile.rows].addmm_(eta, tile.vectors)
        else:
            self.state[tile.rows].add_(eta @ tile.vectors)
        # As (dim, classes) the product is faster than as (classes, dim).
        self.vectors[tile.classes].add_((self.rows[tile.rows].T @ eta).T)
        if self.bias is not None:
            self.bias[tile.classes].add_(tile.eta.sum(0))
        if self.penalty is not None and tile.penalized is not None:
            tile.flat[-1:] = 0.0
            self.penalty.sub_(tile.flat[tile.penalized].sum())


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def tile_log_normalizer(eta: Float[Tensor, "rows classes"]) -> tuple[Tensor, Tensor]:
    """Each row's log-sum-exp, in float64, and its softmax, which takes the place of `eta`."""
    most = eta.amax(1)
    # The fused softmax takes half the time of its parts. Its largest entry is 1 / sum.
    softmax = torch.softmax(eta, 1, out=eta)
    return most.double() - softmax.amax(1).double().log(), softmax


def tiles(
    choice: ItemChoice, *, reuse: bool = True, factors: torch.dtype | None = None
) -> Iterator[_Tile]:
    """All outputs, some classes and then some rows at a time, support applied.

    Excluded outputs are the lowest finite number: minus infinity in all of a row would be NaN.
    `reuse`: whether the memory of a tile is that of the next one. `factors`: what those of products
    are rounded to, None for not at all.
    """
    eta = choice.eta
    dtype, device = _precise(eta.state.dtype), eta.state.device
    n_rows, n_classes = tile_shape(len(eta.state), eta.n_items, device=device)
    state = eta.state.detach().to(factors or dtype)
    buffer = torch.empty(n_rows * n_classes + 1 if reuse else 0, dtype=dtype, device=device)
    for classes in chunks_of(eta.n_items, n_classes):
        vectors = eta.vectors[classes].detach().to(factors or dtype)
        bias = None if eta.bias is None else eta.bias[classes].detach().to(dtype)
        for rows in chunks_of(len(state), n_rows):
            size = (rows.stop - rows.start) * len(vectors)
            flat = buffer[: size + 1] if reuse else buffer.new_empty(size + 1)
            tile = flat[:-1].view(-1, len(vectors))
            _multiply(state[rows], vectors, bias, into=tile)
            if eta.offset is not None:
                tile += eta.offset.tile(rows, classes).to(dtype)
            penalized = _apply_support(choice, flat, rows, classes)
            yield _Tile(rows, classes, tile, flat, vectors, penalized)


def _multiply(state: Tensor, vectors: Tensor, bias: Tensor | None, *, into: Tensor) -> None:
    """Products plus biases, which are never rounded."""
    if state.dtype != into.dtype:
        into.copy_(state @ vectors.T)
        if bias is not None:
            into += bias
    elif bias is None:
        torch.mm(state, vectors.T, out=into)
    else:
        torch.addmm(bias, state, vectors.T, out=into)


def _apply_support(
    choice: ItemChoice, flat: Tensor, rows: slice, classes: slice
) -> Int64[Tensor, "pairs"] | None:
    """Positions in the tile where the penalty was taken off."""
    penalized = None
    if choice.penalty is not None and choice.penalized:
        penalized = _flat_positions(choice.penalized, rows, classes)
        flat[penalized] -= choice.penalty.detach().to(flat.dtype)
    if choice.excluded:
        positions = _flat_positions(choice.excluded, rows, classes)
        flat.index_fill_(0, positions, torch.finfo(flat.dtype).min)
    return penalized


def _flat_positions(
    lists: tuple[Listed, ...], rows: slice, classes: slice
) -> Int64[Tensor, "pairs"]:
    """Listed pairs as positions in a flat tile, or one beyond its last."""
    positions = [listed.flat(rows, classes) for listed in lists]
    return positions[0] if len(positions) == 1 else torch.cat(positions)
