"""May an item occur again in its group? Parts that take the context's items out of the choice.

Where items never repeat, a conditional that gives them no mass stays a proper distribution over
the rest: another, sharper model class. `RepeatPenalty` learns how much less likely a repeat is.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from exfam.catalog import ContextItems, ItemChoice, LinearEta, runs
from exfam.checks import ExfamError, check_choice
from exfam.groups import Batch

DIRECTIONS = ("causal", "bidirectional")

Items = Float[Tensor, "batch length items"]
Where = tuple[Int[Tensor, "rows"], Int[Tensor, "rows"]]


def _codes(batch: Batch, n_items: int) -> Int[Tensor, "batch length"]:
    """Item codes, with padding and unknown items as code `n_items`."""
    if batch.item is None:
        raise ExfamError("`item` must be given for an item part, got groups without items.")
    return torch.where(batch.present & (batch.item >= 0), batch.item, n_items)


def _first_seen(
    code: Int[Tensor, "batch length"], n_items: int
) -> Int[Tensor, "batch items_and_unknown"]:
    """Position of each item's first occurrence, the group's length where it does not occur."""
    batch, length = code.shape
    position = torch.arange(length, device=code.device).expand(batch, length)
    never = torch.full((batch, n_items + 1), length, dtype=torch.int64, device=code.device)
    return never.scatter_reduce(1, code, position, reduce="amin")


def _occurrences(
    code: Int[Tensor, "batch length"], n_items: int
) -> Int[Tensor, "batch items_and_unknown"]:
    """How often each item occurs in its group."""
    none = torch.zeros(len(code), n_items + 1, dtype=torch.int64, device=code.device)
    return none.scatter_add(1, code, torch.ones_like(code))


def repeated(batch: Batch, direction: str, *, n_items: int) -> Bool[Tensor, "batch length"]:
    """Elements whose own item occurs in the context they are predicted from.

    Unknown items (code -1) and padding never count as repeated.
    """
    check_choice("direction", direction, DIRECTIONS)
    code = _codes(batch, n_items)
    _, place, again = runs(code)
    if direction == "bidirectional":
        again[:, :-1] |= again[:, 1:].clone()
    return torch.empty_like(again).scatter_(1, place, again) & (code < n_items)


def _context_of(batch: Batch, direction: str, where: Where, n_items: int) -> ContextItems:
    """The items in the contexts of some elements, in memory of the contexts."""
    causal = direction == "causal"
    return ContextItems.of(_codes(batch, n_items), where, n_items=n_items, causal=causal)


def context_items(batch: Batch, direction: str, n_items: int) -> Bool[Tensor, "batch length items"]:
    """True where an item occurs in the context that an element is predicted from.

    Bidirectional: all other present elements, context-only ones included; causal: earlier ones.
    Unknown items (code -1) are seen by nobody.
    """
    check_choice("direction", direction, DIRECTIONS)
    code = _codes(batch, n_items)
    if direction == "causal":
        position = torch.arange(code.shape[1], device=code.device)
        return _first_seen(code, n_items)[:, None, :-1] < position[:, None]
    count = _occurrences(code, n_items)
    seen = (count > 0)[:, None].repeat(1, code.shape[1], 1)
    seen.scatter_(2, code[..., None], (count.gather(1, code) > 1)[..., None])
    return seen[..., :-1]


class NoExclusion(nn.Module):
    """Every item may occur at any time."""

    name = "none"

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        """`eta` as it is."""
        return eta

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        """The choice of the elements at `where`, whose outputs are `eta`."""
        return ItemChoice(eta)


class HardExclusion(nn.Module):
    """Items of the context cannot occur again.

    An element for which nothing would be left keeps all items, so that its distribution is proper.
    """

    name = "hard"

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        """`eta` with -inf at the context's items.

        Raises ExfamError if a target repeats an item of its context, naming the element.
        """
        _check_no_target_repeats(batch, direction, n_items=eta.shape[-1])
        excluded = context_items(batch, direction, eta.shape[-1])
        if eta.shape[1] > eta.shape[-1]:
            # Only a group longer than the catalog can use it up.
            excluded = excluded & ~excluded.all(-1, keepdim=True)
        return eta.masked_fill(excluded, -torch.inf)

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        """The choice of the elements at `where`, whose outputs are `eta`.

        Raises ExfamError if a target repeats an item of its context, naming the element.
        """
        _check_no_target_repeats(batch, direction, n_items=eta.n_items)
        seen = _context_of(batch, direction, where, eta.n_items)
        if batch.present.shape[1] > eta.n_items:
            seen = seen.sparing(eta.n_items)
        return ItemChoice(eta, excluded=(seen,))


class RepeatPenalty(nn.Module):
    """Items of the context are less likely by a learned factor exp(-penalty).

    The penalty is a scalar parameter: give it no weight decay, which would pull it to "no penalty".
    It has far to go from its start, so that its steps are larger than those of weights.

    >>> RepeatPenalty().penalty.item()
    5.0
    """

    name = "penalty"
    learning_rate_multipliers: ClassVar[Mapping[str, float]] = {"penalty": 30.0}

    def __init__(self, *, initial: float = 5.0) -> None:
        super().__init__()
        self.penalty = nn.Parameter(torch.tensor(float(initial)))

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        """`eta` with the penalty taken off at the context's items."""
        return eta - self.penalty * context_items(batch, direction, eta.shape[-1])

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        """The choice of the elements at `where`, whose outputs are `eta`."""
        return ItemChoice(
            eta,
            penalized=(_context_of(batch, direction, where, eta.n_items),),
            penalty=self.penalty,
            again=repeated(batch, direction, n_items=eta.n_items)[where],
        )


def _check_no_target_repeats(batch: Batch, direction: str, *, n_items: int) -> None:
    offending = repeated(batch, direction, n_items=n_items) & batch.target
    if not bool(offending.any()):
        return
    row, column = offending.nonzero()[0].tolist()
    assert batch.item is not None
    raise ExfamError(
        "`item` must not repeat in its group with support='hard', got item code "
        f"{int(batch.item[row, column])}, which repeats at element "
        f"{int(batch.element[row, column])} ({int(offending.sum())} such elements in the batch). "
        "Use support='none' or 'penalty'."
    )


SUPPORTS: dict[str, type[nn.Module]] = {
    part.name: part for part in (NoExclusion, HardExclusion, RepeatPenalty)
}
