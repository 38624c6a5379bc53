"""The field model that theorem 2 of "Exponential Family Attention" is about, and none other.

Tokens are [g(tau); y] with g(tau) = G2 ReLU(G1 tau), y = 0 at the center. A layer is ReLU attention
divided by the number of tokens, then two matrices with ReLU between them, both with residuals:

    h_i <- h_i + sum_m 1/N sum_j ReLU(<Q_m h_i, K_m h_j>) V_m h_j
    h_i <- h_i + W2 ReLU(W1 h_i)

There are no biases and no layer norm. tau, the first tokens and those after each layer are
projected to a ball of radius R, the prediction, which is the center's last coordinate, is cut at
B_y on both sides.
Source: section 5.2 of the paper, with the transformer of Bai et al. (2023), definitions 1 to 3.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.attention import ReluMean
from exfam.checks import ExfamError
from exfam.groups import Batch, Groups
from exfam.layers import normal

Tokens = Float[Tensor, "batch centers tokens embed"]
Queries = Float[Tensor, "batch centers queries embed"]
_KERNEL = ReluMean()
# Rounds of drawing anew what is beyond the bound.
_ROUNDS = 1000


@dataclass(frozen=True)
class ClippedFieldSizes:
    """Sizes of the class of theorem 2, with its letters; the length of tokens is D = K + 1.

    `n_dims`: tau, of a site's coordinates; `place_dim`: K, of g; `place_hidden_dim`: K'
    `n_layers`: L; `n_heads`: M; `feed_forward_dim`: D'; `token_bound`: R; `value_bound`: B_y
    """

    n_dims: int = 2
    place_dim: int = 3
    place_hidden_dim: int = 8
    n_layers: int = 1
    n_heads: int = 2
    feed_forward_dim: int = 4
    token_bound: float = 100.0
    value_bound: float = 10.0


class PlaceMap(nn.Module):
    """g(tau) = G2 ReLU(G1 tau), without biases."""

    def __init__(self, sizes: ClippedFieldSizes, *, generator: torch.Generator) -> None:
        super().__init__()
        self.first = _matrix(sizes.place_hidden_dim, sizes.n_dims, generator=generator)
        self.second = _matrix(sizes.place_dim, sizes.place_hidden_dim, generator=generator)

    def forward(self, tau: Float[Tensor, "*rows dims"]) -> Float[Tensor, "*rows place"]:
        """The vectors of sites."""
        return (tau @ self.first.mT).relu() @ self.second.mT


class ClippedLayer(nn.Module):
    """ReLU attention / n and a feed-forward part, each with a residual; no biases, no norms."""

    def __init__(self, sizes: ClippedFieldSizes, *, generator: torch.Generator) -> None:
        super().__init__()
        dim, hidden = sizes.place_dim + 1, sizes.feed_forward_dim
        maps = [_matrix(sizes.n_heads, dim, dim, generator=generator) for _ in range(3)]
        self.query, self.key, self.value = maps
        self.first = _matrix(hidden, dim, generator=generator)
        self.second = _matrix(dim, hidden, generator=generator)

    def forward(
        self, queries: Queries, tokens: Tokens, seen: Bool[Tensor, "batch centers tokens"]
    ) -> Queries:
        """The queries' tokens, after they attended to those `tokens` that are `seen`."""
        query = torch.einsum("bcqd,hed->bchqe", queries, self.query)
        key = torch.einsum("bctd,hed->bchte", tokens, self.key)
        weights = _KERNEL.weights(query @ key.mT, seen[:, :, None, None])
        pooled = torch.einsum("bchqt,bctd->bchqd", weights, tokens)
        attended = queries + torch.einsum("bchqd,hed->bcqe", pooled, self.value)
        return attended + (attended @ self.first.mT).relu() @ self.second.mT


