"""A linear read-out beside attention: a weighted mean of raw anomalies, as kriging is one."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.attention import Softmax
from exfam.encodings import Encoding, KeyPosition, QueryPosition, pair_scores
from exfam.layers import linear

Scores = Float[Tensor, "#rows heads query columns"]
Allowed = Bool[Tensor, "rows query key"]
# Sums of exponentials below this have lost digits.
SMALLEST = 1e-25


class ReadOut(nn.Module):
    """sum over heads of gain_h * sum_j w_ij z_j; weights know places, not values.

    With anomalies z fixed weights make it a linear predictor for each set of observed sites, which
    attention over embedded values need not learn anew. `null_key` takes the weight that no site
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
        """Scores of each head, those of the null token last if there is one.

        Queries and keys are those of all heads side by side.
        """
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

        Rows that share their scores (maps of the same sites) share the exponentials as well: means
        are then two matrix products, instead of a softmax for each of the rows.
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
