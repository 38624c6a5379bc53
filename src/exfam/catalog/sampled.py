"""Sampled softmax: the normalizer estimated from a few items that the whole batch shares.

The estimate of the sum over items is unbiased: an item drawn stands for 1 / (expected number of
draws) of its kind. For training only; evaluation is exact.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_normalizer
from exfam.checks import ExfamError
from exfam.embeddings import rows_of
from exfam.layers import RandomPart


class Drawn(NamedTuple):
    """Items in increasing order, and the log of how many each stands for: a repeat for none."""

    item: Int64[Tensor, "drawn"]
    log_weight: Float[Tensor, "drawn"]


class ItemSampler(RandomPart):
    """Draws `n` items, an item `expected` times on average and frequent ones more often.

    Proportional to frequency^0.75, mixed with a uniform share. Draws are one from each of `n` equal
    shares of the expected numbers: items expected once or more are always in, and all items are if
    `n` is their number.
    """

    expected: Tensor
    order: Tensor
    bounds: Tensor

    def __init__(
        self,
        frequency: Float[Tensor, "items"],
        *,
        n: int,
        power: float = 0.75,
        uniform: float = 0.1,
    ) -> None:
        super().__init__()
        if not 1 <= n <= len(frequency):
            raise ExfamError(
                f"`n` must be from 1 to the number of items, {len(frequency)}, got {n!r}."
            )
        share = frequency.double() ** power
        share = (1 - uniform) * share / share.sum() + uniform / len(share)
        share, order = share.sort(descending=True, stable=True)
        expected, self.n_certain = _expected(share, n)
        # What is drawn need not be known to a fitted model: not part of its saved state.
        rest = expected[self.n_certain :]
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("bounds", rest.cumsum(0), persistent=False)
        unordered = torch.empty_like(expected).scatter_(0, order, expected)
        self.register_buffer("expected", unordered.float(), persistent=False)
        self.n = n

    def forward(self) -> Drawn:
        """Items for one batch."""
        n_drawn, device = self.n - self.n_certain, self.order.device
        point = torch.rand(n_drawn, generator=self.generator, device=device).double()
        point += torch.arange(n_drawn, device=device)
        index = torch.searchsorted(self.bounds, point, right=True)
        index = index.clamp_max(len(self.bounds) - 1) + self.n_certain
        index = torch.cat([torch.arange(self.n_certain, device=device), index])
        item = self.order[index].sort().values
        first, stop = (torch.searchsorted(item, item, right=right) for right in (False, True))
        weight = ((stop - first) / self.expected[item]).log()
        is_first = first == torch.arange(len(item), device=device)
        # A finite number: of a tile of repeats alone the softmax would be NaN.
        return Drawn(item, weight.where(is_first, torch.finfo(weight.dtype).min / 4))


def _expected(share: Float[Tensor, "items"], n: int) -> tuple[Float[Tensor, "items"], int]:
    """Expected draws, at most 1 each and proportional to decreasing shares else; how many are 1."""
    left = share.flip(0).cumsum(0).flip(0)
    # Were the first k items certain, the next one would be expected this often.
    next_one = (n - torch.arange(len(share))) * share / left
    n_certain = int((next_one >= 1).long().cumprod(0).sum())
    rest = share[n_certain:]
    rest = (n - n_certain) * rest / rest.sum()
    return torch.cat([torch.ones_like(share[:n_certain]), rest]), n_certain


def sampled_log_prob(
    choice: ItemChoice, item: Int64[Tensor, "rows"], drawn: Drawn
) -> Float[Tensor, "rows"]:
    """Log-probability of each row's item, its normalizer estimated from the drawn items.

    A row's own item counts in full; drawn items that it excludes, or that are its own, do not
    count. The exact log-probability if all items are drawn.
    """
    eta, n = choice.eta, len(drawn.item)
    needed = torch.cat([drawn.item, item])
    vectors = rows_of(eta.vectors, needed)
    bias = vectors.new_zeros(len(needed)) if eta.bias is None else rows_of(eta.bias, needed)
    own = (eta.state * vectors[n:]).sum(-1) + bias[n:]
    if eta.offset is not None:
        own = own + eta.offset.own(item)
    if choice.penalty is not None and choice.again is not None:
        own = own - choice.penalty * choice.again
    excluded = [listed.among(drawn.item) for listed in (OnePerRow(item), *choice.excluded)]
    offset = None if eta.offset is None else eta.offset.among(drawn.item)
    weighted = bias[:n] + drawn.log_weight.to(bias.dtype)
    others = ItemChoice(
        LinearEta(eta.state, vectors[:n], weighted, n, offset),
        excluded=tuple(excluded),
        penalized=tuple(listed.among(drawn.item) for listed in choice.penalized),
        penalty=choice.penalty,
    )
    return own - torch.logaddexp(own, log_normalizer(others))
