"""The most probable items and the ranks of given ones, tile by tile, of one model or several.

Several models are an ensemble: the mean of their probabilities counts, or where `shares` of 1 are
given the one so weighed. Nothing here has gradients.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.listed import OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_normalizer, tile_log_normalizer, tiles


class BestItems(NamedTuple):
    """Items of each row, the most probable first, with their log-probabilities."""

    item: Int64[Tensor, "rows k"]
    log_prob: Float[Tensor, "rows k"]


def best_items(
    choices: Sequence[ItemChoice], *, k: int, shares: Sequence[float] | None = None
) -> BestItems:
    """The `k` most probable items of each row; equals in order of their codes."""
    eta = choices[0].eta
    n_rows, n_items, device = len(eta.state), eta.n_items, eta.state.device
    least = torch.full((n_rows,), -torch.inf, device=device)
    best = _keys(least, torch.zeros_like(least, dtype=torch.int64))[:, None].repeat(1, k)
    total = torch.full((n_rows,), -torch.inf, dtype=torch.float64, device=device)
    for rows, classes, scores in _scores(choices, shares):
        better = (scores.amax(1) > least[rows]).nonzero()[:, 0]
        if len(better):
            here = rows.start + better
            few = _best_keys(scores[better].float(), n_items - 1 - classes.start, k)
            best[here] = torch.cat([best[here], few], 1).topk(k).values
            least[here] = _score_of(best[here, -1])
        total[rows] = torch.logaddexp(total[rows], tile_log_normalizer(scores)[0])
    item = n_items - 1 - (best & 0xFFFFFFFF)
    return BestItems(item, (_score_of(best) - total[:, None]).to(eta.state.dtype))


def item_rank(
    choices: Sequence[ItemChoice],
    item: Int64[Tensor, "rows"],
    *,
    shares: Sequence[float] | None = None,
) -> Float[Tensor, "rows"]:
    """Rank of each row's item among all, 1 the most probable; equals share their mean rank."""
    own_class = OnePerRow(item)
    own = torch.zeros(len(item), dtype=torch.float64, device=item.device)
    for rows, classes, scores in _scores(choices, shares):
        row, column = own_class.within(rows, classes)
        own[rows.start + row] = scores[row, column].to(own.dtype)
    higher, equal = torch.zeros(2, len(item), dtype=torch.int64, device=item.device)
    for rows, classes, scores in _scores(choices, shares):
        row, column = own_class.within(rows, classes)
        here = own[rows].to(scores.dtype)[:, None]
        # An item is its own equal, whatever the second computation rounds it to.
        scores[row, column] = here[row, 0]
        higher[rows] += (scores > here).sum(1)
        equal[rows] += (scores == here).sum(1)
    return (higher + (equal.double() + 1) / 2).masked_fill(own.isnan(), torch.nan)


def all_log_probs(choice: ItemChoice) -> Float[Tensor, "rows items"]:
    """Log-probabilities of all items: for few rows."""
    eta = choice.eta
    scores = eta.state.new_empty(len(eta.state), eta.n_items)
    for tile in tiles(choice):
        scores[tile.rows, tile.classes] = tile.eta.to(scores.dtype)
    return scores.log_softmax(-1)


def _scores(
    choices: Sequence[ItemChoice], shares: Sequence[float] | None
) -> Iterator[tuple[slice, slice, Tensor]]:
    """What orders the items of each row, tile by tile: log-probabilities up to a constant."""
    if len(choices) == 1:
        yield from ((tile.rows, tile.classes, tile.eta) for tile in tiles(choices[0]))
        return
    shares = [1 / len(choices)] * len(choices) if shares is None else shares
    normalizers = [
        log_normalizer(choice).detach() - math.log(share)
        for choice, share in zip(choices, shares, strict=True)
    ]
    for together in zip(*(tiles(choice) for choice in choices), strict=True):
        rows, classes = together[0].rows, together[0].classes
        mean = None
        for tile, normalizer in zip(together, normalizers, strict=True):
            nats = tile.eta.sub_(normalizer[rows].to(tile.eta.dtype)[:, None])
            mean = nats if mean is None else torch.logaddexp(mean, nats, out=mean)
        assert mean is not None
        yield rows, classes, mean


def _best_keys(
    scores: Float[Tensor, "rows classes"], last: int, k: int
) -> Int64[Tensor, "rows best"]:
    """The `k` largest keys of each row, in any order; `last`: what counts back from the first."""
    top, column = scores.topk(min(k + 1, scores.shape[1]))
    keys = _keys(top, last - column)[:, :k]
    if top.shape[1] > k:
        # Of items of equal scores any are among the top, where the first of them have to be.
        for row in (top[:, k - 1] == top[:, k]).nonzero()[:, 0].tolist():
            column = (scores[row] >= top[row, k]).nonzero()[:, 0]
            keys[row] = _keys(scores[row, column], last - column).topk(k).values
    return keys


def _keys(
    scores: Float[Tensor, "*shape"], back: Int64[Tensor, "*shape"]
) -> Int64[Tensor, "*shape"]:
    """Numbers in the order of the scores, equal scores in the order of their codes.

    The upper half are the score's bits, turned so that they order negative ones too; the lower one
    is what counts codes from the last one back.
    """
    bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | back


def _score_of(key: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The score that a key was made of."""
    ordered = (key >> 32).int()
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).view(torch.float32)
