"""Parts of a field's network: tokens, whom an element attends to, and the linear read-out.

The read-out is a weighted mean of raw anomalies, as kriging is one.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.attention import Softmax
from exfam.checks import check_fraction, check_positive
from exfam.embeddings import Field
from exfam.encodings import Encoding, KeyPosition, QueryPosition, pair_scores
from exfam.geometry import check_metric, nearest
from exfam.groups import Batch
from exfam.layers import RandomPart, linear, table

ByHead = Float[Tensor, "batch heads length head"]


class StepsBack(Field):
    """A learned vector for each number of steps back: lambda_d of the paper's appendix H.4."""

    def __init__(self, lags: int, *, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dim = dim
        self.table = table(lags + 1, dim, scale=0.1, generator=generator)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        return self.table(batch.steps_back)


class Hiding(RandomPart):
    """In training, hides values of some maps, so that any subset of sites can be the context.

    A map stays as it is with probability 1 - `share`. Of the others, the number of values shown is
    drawn evenly on a logarithmic scale, from all of them down to less than one.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        check_fraction("share", share)
        self.share = share

    def forward(self, batch: Batch) -> Bool[Tensor, "batch length"]:
        """Which elements are shown to the others."""
        shown = batch.observed & batch.present
        if not self.training or not self.share:
            return shown
        n_maps = int(batch.steps_back.max()) + 1
        uniform = partial(torch.rand, generator=self.generator, device=shown.device)
        which, size = uniform(2, len(shown), n_maps)
        least = 0.5 / max(2, shown.shape[1] // n_maps)
        kept = torch.where(which < self.share, least**size, 1.0)
        return shown & (uniform(shown.shape) < kept.gather(1, batch.steps_back))


class OwnElements(NamedTuple):
    """Which columns of a batch hold own elements; `valid` is False where a group has fewer."""

    column: Int64[Tensor, "batch own"]
    valid: Bool[Tensor, "batch own"]


def own_elements(batch: Batch) -> OwnElements:
    """The own elements of each group, in order."""
    is_own = batch.present & (batch.steps_back == 0)
    count = is_own.sum(1)
    nth = torch.arange(max(1, int(count.max())), device=count.device)
    first = torch.argsort((~is_own).int(), dim=1, stable=True)
    return OwnElements(first[:, : len(nth)], nth < count[:, None])


class Keys(NamedTuple):
    """What own elements may attend to, and how tensors of all elements are laid out for that.

    `column`: of each own element's keys, each element being a row of its own; None if all elements
    of the group are keys in order
    """

    own: OwnElements
    column: Int64[Tensor, "batch own key"] | None
    may_attend: Bool[Tensor, "batch own key"]

    @property
    def allowed(self) -> Bool[Tensor, "rows query key"]:
        return self.may_attend if self.column is None else self.may_attend.flatten(0, 1)[:, None]

    def at_own(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "rows query dim"]:
        own = x.take_along_dim(self.own.column[..., None], 1)
        return own if self.column is None else own.flatten(0, 1)[:, None]

    def at_keys(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "rows key dim"]:
        if self.column is None:
            return x
        first = x.shape[1] * torch.arange(len(x), device=x.device)
        flat = (self.column + first[:, None, None]).flatten()
        return x.flatten(0, 1).index_select(0, flat).unflatten(0, (-1, self.column.shape[2]))

    def part(self, cut: slice) -> "Keys":
        """Of some of the own elements."""
        own = OwnElements(self.own.column[:, cut], self.own.valid[:, cut])
        column = None if self.column is None else self.column[:, cut]
        return Keys(own, column, self.may_attend[:, cut])

    def back(self, x: Float[Tensor, "rows query *rest"]) -> Float[Tensor, "batch own *rest"]:
        return x if self.column is None else x[:, 0].unflatten(0, self.own.column.shape)


@dataclass(frozen=True)
class Neighborhood:
    """Every element attends to the `k` nearest others that are shown on each map, or to all."""

    k: int | None
    metric: str

    def __post_init__(self) -> None:
        if self.k is not None:
            check_positive("k", self.k)
        check_metric(self.metric)

    def keys(self, batch: Batch, shown: Bool[Tensor, "batch length"], own: OwnElements) -> Keys:
        """Keys of every own element: `k` of its own map, then `k` of each earlier map, or all."""
        if self.k is None:
            other = torch.arange(shown.shape[1], device=shown.device) != own.column[..., None]
            return Keys(own, None, shown[:, None, :] & other)
        n_maps = int(batch.steps_back.max()) + 1
        k = min(self.k, shown.shape[1])
        index = np.zeros((*own.column.shape, n_maps * (k + 1)), dtype=np.int64)
        is_key = np.zeros(index.shape, dtype=bool)
        columns = (batch.attributes["coordinates"], shown, batch.steps_back, *own)
        arrays = [column.cpu().numpy() for column in columns]
        rows: dict[bytes, int] = {}
        for row, parts in enumerate(zip(*arrays, strict=True)):
            # Maps that show the same sites have the same neighbors.
            first = rows.setdefault(b"".join(part.tobytes() for part in parts), row)
            if first == row:
                self._search(parts, index[row], is_key[row], k=k)
            else:
                index[row], is_key[row] = index[first], is_key[first]
        device = shown.device
        return Keys(own, torch.from_numpy(index).to(device), torch.from_numpy(is_key).to(device))

    def _search(
        self, parts: tuple[np.ndarray, ...], index: np.ndarray, is_key: np.ndarray, *, k: int
    ) -> None:
        """The neighbors of one group, written into `index`, and into `is_key` which are some."""
        places, seen, steps_back, own, valid = parts
        queries = own[valid]
        for back in range(index.shape[1] // (k + 1)):
            among = np.flatnonzero(seen & (steps_back == back))
            if not len(among) or not len(queries):
                continue
            near, _ = nearest(places[queries], places[among], k=k + 1, metric=self.metric)
            chosen = among[near]
            keep = chosen != queries[:, None]
            # Without itself among the k + 1, the farthest goes.
            keep &= keep.cumsum(1) <= k
            columns = slice(back * (k + 1), back * (k + 1) + near.shape[1])
            index[: len(queries), columns] = chosen
            is_key[: len(queries), columns] = keep


Scores = Float[Tensor, "#rows heads query columns"]
Allowed = Bool[Tensor, "rows query key"]
# Sums of exponentials below this have lost digits.
SMALLEST = 1e-25


class ReadOut(nn.Module):
    """sum over heads of gain_h * sum_j w_ij z_j; weights know places, not values.

    A linear predictor for each set of observed sites. `null_key` takes the weight that no site
    deserves: far from all of them, the read-out is 0.
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        n_heads: int,
        head_dim: int,
        encoding: Encoding,
        generator: torch.Generator,
        null_key: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.encoding, self.null_key = encoding, null_key
        self.kernel = Softmax()
        self.query = linear(embed_dim, n_heads * head_dim, generator=generator)
        self.key = linear(embed_dim, n_heads * head_dim, generator=generator)
        # A quarter of the heads start by taking away: what was so yesterday, say.
        sign = torch.where(torch.arange(n_heads) % 4 == 3, -1.0, 1.0)
        self.gain = nn.Parameter(sign / sign.sum())

    def scores(
        self,
        query: Float[Tensor, "rows query width"],
        key: Float[Tensor, "rows key width"],
        positions: tuple[QueryPosition, KeyPosition],
    ) -> Float[Tensor, "rows heads query columns"]:
        """Scores of each head, those of the null token last if there is one."""
        q, k = (
            x.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2) for x in (query, key)
        )
        q, k = (self.encoding.rotate(x, at) for x, at in zip((q, k), positions, strict=True))
        scores = pair_scores(self.encoding, q, k, positions, scale=self.head_dim**-0.5)
        if self.null_key is None:
            return scores
        return torch.cat([scores, (q @ self.null_key.mT) * self.head_dim**-0.5], -1)

    def weights(self, scores: Scores, allowed: Allowed) -> Float[Tensor, "rows heads query key"]:
        """Weights of each head; with a null token they may sum to less than 1."""
        may_attend = allowed[:, None]
        if self.null_key is not None:
            may_attend = nn.functional.pad(may_attend, (0, 1), value=True)
        weights = self.kernel.weights(scores.expand(len(allowed), -1, -1, -1), may_attend)
        return weights[..., : allowed.shape[-1]]

    def forward(
        self, scores: Scores, allowed: Allowed, anomaly: Float[Tensor, "rows key"]
    ) -> Float[Tensor, "rows query"]:
        """The weighted means of the anomalies, each head's times its gain.

        Rows that share their scores share the exponentials: means are then two matrix products.
        """
        means = None
        if len(scores) == 1 < len(allowed):
            means = self._shared_means(scores[0], allowed, anomaly)
        if means is None:
            means = (self.weights(scores, allowed) @ anomaly[:, None, :, None])[..., 0]
        return (means * self.gain[:, None]).sum(1)

    def _shared_means(
        self,
        scores: Float[Tensor, "heads query columns"],
        allowed: Allowed,
        anomaly: Float[Tensor, "rows key"],
    ) -> Float[Tensor, "rows heads query"] | None:
        """The means, or None where exponentials of what a row may see are too small to add up."""
        # A row shows a key to all of its queries or to none, but never to the element itself.
        shown = allowed.any(1)
        others = allowed.any(0)
        odds = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        key, null = odds[..., : allowed.shape[-1]] * others, odds[..., allowed.shape[-1] :]
        weight = shown.to(key.dtype)
        both = torch.stack([weight * anomaly, weight]).flatten(0, 1)
        total, weights = (key @ both.T).unflatten(-1, (2, -1)).permute(2, 3, 0, 1)
        weights = weights + null.sum(-1)
        return None if bool((weights < SMALLEST).any()) else total / weights
