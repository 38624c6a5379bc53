"""All encodings by name. A new one is a class and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from exfam.checks import check_choice
from exfam.encodings.absolute import LearnedAbsolute, Rotary, Sinusoidal, Untied
from exfam.encodings.attenuated import Attenuated, AttenuatedBias, AttenuatedTable
from exfam.encodings.base import Encoding, NoEncoding
from exfam.encodings.relative import ALiBi, DistanceBias, RelativeBias, RelativeKeys


@dataclass(frozen=True, kw_only=True)
class EncodingSizes:
    """What an encoding may have to know of its network.

    `n_positions`: the positions that tables hold, from 0; `position_scale`: a typical distance;
    `amplitude`: of sines and cosines, where tokens are small
    """

    n_heads: int
    head_dim: int
    embed_dim: int
    n_positions: int
    generator: torch.Generator
    position_scale: float = 1.0
    amplitude: float = 1.0


ENCODINGS: dict[str, Callable[[EncodingSizes], Encoding]] = {
    "alibi": lambda sizes: ALiBi(sizes.n_heads),
    "attenuated": lambda sizes: Attenuated(),
    "attenuated-bias": lambda sizes: AttenuatedBias(Attenuated()),
    "attenuated-probability": lambda sizes: AttenuatedTable(
        sizes.n_positions, added="probability", learned=False
    ),
    "attenuated-table": lambda sizes: AttenuatedTable(sizes.n_positions, n_tables=sizes.n_heads),
    "attenuated-table-shared": lambda sizes: AttenuatedTable(sizes.n_positions),
    "distance": lambda sizes: DistanceBias(sizes.n_heads, scale=sizes.position_scale),
    "learned": lambda sizes: LearnedAbsolute(
        sizes.n_positions, sizes.embed_dim, generator=sizes.generator
    ),
    "none": lambda sizes: NoEncoding(),
    "relative": lambda sizes: RelativeBias(sizes.n_heads, generator=sizes.generator),
    "rotary": lambda sizes: Rotary(sizes.head_dim),
    "shaw": lambda sizes: RelativeKeys(sizes.head_dim, generator=sizes.generator),
    "sinusoidal": lambda sizes: Sinusoidal(sizes.embed_dim, amplitude=sizes.amplitude),
    "tupe": lambda sizes: Untied(
        sizes.n_positions,
        sizes.embed_dim,
        n_heads=sizes.n_heads,
        head_dim=sizes.head_dim,
        generator=sizes.generator,
    ),
}


def build_encoding(name: str, sizes: EncodingSizes) -> Encoding:
    """The encoding of that name, for a network of the given sizes."""
    check_choice("encoding", name, ENCODINGS)
    return ENCODINGS[name](sizes)
