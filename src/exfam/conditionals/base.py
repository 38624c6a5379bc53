"""Tokens in, hidden states of all centers out: by masked copies, or by two streams in one pass."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.attention import Block, Visibility
from exfam.checks import ExfamError
from exfam.encodings import Position
from exfam.encodings.base import Sight


class Tokens(NamedTuple):
    """Tokens of padded groups, seen as context (`content`) and as hidden centers (`center`)."""

    content: Float[Tensor, "batch length embed"]
    center: Float[Tensor, "batch length embed"]
    position: Position
    present: Bool[Tensor, "batch length"]


class Hidden(NamedTuple):
    """Hidden states of all centers, and the centers' attention weights at each layer.

    `weights`: (batch, heads, center, columns), the columns being the elements, then the null token
    and the mask token where there are any.
    """

    state: Float[Tensor, "batch length embed"]
    weights: tuple[Float[Tensor, "batch heads length columns"], ...]


class Conditional(ABC):
    """A way to get the hidden states of all centers of a group."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        """Why this way does not serve such a network, or None if it does."""
        return None

    @abstractmethod
    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """Hidden states of all centers."""

    def states(
        self,
        blocks: Sequence[Block],
        tokens: Tokens,
        visibility: Visibility,
        wanted: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length embed"]:
        """Hidden states alone, right at the `wanted` centers at least."""
        return self.hide(blocks, tokens, visibility).state

    def numbers_an_element(self, longest: int, *, n_heads: int, dim: int) -> int:
        """Numbers that an element of a group of that length takes in the largest array."""
        return longest * n_heads

    def check(self, blocks: Sequence[Block], visibility: Visibility) -> None:
        """Raise ExfamError where this way does not serve such a network."""
        reason = self.refusal(blocks, visibility)
        if reason is not None:
            raise ExfamError(
                f"`conditional` must be one that serves this network: {reason}. "
                "Use 'copies' (any network) or 'static' (any depth, one pass)."
            )


class TwoStream(Conditional):
    """Causal: content attends to earlier content and itself; centers attend to earlier content."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None if visibility.causal else "'two_stream' is for direction='causal'"

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        return self._hide(blocks, tokens, visibility, weighted=True)

    def states(
        self,
        blocks: Sequence[Block],
        tokens: Tokens,
        visibility: Visibility,
        wanted: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length embed"]:
        return self._hide(blocks, tokens, visibility, weighted=False).state

    def _hide(
        self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility, *, weighted: bool
    ) -> Hidden:
        self.check(blocks, visibility)
        context = sight_of_centers(tokens, visibility)
        among_content = replace(context, may_attend=visibility.content(tokens.present), itself=True)
        content, center, weights = tokens.content, tokens.center, []
        for i, block in enumerate(blocks):
            keys = block.keys(content, tokens.position)
            if weighted:
                center, used = attend(block, center, keys, context, visibility.sees_mask)
                weights.append(used)
            else:
                center = attend_unweighted(block, center, keys, context, visibility.sees_mask)
            if i + 1 < len(blocks):
                content = attend_unweighted(block, content, keys, among_content)
        return Hidden(center, tuple(weights))


class Static(Conditional):
    """Centers attend, at every layer, to keys and values made from each token alone.

    An exact conditional of a slightly different model: context elements do not change each other.
    With one layer it is the same model as `copies`.
    """

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        context, own = sight_of_centers(tokens, visibility), visibility.sees_mask
        center, weights = tokens.center, []
        for block in blocks:
            keys = block.keys(tokens.content, tokens.position)
            center, used = attend(block, center, keys, context, own)
            weights.append(used)
        return Hidden(center, tuple(weights))

    def states(
        self,
        blocks: Sequence[Block],
        tokens: Tokens,
        visibility: Visibility,
        wanted: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length embed"]:
        context, own = sight_of_centers(tokens, visibility), visibility.sees_mask
        center = tokens.center
        for block in blocks:
            keys = block.keys(tokens.content, tokens.position)
            center = attend_unweighted(block, center, keys, context, own)
        return center


def sight_of_centers(tokens: Tokens, visibility: Visibility) -> Sight:
    """What centers see."""
    itself = False if visibility.causal else None
    return Sight(visibility.context(tokens.present), (tokens.position, tokens.position), itself)


def attend_unweighted(
    block: Block, stream: Tensor, keys: tuple[Tensor, Tensor], sight: Sight, own: bool = False
) -> Tensor:
    """As `attend`, without the weights."""
    q = block.queries(stream, sight.positions[0])
    own_key = block.keys(stream, sight.positions[0]) if own else None
    return block.join(stream, block.attention.update(q, keys, sight, own_key))


def attend(
    block: Block, stream: Tensor, keys: tuple[Tensor, Tensor], sight: Sight, own: bool = False
) -> tuple[Tensor, Tensor]:
    """One block: the stream attends to keys and, where it is hidden, to its `own`."""
    q = block.queries(stream, sight.positions[0])
    own_key = block.keys(stream, sight.positions[0]) if own else None
    attended = block.attention.gather(q, keys, sight.may_attend, sight.positions, own_key)
    return block.join(stream, attended.update), attended.weights


def repeat_position(position: Tensor, rows: Tensor) -> Tensor:
    """Positions of some rows; positions that all groups share stay one broadcast row."""
    if position.stride(0) == 0:
        return position[:1].expand(len(rows), *position.shape[1:])
    return position[rows]


class Copies(Conditional):
    """One masked copy of the group for each element: the definition, exact for any network."""

    def numbers_an_element(self, longest: int, *, n_heads: int, dim: int) -> int:
        return longest * max(longest * n_heads, dim)

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        lengths = tokens.present.int().sum(1)
        order = torch.argsort(lengths, stable=True)
        parts = [
            self._bucket(blocks, _rows(tokens, order[low:high], width), visibility)
            for low, high, width in _bucket_bounds(lengths[order].tolist())
        ]
        length, back = tokens.present.shape[1], torch.argsort(order)
        state = torch.cat([_pad(part.state, length, -2) for part in parts])[back]
        by_layer = (
            [_pad_columns(part.weights[i], part.state.shape[1], length) for part in parts]
            for i in range(len(blocks))
        )
        return Hidden(state, tuple(torch.cat(weights)[back] for weights in by_layer))

    def _bucket(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """All copies of groups of about one length."""
        batch, length, embed = tokens.content.shape
        group, center = tokens.present.nonzero(as_tuple=True)
        row = torch.arange(len(group), device=group.device)
        stream = tokens.content[group].clone()
        stream[row, center] = tokens.center[group, center]
        position, present = repeat_position(tokens.position, group), tokens.present[group]
        may_attend = visibility.content(present)
        if not visibility.sees_mask:
            hidden = torch.zeros_like(present)
            hidden[row, center] = True
            may_attend = may_attend & ~hidden[:, None, :]
        sight, weights = Sight(may_attend, (position, position)), []
        for block in blocks[:-1]:
            stream, used = attend(block, stream, block.keys(stream, position), sight)
            weights.append(used[row, :, center])
        last, query_position = blocks[-1], position[row, center][:, None]
        query = stream[row, center][:, None]
        attended = last.attention.gather(
            last.queries(query, query_position),
            last.keys(stream, position),
            may_attend[row, center][:, None],
            (query_position, position),
        )
        weights.append(attended.weights[:, :, 0])
        state = last.join(query, attended.update)[:, 0]
        if visibility.sees_mask:
            weights = [_own_column_last(used, row, center) for used in weights]
        out = state.new_zeros(batch, length, embed).index_put((group, center), state)
        scattered = [
            used.new_zeros(batch, length, *used.shape[1:]).index_put((group, center), used)
            for used in weights
        ]
        return Hidden(out, tuple(used.transpose(1, 2) for used in scattered))


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
    after = [0, 0] * (-dim - 1) + [0, length - x.shape[dim]]
    return torch.nn.functional.pad(x, after)


def _pad_columns(weights: Tensor, n_keys: int, length: int) -> Tensor:
    """Weights padded to `length` centers and keys; extra columns stay last."""
    keys, extra = weights[..., :n_keys], weights[..., n_keys:]
    return _pad(torch.cat([_pad(keys, length, -1), extra], -1), length, -2)


def _own_column_last(weights: Tensor, row: Tensor, center: Tensor) -> Tensor:
    """The mask's weight moved from its column among the keys to a last one."""
    own = weights[row, :, center]
    others = weights.transpose(1, 2).index_put((row, center), torch.zeros_like(own))
    return torch.cat([others.transpose(1, 2), own[..., None]], -1)
