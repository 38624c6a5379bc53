"""The weights of linear attention networks, as the theorems speak of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
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
        _check_shapes(vars(self), _shapes(AttentionLayer))

    @property
    def n_heads(self) -> int:
        return self.query.shape[0]

    @property
    def added(self) -> Float[Tensor, "embed"]:
        """W_O b_V + b_O, which attention adds whatever its weights are."""
        return self.out_bias + torch.einsum("hed,hd->e", self.out, self.value_bias)


@dataclass(frozen=True, eq=False)
class LinearAttention:
    """Linear attention layers between embeddings and outputs; theorem 2 is about one of them.

    `tokens` holds c_w of every token (of all columns, one after another, where each has its own),
    `mask` is c_MASK and `positions` p_j. `readout` is W'' of each position that may be masked (the
    same repeated where positions share it). Raises ExfamError for shapes that do not fit, mixed
    dtypes or no layer.

    >>> network = random_network(torch.Generator().manual_seed(0), n_layers=2)
    >>> len(network.layers), network.n_positions
    (2, 3)
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
        _check_shapes(vars(self), _shapes(LinearAttention))
        for layer in self.layers:
            inner = {"tokens": self.tokens, "hidden": layer.hidden}
            _check_shapes(inner, {"tokens": "tokens embed", "hidden": "embed embed"})

    @property
    def n_positions(self) -> int:
        return self.positions.shape[0]

    @property
    def layer(self) -> AttentionLayer:
        """The only layer. Raises ExfamError for a network of several."""
        if len(self.layers) > 1:
            raise ExfamError(
                f"`network` must be of one layer, got {len(self.layers)}. See `path_experts`."
            )
        return self.layers[0]


def _shapes(kind: type) -> dict[str, str]:
    """The dimensions that each weight is annotated with."""
    weights = kind.__annotations__.items()
    return {name: weight.dim_str for name, weight in weights if hasattr(weight, "dim_str")}


def _check_shapes(parts: Mapping[str, Tensor], shapes: Mapping[str, str]) -> None:
    sizes: dict[str, int] = {}
    dtype = parts[next(iter(shapes))].dtype
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


def random_network(
    generator: torch.Generator,
    *,
    n_layers: int = 1,
    n_heads: int = 2,
    n_positions: int = 3,
    n_tokens: int = 7,
    embed: int = 6,
) -> LinearAttention:
    """A network with random weights in float64, with heads of 2 and 4 outputs, to try things on."""
    head, params = 2, 4

    def draw(*shape: int) -> Tensor:
        return 0.6 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    sizes, shapes = {"heads": n_heads, "head": head, "embed": embed}, _shapes(AttentionLayer)
    layers = tuple(
        AttentionLayer(
            **{name: draw(*(sizes[dim] for dim in dims.split())) for name, dims in shapes.items()},
            scale=head**-0.5,
        )
        for _ in range(n_layers)
    )
    return LinearAttention(
        tokens=draw(n_tokens, embed),
        mask=draw(embed),
        positions=draw(n_positions, embed),
        layers=layers,
        readout=draw(n_positions, params, embed),
        readout_bias=draw(n_positions, params),
    )
