"""Positional encodings: parts with four optional hooks that attention asks for.

An encoding may add a vector to the tokens (`embed`), turn queries and keys (`rotate`), add to the
scores (`bias`), or replace the scores altogether (`log_weights`); `pair_scores` joins the last two
with products. Positions are integers, real numbers or vectors (times, sites); attention itself
never changes for a new encoding.
"""

from abc import ABC
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from exfam.checks import ExfamError

Position = Num[Tensor, "batch length"] | Num[Tensor, "batch length space"]
QueryPosition = Num[Tensor, "batch query"] | Num[Tensor, "batch query space"]
KeyPosition = Num[Tensor, "batch key"] | Num[Tensor, "batch key space"]
Queries = Float[Tensor, "batch heads query head"]
Pairs = Float[Tensor, "#batch #heads query key"]


class Encoding(nn.Module, ABC):
    """Four hooks, each doing nothing unless a subclass says otherwise.

    `embeds`, `rotates`, `replaces`: whether the first, the second, the last of them does anything
    `separable`: whether what it does to scores depends on positions alone, not on the tokens there
    """

    embeds = False
    rotates = False
    replaces = False
    separable = True
    # How many heads it distinguishes.
    n_heads = 1
    # Length of the queries and keys that it is for; None where any will do.
    head_dim: int | None = None
    # Positions, from 0, that it has tables of; None where it takes any.
    n_positions: int | None = None

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"] | None:
        """Vectors to add to the tokens, or None."""
        return None

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        """Queries or keys, turned according to their positions."""
        return x

    def bias(
        self, q: Queries, query_position: QueryPosition, key_position: KeyPosition
    ) -> Pairs | None:
        """Numbers to add to the scores (not divided by any scale), or None."""
        return None

    def log_weights(self, query_position: QueryPosition, key_position: KeyPosition) -> Pairs | None:
        """Log attention weights up to a constant in each row, in place of the scores, or None."""
        return None


class NoEncoding(Encoding):
    """No positions: the context is a set."""


def pair_scores(
    encoding: Encoding,
    q: Float[Tensor, "#batch heads query head"],
    k: Float[Tensor, "#batch heads key head"],
    positions: tuple[QueryPosition, KeyPosition],
    *,
    scale: float,
) -> Float[Tensor, "#batch heads query key"]:
    """Scores of all pairs: scaled products plus the encoding's bias, or its log weights.

    `q`, `k`: rotated already, where the encoding rotates
    """
    fixed = encoding.log_weights(*positions)
    if fixed is not None:
        return fixed.to(q.dtype).expand(q.shape[0], q.shape[1], -1, -1)
    product = (q * scale) @ k.mT
    bias = encoding.bias(q, *positions)
    return product if bias is None else product + bias


@dataclass(frozen=True, eq=False)
class Sight:
    """The keys that each query may attend to, and what encodings add there, once for all layers.

    `itself`: where earlier keys alone are seen, and padding is last: whether a query sees its own
    `biases`: of encodings that depend on positions alone; sights of the same positions share them
    """

    may_attend: Bool[Tensor, "batch query key"]
    positions: tuple[QueryPosition, KeyPosition]
    itself: bool | None = None
    biases: dict[Encoding, Pairs | None] = field(default_factory=dict)
    _added: dict[tuple[Encoding, bool], Tensor] = field(default_factory=dict, init=False)

    def additions(self, encoding: Encoding, q: Queries, *, null: bool) -> Tensor | None:
        """What is added to scaled products: the encoding's bias, a low number where hidden.

        None where a causal product needs nothing. `null`: whether a key for all comes first.
        """
        if (encoding, null) in self._added:
            return self._added[encoding, null]
        bias = self._bias(encoding, q)
        if bias is None and self.itself is not None:
            return None
        allowed = self.may_attend[:, None]
        if null:
            allowed = nn.functional.pad(allowed, (1, 0), value=True)
            bias = None if bias is None else nn.functional.pad(bias, (1, 0))
        # A finite number: where nothing may be attended to, softmax of -inf would be NaN.
        added = q.new_zeros(()) if bias is None else bias.to(q.dtype)
        added = added.where(allowed, torch.finfo(q.dtype).min / 2)
        if encoding.separable:
            self._added[encoding, null] = added
        return added

    def _bias(self, encoding: Encoding, q: Queries) -> Pairs | None:
        if not encoding.separable:
            return encoding.bias(q, *self.positions)
        if encoding not in self.biases:
            self.biases[encoding] = encoding.bias(q, *self.positions)
        return self.biases[encoding]


def once(position: Tensor) -> Tensor:
    """One row where all groups share their positions (a broadcast tensor), else all rows."""
    return position[:1] if position.stride(0) == 0 else position


def angles(
    position: Position, speed: Float[Tensor, "speeds"], *, name: str
) -> Float[Tensor, "rows length speeds"]:
    """Position times speed, in float64: times are large numbers with small differences."""
    _check_numbers(position, f"encoding={name!r}")
    return once(position)[..., None].double() * speed.double()


def offsets(query_position: QueryPosition, key_position: KeyPosition) -> Tensor:
    """Key position minus query position. Raises ExfamError for positions that are vectors."""
    _check_numbers(query_position, "this encoding")
    return once(key_position)[:, None, :] - once(query_position)[:, :, None]


def _check_numbers(position: Tensor, encoding: str) -> None:
    if position.ndim != 2:
        raise ExfamError(
            f"`position` must be one number an element for {encoding}, got vectors of "
            f"{position.shape[-1]}. Use encoding='distance' for places."
        )


def checked_rows(position: Position, n_positions: int, *, name: str) -> Int[Tensor, "rows length"]:
    """Positions as rows of a table that holds 0 .. n_positions - 1, once if groups share them.

    Raises ExfamError, naming the encoding, for any other position.
    """
    if position.is_floating_point() or position.ndim != 2:
        raise ExfamError(
            f"`position` must be one integer an element for encoding={name!r}, got "
            f"{position.dtype} of shape {tuple(position.shape)}. Use 'rotary' or 'distance'."
        )
    rows = once(position)
    wrong = rows[(rows < 0) | (rows >= n_positions)]
    if wrong.numel():
        raise ExfamError(
            f"`position` must be in 0 .. {n_positions - 1} for encoding={name!r}, the range of "
            f"the training groups and one more element, got {int(wrong[0])}. Shorten such groups "
            f"or sample fewer elements ({n_positions} a group at most where positions are counted "
            "from 0), or fit with encoding='relative', 'rotary' or 'distance'."
        )
    return rows
