"""May an item occur again in its group? Parts that take the context's items out of the choice.

Where items never repeat, a conditional that gives them no mass stays a proper distribution over
the rest: another, sharper model class. `RepeatPenalty` learns how much less likely a repeat is.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import ContextItems, runs
from exfam.catalog.normalizer import ItemChoice
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


def repeated(batch: Batch, direction: str, *, n_items: int) -> Bool[Tensor, "batch length"]:
    """Elements whose own item occurs in the context they are predicted from.

    Unknown items (code -1) and padding never count as repeated.
    """
    check_choice("direction", direction, DIRECTIONS)
    code = _codes(batch, n_items)
    _, position, again = runs(code)
    if direction == "bidirectional":
        again[:, :-1] |= again[:, 1:].clone()
    return torch.empty_like(again).scatter_(1, position, again) & (code < n_items)


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
    n_groups, length = code.shape
    zeros = torch.zeros(n_groups, n_items + 1, dtype=torch.int64, device=code.device)
    if direction == "causal":
        position = torch.arange(length, device=code.device).expand(n_groups, length)
        first = (zeros + length).scatter_reduce(1, code, position, reduce="amin")
        return first[:, None, :-1] < position[0, :, None]
    count = zeros.scatter_add(1, code, torch.ones_like(code))
    seen = (count > 0)[:, None].repeat(1, length, 1)
    seen.scatter_(2, code[..., None], (count.gather(1, code) > 1)[..., None])
    return seen[..., :-1]


class NoExclusion(nn.Module):
    """Every item may occur at any time.

    A support maps outputs of all items; its `choice` does so for outputs kept as factors, of the
    elements at `where`.
    """

    name = "none"

    def forward(self, eta: Items, batch: Batch, direction: str) -> Items:
        return eta

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
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
        excluded = context_items(batch, direction, eta.shape[-1])
        own = _codes(batch, eta.shape[-1])
        again = excluded.gather(-1, own.clamp_max(eta.shape[-1] - 1)[..., None])[..., 0]
        _check_no_target_repeats(batch, again & (own < eta.shape[-1]))
        if eta.shape[1] > eta.shape[-1]:
            # Only a group longer than the catalog can use it up.
            excluded = excluded & ~excluded.all(-1, keepdim=True)
        return eta.masked_fill(excluded, -torch.inf)

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        _check_no_target_repeats(batch, repeated(batch, direction, n_items=eta.n_items))
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
        return ItemChoice(
            eta,
            penalized=(_context_of(batch, direction, where, eta.n_items),),
            penalty=self.penalty,
            again=repeated(batch, direction, n_items=eta.n_items)[where],
        )


def _check_no_target_repeats(batch: Batch, again: Bool[Tensor, "batch length"]) -> None:
    offending = again & batch.target
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
