"""The definition: one masked copy of the group for each element."""

from collections.abc import Sequence

import torch
from torch import Tensor

from exfam.attention import Block, Visibility
from exfam.conditionals.base import Conditional, Hidden, Tokens, attend, repeat_position


class Copies(Conditional):
    """One masked copy of the group for each element: the definition, exact for any network."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        lengths = tokens.present.int().sum(1)
        order = torch.argsort(lengths, stable=True)
        bounds = _bucket_bounds(lengths[order].tolist())
        parts = [
            self._bucket(blocks, _rows(tokens, order[low:high], width), visibility)
            for low, high, width in bounds
        ]
        length = tokens.present.shape[1]
        back = torch.argsort(order)
        state = torch.cat([_pad(part.state, length, -2) for part in parts])[back]
        weights = tuple(
            torch.cat(
                [_pad_columns(part.weights[i], part.state.shape[1], length) for part in parts]
            )[back]
            for i in range(len(blocks))
        )
        return Hidden(state, weights)

    def _bucket(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """All copies of groups of about one length."""
        batch, length, embed = tokens.content.shape
        group, center = tokens.present.nonzero(as_tuple=True)
        row = torch.arange(len(group), device=group.device)
        stream = tokens.content[group].clone()
        stream[row, center] = tokens.center[group, center]
        position, present = repeat_position(tokens.position, group), tokens.present[group]
        copy = Tokens(stream, stream, position, present)
        may_attend = visibility.content(present)
        if not visibility.sees_mask:
            hidden = torch.zeros_like(present)
            hidden[row, center] = True
            may_attend = may_attend & ~hidden[:, None, :]
        weights = []
        for block in blocks[:-1]:
            stream, used = attend(block, stream, stream, copy, may_attend)
            weights.append(used[row, :, center])
        last, query_position = blocks[-1], position[row, center][:, None]
        attended = last.attention.gather(
            last.queries(stream[row, center][:, None], query_position),
            last.keys(stream, position),
            may_attend[row, center][:, None],
            (query_position, position),
        )
        weights.append(attended.weights[:, :, 0])
        state = last.join(stream[row, center][:, None], attended.update)[:, 0]
        if visibility.sees_mask:
            weights = [_own_column_last(used, row, center) for used in weights]
        out = state.new_zeros(batch, length, embed).index_put((group, center), state)
        return Hidden(out, tuple(_scatter(w, group, center, batch, length) for w in weights))


def _bucket_bounds(lengths: list[int]) -> list[tuple[int, int, int]]:
    """(from, to, width) of runs of sorted lengths in which padding stays below a quarter."""
    bounds, low = [], 0
    for high in range(1, len(lengths) + 1):
        if high == len(lengths) or lengths[high] > max(4, 1.25 * lengths[low]):
            bounds.append((low, high, max(1, lengths[high - 1])))
            low = high
    return bounds


def _rows(tokens: Tokens, rows: Tensor, width: int) -> Tokens:
    """Some groups, cut to `width` (padding is always last)."""
    return Tokens(
        tokens.content[rows, :width],
        tokens.center[rows, :width],
        repeat_position(tokens.position, rows)[:, :width],
        tokens.present[rows, :width],
    )


def _pad(x: Tensor, length: int, dim: int) -> Tensor:
    """Zeros after the end of a dimension (counted from the last)."""
    missing = length - x.shape[dim]
    after = [0, 0] * (-dim - 1) + [0, missing]
    return torch.nn.functional.pad(x, after)


def _pad_columns(weights: Tensor, n_keys: int, length: int) -> Tensor:
    """Weights padded to `length` centers and keys; extra columns stay last."""
    keys, extra = weights[..., :n_keys], weights[..., n_keys:]
    return _pad(torch.cat([_pad(keys, length, -1), extra], -1), length, -2)


def _own_column_last(weights: Tensor, row: Tensor, center: Tensor) -> Tensor:
    """The mask's weight moved from its place among the keys to a last column."""
    own = weights[row, :, center]
    others = weights.transpose(1, 2).index_put((row, center), torch.zeros_like(own))
    return torch.cat([others.transpose(1, 2), own[..., None]], -1)


def _scatter(weights: Tensor, group: Tensor, center: Tensor, batch: int, length: int) -> Tensor:
    """(copies, heads, columns) to (batch, heads, center, columns)."""
    out = weights.new_zeros(batch, length, *weights.shape[1:])
    return out.index_put((group, center), weights).transpose(1, 2)
