"""Long causal groups in windows, so that a group of n elements costs n, not its square.

The first window of a group predicts up to 100 elements from all that came before; a later one
predicts 50, each from the earlier ones of the window and up to 50 elements before it. Windows of
all groups of a batch lie side by side as rows of a further batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from exfam.attention import Block, Visibility
from exfam.conditionals.base import Conditional, Hidden, Tokens
from exfam.encodings import Position
from exfam.layers import RandomPart

# Elements that a window predicts, and earlier ones that it sees beside them, at most.
PREDICTED, EARLIER = 50, 50

Elements = Int64[Tensor, "batch length"]


@dataclass(frozen=True, eq=False)
class Windows:
    """Which elements of a padded batch each window sees, and where each element is predicted.

    `group`, `column`: the elements of each window, padded with the last one of it; `present` says
    which are no padding. `row`, `at`: the window that predicts each element, and its column there.
    """

    group: Int64[Tensor, "windows"]
    column: Int64[Tensor, "windows width"]
    present: Bool[Tensor, "windows width"]
    row: Elements
    at: Elements

    @classmethod
    def of(
        cls, lengths: Int64[Tensor, "batch"], first: Int64[Tensor, "batch"], *, width: int
    ) -> "Windows":
        """Windows of groups of these lengths, the first of each predicting `first` elements.

        `width`: of the batch
        """
        n_windows = 1 + ((lengths - first).clamp_min(0) + PREDICTED - 1) // PREDICTED
        last = n_windows.cumsum(0)
        group = torch.repeat_interleave(n_windows)
        number = torch.arange(len(group), device=group.device) - (last - n_windows)[group]
        end = torch.minimum(lengths[group], first[group] + number * PREDICTED)
        begin = (first[group] + (number - 1) * PREDICTED - EARLIER).clamp_min(0) * (number > 0)
        offset = torch.arange(int((end - begin).max()), device=group.device)
        column = begin[:, None] + offset
        present = column < end[:, None]
        column = torch.minimum(column, (end - 1).clamp_min(0)[:, None])
        position = torch.arange(width, device=group.device)
        own = (position - first[:, None]).div(PREDICTED, rounding_mode="floor").add(1).clamp_min(0)
        own = torch.minimum(own, n_windows[:, None] - 1)
        row = (last - n_windows)[:, None] + own
        # Padding is predicted nowhere: any column will do.
        at = (position - begin[row]).clamp(0, len(offset) - 1)
        return cls(group, column, present, row, at)

    def holding(self, wanted: Bool[Tensor, "batch length"]) -> "Windows":
        """Those windows that predict an element that is wanted; others' elements have the first."""
        kept = torch.zeros(len(self.group), dtype=torch.bool, device=wanted.device)
        kept[self.row[wanted]] = True
        number = (kept.cumsum(0) - 1).clamp_min(0)
        parts = self.group[kept], self.column[kept], self.present[kept]
        return Windows(*parts, row=number[self.row], at=self.at)

    def fold(self, x: Tensor) -> Tensor:
        """What elements have, window by window."""
        return x[self.group[:, None], self.column]

    def unfold(self, x: Tensor) -> Tensor:
        """What windows have, at the elements that they predict."""
        return x[self.row, self.at]


class Windowed(Conditional, RandomPart):
    """Another conditional of causal networks, window by window.

    In training, the lengths of first windows are drawn: where windows end is another element each
    time. In use they are fixed, and what is appended to a group changes nothing before it.
    """

    def __init__(self, inner: Conditional) -> None:
        super().__init__()
        self.inner = inner

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        if not visibility.causal:
            return "windows are for direction='causal'"
        return self.inner.refusal(blocks, visibility)

    def numbers_an_element(self, longest: int, *, n_heads: int, dim: int) -> int:
        width = min(longest, PREDICTED + EARLIER)
        # Later windows have as many elements that they only see as they predict.
        n_rows = 2 if longest > width else 1
        return n_rows * self.inner.numbers_an_element(width, n_heads=n_heads, dim=dim)

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        windows = self._windows(tokens)
        if windows is None:
            return self.inner.hide(blocks, tokens, visibility)
        hidden = self.inner.hide(blocks, _folded(tokens, windows, blocks), visibility)
        length = tokens.present.shape[1]
        weights = tuple(_unfolded_weights(layer, windows, length) for layer in hidden.weights)
        return Hidden(windows.unfold(hidden.state), weights)

    def states(
        self,
        blocks: Sequence[Block],
        tokens: Tokens,
        visibility: Visibility,
        wanted: Bool[Tensor, "batch length"],
    ) -> Tensor:
        windows = self._windows(tokens)
        if windows is None or not bool(wanted.any()):
            return self.inner.states(blocks, tokens, visibility, wanted)
        windows = windows.holding(wanted)
        folded = _folded(tokens, windows, blocks)
        state = self.inner.states(blocks, folded, visibility, windows.present)
        return windows.unfold(state)

    def _windows(self, tokens: Tokens) -> Windows | None:
        """Of the batch's groups; None where each has a single one."""
        lengths = tokens.present.sum(1)
        most = PREDICTED + EARLIER
        if int(lengths.max()) <= (EARLIER + 1 if self.training else most):
            return None
        first = torch.full_like(lengths, most)
        if self.training:
            first = first.random_(EARLIER + 1, most + 1, generator=self.generator)
        if bool((lengths <= first).all()):
            return None
        return Windows.of(lengths, first, width=tokens.present.shape[1])


def _folded(tokens: Tokens, windows: Windows, blocks: Sequence[Block]) -> Tokens:
    return Tokens(
        windows.fold(tokens.content),
        windows.fold(tokens.center),
        _folded_position(tokens, windows, blocks),
        windows.present,
    )


def _folded_position(tokens: Tokens, windows: Windows, blocks: Sequence[Block]) -> Position:
    """Positions window by window, or counted from each window's start where that is the same."""
    position, width = tokens.position, windows.present.shape[1]
    keeps_tables = any(block.attention.encoding.n_positions is not None for block in blocks)
    if position.stride(0) == 0 and position.ndim == 2 and not keeps_tables:
        counted = position[0, : int(tokens.present.sum(1).max())]
        if bool((counted == torch.arange(len(counted), device=counted.device)).all()):
            # One row for all windows: encodings then work on it once.
            return counted[None, :width].expand(len(windows.group), width)
    return windows.fold(position)


def _unfolded_weights(weights: Tensor, windows: Windows, length: int) -> Tensor:
    """Weights of each element's window, at the columns of its whole group."""
    width = windows.present.shape[1]
    of_element = windows.unfold(weights.transpose(1, 2))
    keys, extra = of_element[..., :width], of_element[..., width:]
    out = keys.new_zeros(*keys.shape[:-1], length)
    column = windows.column[windows.row][:, :, None].expand_as(keys)
    return torch.cat([out.scatter_add(-1, column, keys), extra], -1).transpose(1, 2)
