"""Parts that draw random numbers in training, from a generator that the fit lends them."""

from abc import ABC
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RandomPart(nn.Module, ABC):
    """A part that draws from `generator`: the fit's while one goes on, else torch's default one."""

    generator: torch.Generator | None = None


class Dropout(RandomPart):
    """In training, sets numbers to zero with probability `p` and multiplies the others by 1/(1-p).

    What `torch.nn.Dropout` does, which draws from torch's default generator and takes no other.

    >>> with lend_generator(torch.Generator().manual_seed(0), part := Dropout(0.5)):
    ...     sorted(set(part(torch.ones(100)).tolist()))
    [0.0, 2.0]
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
