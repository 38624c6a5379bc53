"""What every conditional has in common: tokens in, hidden states of all centers out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from exfam.attention import Block, Visibility
from exfam.checks import ExfamError
from exfam.encodings import Position


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

    @abstractmethod
    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        """Why this way does not serve such a network, or None if it does."""

    @abstractmethod
    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """Hidden states of all centers."""

    def check(self, blocks: Sequence[Block], visibility: Visibility) -> None:
        """Raise ExfamError where this way does not serve such a network."""
        reason = self.refusal(blocks, visibility)
        if reason is not None:
            raise ExfamError(
                f"`conditional` must be one that serves this network: {reason}. "
                "Use 'copies' (any network) or 'static' (any depth, one pass)."
            )


def attend(
    block: Block,
    query_stream: Tensor,
    key_stream: Tensor,
    tokens: Tokens,
    may_attend: Tensor,
    own: bool = False,
) -> tuple[Tensor, Tensor]:
    """One block: the query stream attends to keys made from the key stream."""
    position = tokens.position
    q = block.queries(query_stream, position)
    keys = block.keys(key_stream, position)
    own_key = block.keys(query_stream, position) if own else None
    attended = block.attention.gather(q, keys, may_attend, (position, position), own_key)
    return block.join(query_stream, attended.update), attended.weights


def repeat_position(position: Tensor, rows: Tensor) -> Tensor:
    """Positions of some rows; positions that all groups share stay one broadcast row."""
    if position.stride(0) == 0:
        return position[:1].expand(len(rows), *position.shape[1:])
    return position[rows]
