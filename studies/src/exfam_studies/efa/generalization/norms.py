"""The class of theorem 2 as numbers: which models are of it, their norm and the rate.

Source: "Exponential Family Attention", section 5.2.2 and appendix D.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import Attention, FeedForward, ReluMean
from exfam.checks import ExfamError, check_positive
from exfam_studies.efa.clipped_attention import ClippedFieldNetwork, ClippedLayer, PlaceMap


@dataclass(frozen=True)
class ModelClass:
    """The set Theta of the theorem, as numbers; the letters are the paper's.

    `n_layers`: L; `n_heads`: M, the most of a layer; `embed_dim`: D = K + 1
    `feed_forward_dim`: D', the most of a layer; `place_hidden_dim`: K'; `n_dims`: tau
    `norm_bound`: B; `token_bound`: R; `value_bound`: B_y

    >>> of = ModelClass(n_layers=1, n_heads=2, embed_dim=3, feed_forward_dim=2, place_hidden_dim=4,
    ...     n_dims=2, norm_bound=15.0, token_bound=50.0, value_bound=8.0)
    >>> of.n_numbers, round(of.iota, 3)
    (82, 3.951)
    """

    n_layers: int
    n_heads: int
    embed_dim: int
    feed_forward_dim: int
    place_hidden_dim: int
    n_dims: int
    norm_bound: float
    token_bound: float
    value_bound: float

    @property
    def n_numbers(self) -> int:
        """L (3 M D^2 + 2 D D') + K' (K + tau): how many numbers a model of the class has."""
        layer = 3 * self.n_heads * self.embed_dim**2 + 2 * self.embed_dim * self.feed_forward_dim
        return self.n_layers * layer + self.place_hidden_dim * (self.embed_dim - 1 + self.n_dims)

    @property
    def iota(self) -> float:
        """log(2 + max(B, R, 1 / (2 B_y)))."""
        return math.log(2 + max(self.norm_bound, self.token_bound, 0.5 / self.value_bound))

    @property
    def log_covering(self) -> float:
        """log(4 + 4 (L + 1) B_H^L B_Theta B / B_y), for which the theorem has 43 L iota.

        B_H = (1 + B^2)(1 + B^2 R^3), B_Theta = B R (1 + B R^2 + B^3 R^2). Source: appendix D.
        """
        b, r, n = self.norm_bound, self.token_bound, self.n_layers
        of_layer = math.log1p(b**2) + math.log1p(b**2 * r**3)
        of_norm = math.log(b * r) + math.log1p(b * r**2 + b**3 * r**2)
        rest = math.log(4 * (n + 1) * b / self.value_bound) + n * of_layer + of_norm
        return float(np.logaddexp(math.log(4), rest))


def model_class(model: object, *, norm_bound: float | None = None) -> ModelClass:
    """The class that a model is of, with its own norm as B unless a larger bound is given.

    `model`: a `ClippedFieldNetwork`, or a model or estimator that has one as its part

    Raises ExfamError for any other model, naming what sets it apart, and for a bound below the
    model's norm.

    >>> from exfam_studies.efa.clipped_attention import ClippedFieldSizes, build_clipped_field
    >>> model = build_clipped_field(
    ...     ClippedFieldSizes(), column="t", generator=torch.Generator().manual_seed(0))
    >>> model_class(model, norm_bound=30.0).n_numbers
    168
    >>> model_class(torch.nn.LayerNorm(3))
    Traceback (most recent call last):
    exfam.checks.ExfamError: `model` must be of the class of theorem 2, a ClippedFieldNetwork, ...
    """
    found = theorem_network(model)
    with torch.no_grad():
        norm = float(parameter_norm(found))
    bound = norm if norm_bound is None else float(norm_bound)
    if bound < norm:
        raise ExfamError(
            f"`norm_bound` must be at least the model's own norm {norm:.4g}, got {bound:.4g}."
        )
    layers = found.layers
    return ModelClass(
        n_layers=len(layers),
        n_heads=max(len(layer.query) for layer in layers),
        embed_dim=layers[0].query.shape[-1],
        feed_forward_dim=max(len(layer.first) for layer in layers),
        place_hidden_dim=len(found.place.first),
        n_dims=found.place.first.shape[1],
        norm_bound=bound,
        token_bound=found.token_bound,
        value_bound=found.value_bound,
    )


def parameter_norm(model: object) -> Float[Tensor, ""]:
    """|||theta|||, a tensor with a gradient: the largest layer's norms plus those of G1 and G2.

    max over layers of {max over heads of |Q|, |K| + sum over heads of |V| + |W1| + |W2|}
    + |G1| + |G2|, all operator norms. Raises ExfamError for a model of another class.
    Source: section 5.2.2.

    >>> from exfam_studies.efa.clipped_attention import ClippedFieldSizes, known_clipped_field
    >>> sizes = ClippedFieldSizes(place_dim=2)
    >>> model = known_clipped_field(sizes, attraction=1.2, repulsion=0.5, column="t")
    >>> parameter_norm(model).round(decimals=3).item()  # 1 + 1.7 + 2 sqrt(2)
    5.528
    """
    found = theorem_network(model)
    place = _operator_norm(found.place.first) + _operator_norm(found.place.second)
    return torch.stack([_layer_norm(layer) for layer in found.layers]).max() + place


def rate_term(of: ModelClass, n_groups: int, *, chance: float = 0.05) -> float:
    """The theorem's rate at F groups, in squared units of the value, up to a constant unknown.

    `chance`: xi, the probability with which the theorem may be wrong (default 0.05)

    Raises ExfamError unless `n_groups` is above 0 and `chance` in (0, 1].

    >>> of = ModelClass(n_layers=1, n_heads=2, embed_dim=3, feed_forward_dim=2, place_hidden_dim=4,
    ...     n_dims=2, norm_bound=15.0, token_bound=50.0, value_bound=8.0)
    >>> rate_term(of, 400) / rate_term(of, 100)
    0.5
    """
    check_positive("n_groups", n_groups)
    check_positive("chance", chance)
    if chance > 1:
        raise ExfamError(f"`chance` must be a number in (0, 1], got {chance!r}.")
    inside = 43 * of.n_layers * of.n_numbers * of.iota + math.log(1 / chance)
    return of.value_bound**2 * math.sqrt(inside / n_groups)


def theorem_network(model: object) -> ClippedFieldNetwork:
    """The network of theorem 2 in a model or estimator that has one.

    Raises ExfamError for any other model, with the reasons.

    >>> from exfam_studies.efa.clipped_attention import ClippedFieldSizes, build_clipped_field
    >>> model = build_clipped_field(
    ...     ClippedFieldSizes(), column="t", generator=torch.Generator().manual_seed(0))
    >>> theorem_network(model) is model
    True
    """
    # Estimators live on a higher floor: they are known by what fitting gives them.
    found: Any = getattr(model, "model_", model)
    found = next(iter(getattr(found, "members_", [found])))
    found = getattr(found, "value_part", None) or found
    reasons = list(_other_class(found))
    if reasons:
        raise ExfamError(
            "`model` must be of the class of theorem 2, a ClippedFieldNetwork, got "
            f"{type(found).__name__} with {'; '.join(reasons)}. The theorem says nothing of it."
        )
    assert isinstance(found, ClippedFieldNetwork)
    return found


def _other_class(found: object) -> Iterator[str]:
    """What sets a model apart from the class, in words; nothing if it is of the class."""
    parts = list(found.modules()) if isinstance(found, nn.Module) else []
    kernels = {type(part.kernel) for part in parts if isinstance(part, Attention)} - {ReluMean}
    yield from (f"{kernel.__name__.lower()} attention, not ReLU / n" for kernel in kernels)
    if any(isinstance(part, nn.LayerNorm) for part in parts):
        yield "layer norm"
    if any(isinstance(part, FeedForward) for part in parts):
        yield "feed-forward layers with GELU"
    if any(isinstance(part, nn.Linear) and part.bias is not None for part in parts):
        yield "biases"
    if not isinstance(found, ClippedFieldNetwork):
        yield "tokens and predictions that are not clipped"
        return
    own = [found, found.place, *found.layers]
    kinds = (ClippedFieldNetwork, PlaceMap, *[ClippedLayer] * len(found.layers))
    wrong = {
        type(part).__name__ for part, kind in zip(own, kinds, strict=True) if type(part) is not kind
    }
    yield from (f"a part of type {name}" for name in sorted(wrong))


def _layer_norm(layer: ClippedLayer) -> Float[Tensor, ""]:
    asks = torch.maximum(_operator_norm(layer.query).max(), _operator_norm(layer.key).max())
    feed_forward = _operator_norm(layer.first) + _operator_norm(layer.second)
    return asks + _operator_norm(layer.value).sum() + feed_forward


def _operator_norm(matrix: Float[Tensor, "*heads rows columns"]) -> Float[Tensor, "*heads"]:
    if not matrix.numel():
        return matrix.new_zeros(matrix.shape[:-2])
    return torch.linalg.matrix_norm(matrix, ord=2)
