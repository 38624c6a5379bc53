"""A linear read-out beside attention: a weighted mean of raw anomalies, as kriging is one."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.attention import NullToken, ScoreKernel, Softmax
from exfam.encodings import Encoding, KeyPosition, QueryPosition
from exfam.layers import linear

__all__ = ["ReadOut"]

Projected = Float[Tensor, "batch length width"]


class ReadOut(nn.Module):
    """sum over heads of gain_h * sum_j w_ij z_j; weights know places, not values.

    With anomalies z fixed weights make it a linear predictor for each set of observed sites, which
    attention over embedded values need not learn anew. `null` takes the weight that no site
    deserves: far from all of them, the read-out is 0.

    >>> from exfam.encodings import NoEncoding
    >>> g = torch.Generator().manual_seed(0)
    >>> read = ReadOut(8, n_heads=2, head_dim=4, encoding=NoEncoding(), generator=g)
    >>> place, position = torch.ones(1, 3, 8), torch.zeros(1, 3)
    >>> others = ~torch.eye(3, dtype=torch.bool)[None]
    >>> weights = read.weights(
    ...     read.queries(place), read.keys(place), others, (position, position))
    >>> read(weights, torch.ones(1, 3)).round(decimals=4)
    tensor([[1., 1., 1.]], grad_fn=<RoundBackward1>)
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        n_heads: int,
        head_dim: int,
        encoding: Encoding,
        generator: torch.Generator,
        kernel: ScoreKernel | None = None,
        null: NullToken | None = None,
    ) -> None:
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.encoding, self.null = encoding, null
        self.kernel = kernel or Softmax()
        self.query = linear(embed_dim, n_heads * head_dim, generator=generator)
        self.key = linear(embed_dim, n_heads * head_dim, generator=generator)
        self.gain = nn.Parameter(torch.full((n_heads,), 1.0 / n_heads))

    def queries(self, place: Float[Tensor, "batch length embed"]) -> Projected:
        """Queries of all heads side by side."""
        return self.query(place)

    def keys(self, place: Float[Tensor, "batch length embed"]) -> Projected:
        """Keys of all heads side by side."""
        return self.key(place)

    def weights(
        self,
        query: Float[Tensor, "rows query width"],
        key: Float[Tensor, "rows key width"],
        allowed: Bool[Tensor, "rows query key"],
        positions: tuple[QueryPosition, KeyPosition],
    ) -> Float[Tensor, "rows heads query key"]:
        """Weights of each head; with a null token they may sum to less than 1."""
        q, k = (
            x.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2) for x in (query, key)
        )
        scores = (q * self.head_dim**-0.5) @ k.mT
        bias = self.encoding.bias(q, *positions)
        scores = scores if bias is None else scores + bias
        may_attend = allowed[:, None]
        if self.null is not None:
            own = (q @ self.null.key.mT) * self.head_dim**-0.5
            scores = torch.cat([scores, own], -1)
            may_attend = nn.functional.pad(may_attend, (0, 1), value=True)
        return self.kernel.weights(scores, may_attend)[..., : key.shape[1]]

    def forward(
        self,
        weights: Float[Tensor, "rows heads query key"],
        anomaly: Float[Tensor, "rows key"],
    ) -> Float[Tensor, "rows query"]:
        """The weighted means of the anomalies, each head's times its gain."""
        means = (weights @ anomaly[:, None, :, None])[..., 0]
        return (means * self.gain[:, None]).sum(1)
