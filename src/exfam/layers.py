"""Layers whose initial weights and dropout are drawn from a generator, never from global state."""

import math
from abc import ABC
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn


def normal(*shape: int, scale: float, generator: torch.Generator) -> Float[Tensor, "*shape"]:
    """Normal draws with standard deviation `scale`."""
    return torch.randn(*shape, generator=generator) * scale


class _Linear(nn.Linear):
    """A linear layer that leaves its first weights to who makes it."""

    def reset_parameters(self) -> None:
        pass


def linear(n_in: int, n_out: int, *, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero bias."""
    layer = _Linear(n_in, n_out, bias=bias)
    bound = math.sqrt(6.0 / (n_in + n_out))
    with torch.no_grad():
        layer.weight.copy_((torch.rand(n_out, n_in, generator=generator) * 2 - 1) * bound)
        if bias:
            layer.bias.zero_()
    return layer


def table(n_rows: int, dim: int, *, scale: float, generator: torch.Generator) -> nn.Embedding:
    """A look-up table with normal entries of standard deviation `scale`."""
    return nn.Embedding(n_rows, dim, _weight=normal(n_rows, dim, scale=scale, generator=generator))


def mlp(sizes: list[int], *, generator: torch.Generator) -> nn.Sequential:
    """Linear layers of the given sizes with ReLU between them."""
    layers: list[nn.Module] = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [linear(n_in, n_out, generator=generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class RandomPart(nn.Module, ABC):
    """A part that draws from `generator`: the fit's while one goes on, else torch's default one."""

    generator: torch.Generator | None = None


class Dropout(RandomPart):
    """In training, sets numbers to zero with probability `p` and multiplies the others by 1/(1-p).

    What `torch.nn.Dropout` does, which draws from torch's default generator and takes no other.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What is left of `x`."""
        if not self.training or not self.p:
            return x
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator).div_(
            1 - self.p
        )

    def extra_repr(self) -> str:
        return f"p={self.p}"


def unrounded(eta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """In float32 at least: products may be rounded, log-probabilities of them are not."""
    return eta.to(torch.promote_types(eta.dtype, torch.float32))


@contextmanager
def lend_generator(generator: torch.Generator, module: nn.Module) -> Iterator[None]:
    """Within it, all parts of `module` draw from `generator`, which is on the module's device."""
    parts = [part for part in module.modules() if isinstance(part, RandomPart)]
    for part in parts:
        part.generator = generator
    try:
        yield
    finally:
        for part in parts:
            part.generator = None


def drawing_again(
    part: RandomPart,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts of something computed twice, which draws the same numbers the second time.

    After that the generator goes on from where it stood. For `torch.utils.checkpoint`, which knows
    no other generators than torch's default ones.
    """
    generator = torch.default_generator if part.generator is None else part.generator
    states: list[Tensor] = []

    @contextmanager
    def first() -> Iterator[None]:
        states.append(generator.get_state())
        yield

    @contextmanager
    def second() -> Iterator[None]:
        now = generator.get_state()
        generator.set_state(states[0])
        try:
            yield
        finally:
            generator.set_state(now)

    return first(), second()


CONNECTIONS = ("none", "post-norm", "pre-norm", "residual")

Vectors = Float[Tensor, "*batch embed"]


class Connection(nn.Module):
    """How a layer joins the stream it works on: one of CONNECTIONS.

    "none": the layer's output alone; "residual": the stream plus the output; "pre-norm": the same
    of a layer that sees the stream normalized; "post-norm": the sum is normalized.

    >>> Connection("residual", 2).after(torch.ones(2), torch.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, name: str, embed_dim: int) -> None:
        super().__init__()
        self.name, self.residual = name, name != "none"
        self.linear = name in ("none", "residual")
        if not self.linear:
            self.norm = nn.LayerNorm(embed_dim)

    def before(self, x: Vectors) -> Vectors:
        """The layer's input."""
        return self.norm(x) if self.name == "pre-norm" else x

    def after(self, x: Vectors, update: Vectors) -> Vectors:
        """The stream, given the layer's output."""
        joined = x + update if self.residual else update
        return self.norm(joined) if self.name == "post-norm" else joined


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, joined to the stream by a connection."""

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int,
        *,
        connection: Connection,
        generator: torch.Generator,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.first = linear(embed_dim, hidden_dim, generator=generator)
        self.second = linear(hidden_dim, embed_dim, generator=generator)
        self.connection = connection
        self.dropout = Dropout(dropout)

    def forward(self, x: Vectors) -> Vectors:
        """The stream after this layer."""
        hidden = nn.functional.gelu(self.first(self.connection.before(x)))
        return self.connection.after(x, self.dropout(self.second(hidden)))