class ClippedFieldNetwork(nn.Module):
    """Mean of each value given all others of its map: sites, layers and both bounds.

    eta is the mean, for `Gaussian(scale=...)`. Elements without a value are no context, and those
    of earlier maps neither. The coordinates are used as they are: a site at the origin has g = 0.
    """

    direction = "bidirectional"

    def __init__(
        self, sizes: ClippedFieldSizes, *, column: str, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.place, self.column = PlaceMap(sizes, generator=generator), column
        layers = [ClippedLayer(sizes, generator=generator) for _ in range(sizes.n_layers)]
        self.layers: Any = nn.ModuleList(layers)  # whose items have no better type
        self.sizes = sizes

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 1"]:
        """clip_By(read_y(TF^R(Exp^R(Z_i)))) of each element i."""
        bound = self.sizes.value_bound
        return self.unclipped(batch).clamp(-bound, bound)[..., None]

    def unclipped(self, batch: Batch) -> Float[Tensor, "batch length"]:
        """The same before it is cut at the bound of values."""
        tokens, seen = self._tokens(batch)
        own = torch.arange(tokens.shape[2], device=tokens.device)
        for layer in self.layers[:-1]:
            tokens = self._projected(layer(tokens, tokens, seen))
        # The last layer is needed at the centers alone.
        center = tokens[:, own, own][:, :, None]
        return self._projected(self.layers[-1](center, tokens, seen))[:, :, 0, -1]

    def _tokens(self, batch: Batch) -> tuple[Tokens, Bool[Tensor, "batch centers tokens"]]:
        """One copy of the map for each center, whose value is 0 in it; and what it may attend to.

        N, which divides, counts the center too, as in the paper.
        """
        like = self.place.first
        place = self.place(self._projected(batch.attributes["coordinates"].to(like.dtype)))
        shown = batch.present & batch.observed & (batch.steps_back == 0)
        value = torch.where(shown, batch.values[self.column].to(like.dtype), 0.0)
        center = torch.eye(value.shape[1], dtype=torch.bool, device=like.device)
        values = value[:, None].masked_fill(center, 0.0)
        copies = place[:, None].expand(-1, place.shape[1], -1, -1)
        return self._projected(torch.cat([copies, values[..., None]], -1)), shown[:, None] | center

    def _projected(self, x: Float[Tensor, "*rows embed"]) -> Float[Tensor, "*rows embed"]:
        """clip_R: the nearest point of the ball of radius R."""
        length, bound = torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.sizes.token_bound
        return x * (bound / length.clamp_min(bound))


def known_clipped_field(
    sizes: ClippedFieldSizes, *, attraction: float, repulsion: float, column: str
) -> ClippedFieldNetwork:
    """A network of the class whose conditionals are those of one distribution, which can be drawn.

    E y_i = sum_j C_ij y_j, C_ij = (attraction ReLU(tau_i . tau_j) - repulsion ReLU(-tau_i . tau_j))
    / N: sites in like directions pull towards each other, those in opposite ones apart. C is
    symmetric, and for sites of length 1 its eigenvalues are below 1 while both numbers are below
    N / (N - 1): then there is a Gaussian vector of these means and one variance. G1 = (1; -1) and
    G2 = (1, -1) make g(tau) = tau; all matrices that are not needed are 0. In double precision.
    """
    n = sizes.n_dims
    model = ClippedFieldNetwork(sizes, column=column, generator=torch.Generator()).double()
    eye, first = torch.eye(n, dtype=torch.float64), model.layers[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.place.first[: 2 * n] = torch.cat([eye, -eye])
        model.place.second[:n, : 2 * n] = torch.cat([eye, -eye], dim=1)
        first.query[:2, :n, :n] = eye
        first.key[:2, :n, :n] = torch.stack([eye, -eye])
        first.value[:2, -1, -1] = torch.tensor([attraction, -repulsion], dtype=torch.float64)
    return model


@torch.no_grad()
def pulls(model: ClippedFieldNetwork, batch: Batch) -> Float[Tensor, "batch center other"]:
    """What a value of 1 elsewhere, all others being 0, makes of each element's mean.

    Of a network that is linear in the values, as `known_clipped_field` is, the matrices C.
    """
    value = batch.values[model.column]
    single = torch.eye(value.shape[1], dtype=value.dtype)
    means = [
        model.unclipped(replace(batch, values={model.column: row.expand_as(value)}))
        for row in single
    ]
    return torch.stack(means, -1)


def random_maps(n_maps: int, n_sites: int, *, n_dims: int = 2, seed: int) -> Groups:
    """Maps of sites at coordinates drawn anew for each, all of length 1; all values are 0."""
    drawn = np.random.default_rng(seed).standard_normal((n_maps * n_sites, n_dims))
    start = n_sites * np.arange(n_maps)
    return Groups(
        start=start,
        stop=start + n_sites,
        values={"value": np.zeros(len(drawn))},
        attributes={"coordinates": drawn / np.linalg.norm(drawn, axis=1, keepdims=True)},
    )


def draw_auto_normal(
    pull: Float[np.ndarray, "maps sites sites"], *, bound: float, seed: int
) -> Float[np.ndarray, "maps sites"]:
    """One draw of an auto-normal field for each map; `pull` holds its matrix C.

    Given all others, y_i is normal with mean sum_j C_ij y_j and variance 1, cut off at `bound` on
    both sides. With C symmetric, 0 on its diagonal and its eigenvalues below 1, these are the
    conditionals of one distribution, N(0, (1 - C)^-1) where no |y_i| is above the bound, which is
    drawn exactly. Source: Besag (1974), Spatial interaction and the statistical analysis of lattice
    systems.

    Raises ExfamError for matrices of which no distribution has the conditionals, and for a bound
    that next to no draw keeps.
    """
    apart = float(np.abs(pull - pull.transpose(0, 2, 1)).max(initial=0.0))
    own = float(np.abs(np.einsum("gii->gi", pull)).max(initial=0.0))
    largest = float(np.linalg.eigvalsh(pull).max(initial=0.0))
    if apart > 1e-9 or own > 0 or not largest < 1:
        raise ExfamError(
            "`pull` must be symmetric with 0 on the diagonal and eigenvalues below 1, or no "
            f"distribution has these conditionals; got {apart:.2g} of asymmetry, {own:.2g} on the "
            f"diagonal and an eigenvalue of {largest:.3g}."
        )
    random = np.random.default_rng(seed)
    # With L L' = 1 - C, L'^-1 z has the covariance (1 - C)^-1.
    factor = np.linalg.cholesky(np.eye(pull.shape[1]) - pull)
    values, left = np.zeros(pull.shape[:2]), np.arange(len(pull))
    for _ in range(_ROUNDS):
        drawn = random.standard_normal((len(left), pull.shape[1], 1))
        values[left] = np.linalg.solve(factor[left].transpose(0, 2, 1), drawn)[..., 0]
        left = left[(np.abs(values[left]) > bound).any(axis=1)]
        if not len(left):
            return values
    raise ExfamError(
        f"`bound` must leave room for the values, got {bound:g}: of {len(pull)} maps, {len(left)} "
        f"had none within it in {_ROUNDS} draws."
    )


def _matrix(*shape: int, generator: torch.Generator) -> nn.Parameter:
    """Normal entries, so that outputs are as large as inputs, about."""
    return nn.Parameter(normal(*shape, scale=1 / math.sqrt(shape[-1]), generator=generator))
