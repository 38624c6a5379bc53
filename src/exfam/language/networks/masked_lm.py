"""A masked language model: p(token | all other tokens of its piece of text)."""

import copy
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.attention import Attention, Block, build_block
from exfam.catalog.linear import LinearEta, item_products
from exfam.checks import check_choice
from exfam.embeddings import ItemEmbedding, rows_of
from exfam.encodings import EncodingSizes, NoEncoding, build_encoding
from exfam.layers import Dropout, linear

Tokens = Int64[Tensor, "batch length"]
Present = Bool[Tensor, "batch length"]
States = Float[Tensor, "batch length embed"]
Weights = Float[Tensor, "#batch heads length length"]

# Parts of attention: both terms of its scores, or one of them.
ATTENTION_TERMS = ("both", "contextual", "positional")
# Encodings with tables of their own in every layer; all others are the same in all layers.
_PER_LAYER = ("attenuated-table", "attenuated-table-shared", "shaw")
_BLOCK_SIZES = ("connection", "feed_forward_dim", "dropout")
_WORD_SCALE = 0.02


class EncodedTokens(NamedTuple):
    """The stream before and after every layer, and attention weights."""

    states: list[States]
    weights: list[Weights]


@dataclass(frozen=True)
class MaskedLMSizes:
    """Sizes of a masked language model.

    `n_positions`: tokens of a sentence at most, for encodings with tables
    `mask`: the token that stands for hidden ones
    """

    n_tokens: int
    n_positions: int
    mask: int
    embed_dim: int = 128
    n_heads: int = 4
    n_layers: int = 4
    feed_forward_dim: int = 512
    encoding: str = "learned"
    connection: str = "pre-norm"
    dropout: float = 0.1


class MaskedLM(nn.Module):
    """Word vectors, blocks of attention among all tokens, and what outputs are multiplied with.

    Outputs are the products with the word vectors themselves, after one more layer, plus a bias.
    Vectors of positions are added at the bottom; any other encoding goes into the attention of
    every layer, one for all unless it has tables of pairs or keys of offsets.
    Source: Devlin et al. (2019), BERT.
    """

    def __init__(self, sizes: MaskedLMSizes, *, generator: torch.Generator) -> None:
        super().__init__()
        dim = sizes.embed_dim
        heads: dict[str, Any] = {
            "n_heads": sizes.n_heads,
            "head_dim": dim // sizes.n_heads,
            "generator": generator,
        }
        words = ItemEmbedding(sizes.n_tokens, dim, generator=generator, scale=_WORD_SCALE)
        encoding_sizes = EncodingSizes(
            **heads,
            embed_dim=dim,
            n_positions=sizes.n_positions,
            # Sines and cosines as large as word vectors are at first, as learned vectors are.
            amplitude=math.sqrt(2) * _WORD_SCALE,
        )
        encoding = build_encoding(sizes.encoding, encoding_sizes)
        inner = NoEncoding() if encoding.embeds else encoding
        shape: dict[str, Any] = {name: getattr(sizes, name) for name in _BLOCK_SIZES}
        blocks = nn.ModuleList()
        for number in range(sizes.n_layers):
            own = copy.deepcopy(inner) if number and sizes.encoding in _PER_LAYER else inner
            attention = Attention(dim, **heads, encoding=own)
            blocks.append(build_block(attention, dim, **shape, generator=generator))
        last = linear(dim, dim, generator=generator)
        self.words, self.added = words, encoding if encoding.embeds else NoEncoding()
        self.transform, self.mask = nn.Sequential(last, nn.GELU(), nn.LayerNorm(dim)), sizes.mask
        self.first_norm = nn.LayerNorm(dim)
        self.last_norm = nn.LayerNorm(dim) if sizes.connection == "pre-norm" else nn.Identity()
        self.blocks = blocks
        self.bias = nn.Parameter(words.table.weight.new_zeros(words.n_items))
        self.dropout = Dropout(sizes.dropout)

    @property
    def layers(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]

    @property
    def separable(self) -> bool:
        """Whether scores are a term of tokens plus one of positions: nothing added, no rotation."""
        inside = all(block.attention.encoding.separable for block in self.layers)
        return isinstance(self.added, NoEncoding) and inside

    def forward(
        self, tokens: Tokens, present: Present | None, *, term: str = "both"
    ) -> EncodedTokens:
        """Streams of all layers and their attention weights.

        `present`: False at padding; None without any, as in stretches of a text
        `term`: "contextual" for attention without positions, "positional" for attention by
            positions alone

        Where scores are a sum of two terms (`separable`), the other one is set to zero. Elsewhere
        "contextual" adds no vectors and does not rotate, and "positional" attends as a sentence
        does that is masked throughout. Source: Chen, Varoquaux & Suchanek (2023), A.6.
        """
        check_choice("term", term, ATTENTION_TERMS)
        position = torch.arange(tokens.shape[1], device=tokens.device).expand(*tokens.shape)
        may_attend = None if present is None else present[:, None, None, :]
        added = None if term == "contextual" else self.added.embed(position)
        vectors = rows_of(self.words.table.weight, tokens)
        x = self.dropout(self.first_norm(vectors if added is None else vectors + added))
        fixed: list[Any] = [None] * len(self.blocks)
        if term == "positional" and not self.separable:
            fixed = self(torch.full_like(tokens, self.mask), present).weights
        states, weights = [x], []
        for block, given in zip(self.layers, fixed, strict=True):
            x, own = _layer(block, x, (position, may_attend), fixed=given, term=term)
            states.append(x)
            weights.append(own)
        states[-1] = self.last_norm(states[-1])
        return EncodedTokens(states, weights)

    def linear(self, states: Float[Tensor, "*rows embed"]) -> LinearEta:
        """Outputs of some of the last states, one row each, as factors."""
        return item_products(self.transform(states), self.words, self.bias)


def _layer(
    block: Block,
    x: States,
    seen: tuple[Tensor, Bool[Tensor, "batch 1 1 key"] | None],
    *,
    fixed: Weights | None,
    term: str,
) -> tuple[States, Weights]:
    """The stream after a block, and its weights; `fixed` ones, where given, in place of its own."""
    attention, inside = block.attention, block.connection.before(x)
    position, may_attend = seen
    k, v = attention.keys(inside, position)
    if fixed is None:
        if term == "both":
            q = attention.queries(inside, position)
            scores = attention.scores(q, k, position, position)
        else:
            gamma, delta = attention.terms(inside, position)
            scores = gamma if term == "contextual" else delta
        if may_attend is None:
            fixed = scores.softmax(-1)
        else:
            fixed = attention.kernel.weights(scores, may_attend)
    return block.join(x, attention.merge(fixed @ v)), fixed
