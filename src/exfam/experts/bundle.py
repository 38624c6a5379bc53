"""The weights of linear attention networks, as the theorems speak of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError, check_positive


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention layer with a residual, then W' with a residual; no norm, ReLU or dropout.

    x_i becomes (I + W')(x_i + sum_j A_ij U x_j + W_O b_V + b_O) + b', U the heads' products of
    `out` and `value`. A bias of the keys would cancel in the softmax. `scale` > 0 multiplies the
    scores. Raises ExfamError for shapes that do not fit, mixed dtypes or another `scale`.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 2.1.

    >>> import torch
    >>> maps, biases, square = torch.ones(1, 2, 3), torch.zeros(1, 2), torch.eye(3)
    >>> AttentionLayer(
    ...     maps, maps, maps, biases, biases, maps.mT, torch.zeros(3), square, torch.zeros(3), 1.0
    ... ).n_heads
    1
    """

    query: Float[Tensor, "heads head embed"]
    key: Float[Tensor, "heads head embed"]
    value: Float[Tensor, "heads head embed"]
    query_bias: Float[Tensor, "heads head"]
    value_bias: Float[Tensor, "heads head"]
    out: Float[Tensor, "heads embed head"]
    out_bias: Float[Tensor, "embed"]
    hidden: Float[Tensor, "embed embed"]
    hidden_bias: Float[Tensor, "embed"]
    scale: float

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        parts = {name: getattr(self, name) for name in _LAYER}
        _check_shapes(parts, _LAYER)

    @property
    def n_heads(self) -> int:
        """How many heads there are."""
        return self.query.shape[0]


@dataclass(frozen=True, eq=False)
class LinearAttentionStack:
    """Linear attention layers between embeddings and outputs.

    `tokens` holds c_w of every token (of all columns, one after another, where each has its own),
    `mask` is c_MASK and `positions` p_j. `readout` is W'' of each position that may be masked (the
    same repeated where positions share it). Raises ExfamError for shapes that do not fit, mixed
    dtypes or no layer.

    >>> import torch
    >>> maps, biases, square = torch.ones(1, 2, 3), torch.zeros(1, 2), torch.eye(3)
    >>> layer = AttentionLayer(
    ...     maps, maps, maps, biases, biases, maps.mT, torch.zeros(3), square, torch.zeros(3), 1.0
    ... )
    >>> readout = torch.ones(4, 5, 3)
    >>> LinearAttentionStack(
    ...     readout[0], readout[0, 0], readout[:, 0], (layer, layer), readout, torch.zeros(4, 5)
    ... ).n_positions
    4
    """

    tokens: Float[Tensor, "tokens embed"]
    mask: Float[Tensor, "embed"]
    positions: Float[Tensor, "positions embed"]
    layers: tuple[AttentionLayer, ...]
    readout: Float[Tensor, "positions params embed"]
    readout_bias: Float[Tensor, "positions params"]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ExfamError("`layers` must hold at least one layer, got none.")
        parts = {name: getattr(self, name) for name in _ENDS}
        _check_shapes(parts, _ENDS)
        for layer in self.layers:
            inner = {"tokens": self.tokens, "hidden": layer.hidden}
            _check_shapes(inner, {"tokens": "tokens embed", "hidden": "embed embed"})

    @property
    def n_positions(self) -> int:
        """How many positions a sentence has."""
        return self.positions.shape[0]


@dataclass(frozen=True, eq=False)
class LinearAttention:
    """The network of theorem 2: one linear attention layer between embeddings and outputs.

    Its fields are those of `AttentionLayer` and `LinearAttentionStack`, side by side, all of one
    dtype. Raises ExfamError for shapes that do not fit, mixed dtypes or `scale` not above 0.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 2.1.

    >>> import torch
    >>> maps, biases, c = torch.ones(1, 2, 3), torch.zeros(1, 2), torch.ones(5, 3)
    >>> LinearAttention(
    ...     tokens=c, mask=c[0], positions=c[:4], query=maps, key=maps, value=maps,
    ...     query_bias=biases, value_bias=biases, out=maps.mT, out_bias=torch.zeros(3),
    ...     hidden=torch.eye(3), hidden_bias=torch.zeros(3), readout=c.expand(4, 5, 3),
    ...     readout_bias=torch.zeros(4, 5), scale=0.5,
    ... ).stack.n_positions
    4
    """

    tokens: Float[Tensor, "tokens embed"]
    mask: Float[Tensor, "embed"]
    positions: Float[Tensor, "positions embed"]
    query: Float[Tensor, "heads head embed"]
    key: Float[Tensor, "heads head embed"]
    value: Float[Tensor, "heads head embed"]
    query_bias: Float[Tensor, "heads head"]
    value_bias: Float[Tensor, "heads head"]
    out: Float[Tensor, "heads embed head"]
    out_bias: Float[Tensor, "embed"]
    hidden: Float[Tensor, "embed embed"]
    hidden_bias: Float[Tensor, "embed"]
    readout: Float[Tensor, "positions params embed"]
    readout_bias: Float[Tensor, "positions params"]
    scale: float

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        shapes = _LAYER | _ENDS
        _check_shapes({name: getattr(self, name) for name in shapes}, shapes)

    @property
    def n_heads(self) -> int:
        """How many heads there are."""
        return self.query.shape[0]

    @property
    def n_positions(self) -> int:
        """How many positions a sentence has."""
        return self.positions.shape[0]

    @property
    def stack(self) -> LinearAttentionStack:
        """The same network, as a stack of one layer."""
        layer = AttentionLayer(**{name: getattr(self, name) for name in _LAYER}, scale=self.scale)
        ends = {name: getattr(self, name) for name in _ENDS}
        return LinearAttentionStack(layers=(layer,), **ends)


_LAYER = {
    "query": "heads head embed",
    "key": "heads head embed",
    "value": "heads head embed",
    "query_bias": "heads head",
    "value_bias": "heads head",
    "out": "heads embed head",
    "out_bias": "embed",
    "hidden": "embed embed",
    "hidden_bias": "embed",
}
_ENDS = {
    "tokens": "tokens embed",
    "mask": "embed",
    "positions": "positions embed",
    "readout": "positions params embed",
    "readout_bias": "positions params",
}


def _check_shapes(parts: Mapping[str, Tensor], shapes: Mapping[str, str]) -> None:
    sizes: dict[str, int] = {}
    dtype = next(iter(parts.values())).dtype
    for name, shape in shapes.items():
        part, dims = parts[name], shape.split()
        got = tuple(part.shape)
        fits = len(dims) == len(got) and all(
            sizes.setdefault(dim, size) == size for dim, size in zip(dims, got, strict=False)
        )
        if not fits:
            known = ", ".join(f"{dim} {sizes[dim]}" for dim in dims if dim in sizes)
            raise ExfamError(
                f"`{name}` must have shape ({', '.join(dims)}), got {got} where sizes are {known}."
            )
        if part.dtype != dtype:
            raise ExfamError(
                f"`{name}` must have the dtype of all other weights, {dtype}, got {part.dtype}."
            )
