"""Small networks with random weights, for the contract tests of every conditional and encoding."""

import torch

from exfam.attention import SCORE_KERNELS, Attention, Block, NullToken
from exfam.conditionals import Tokens
from exfam.encodings import Encoding, EncodingSizes, build_encoding
from exfam.layers import Connection, FeedForward
from model_cases import randomize

EMBED, HEADS, HEAD_DIM = 12, 2, 8


def random_encoding(name: str, generator: torch.Generator) -> Encoding:
    sizes = EncodingSizes(
        n_heads=HEADS, head_dim=HEAD_DIM, embed_dim=EMBED, n_positions=50, generator=generator
    )
    encoding = build_encoding(name, sizes)
    randomize(encoding, generator)
    if name == "tupe":
        # Products of two random factors are large: some places would have next to no weight.
        encoding.scale /= 10
    return encoding


def random_blocks(
    n_layers: int,
    *,
    encoding: Encoding,
    null: bool = False,
    kernel: str = "softmax",
    connection: str = "residual",
    feed_forward: bool = False,
    seed: int = 0,
) -> list[Block]:
    g = torch.Generator().manual_seed(seed)
    blocks = []
    for _ in range(n_layers):
        attention = Attention(
            EMBED,
            n_heads=HEADS,
            head_dim=HEAD_DIM,
            generator=g,
            kernel=SCORE_KERNELS[kernel](),
            encoding=encoding,
            null=NullToken(HEADS, HEAD_DIM, generator=g) if null else None,
        )
        joined = Connection(connection, EMBED)
        ff = FeedForward(EMBED, 16, connection=Connection(connection, EMBED), generator=g)
        block = Block(attention, connection=joined, feed_forward=ff if feed_forward else None)
        randomize(block, g)
        blocks.append(block)
    return blocks


def random_tokens(
    encoding: str = "none",
    *,
    lengths: tuple[int, ...] = (5, 1, 7, 3),
    seed: int = 1,
    scale: float = 1.0,
) -> Tokens:
    g = torch.Generator().manual_seed(seed)
    batch, length = len(lengths), max(lengths)
    position = torch.arange(length)[None].expand(batch, -1)
    if encoding == "distance":
        position = torch.randn(batch, length, 2, generator=g)
    present = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    content, center = (scale * torch.randn(2, batch, length, EMBED, generator=g)).unbind(0)
    return Tokens(content, center, position, present)
