"""One pass equal to masked copies, where the algebra allows it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.attention import Block, PerHead, ScoreKernel, Visibility
from exfam.checks import check_choice
from exfam.conditionals.base import (
    Conditional,
    Copies,
    Hidden,
    Static,
    Tokens,
    TwoStream,
    attend,
    repeat_position,
    sight_of_centers,
)


class Exact(Conditional):
    """One pass, equal to `copies`, where the algebra allows it.

    Causal networks of any depth go through `TwoStream`, one layer through `Static`. Two
    bidirectional layers whose stream changes linearly: with element i hidden, layer 1 gives element
    j the pooled values (N_j - e_ji v_i + e_jm v_m) / den_ji, where N_j sums e_jk v_k over all k and
    m is the mask at i; layer 2 is needed at center i only, so it takes scalars and matrix products.
    """

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        if visibility.causal or len(blocks) == 1:
            return None
        if len(blocks) > 2:
            return f"'exact' is for one or two bidirectional layers, got {len(blocks)}"
        if not (blocks[0].linear and blocks[1].linear):
            return "'exact' is for two bidirectional layers without layer norm or feed-forward"
        return None

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        self.check(blocks, visibility)
        if visibility.causal:
            return TwoStream().hide(blocks, tokens, visibility)
        if len(blocks) == 1:
            return Static().hide(blocks, tokens, visibility)
        return _two_layers(blocks[0], blocks[1], tokens, visibility)

    def states(
        self,
        blocks: Sequence[Block],
        tokens: Tokens,
        visibility: Visibility,
        wanted: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length embed"]:
        self.check(blocks, visibility)
        if visibility.causal:
            return TwoStream().states(blocks, tokens, visibility, wanted)
        if len(blocks) == 1:
            return Static().states(blocks, tokens, visibility, wanted)
        return _two_layers(blocks[0], blocks[1], tokens, visibility).state


CONDITIONALS: dict[str, type[Conditional]] = {
    "copies": Copies,
    "exact": Exact,
    "static": Static,
    "two_stream": TwoStream,
}


def choose_conditional(
    name: str, *, blocks: Sequence[Block], visibility: Visibility
) -> Conditional:
    """The conditional of that name; "auto" takes an exact one-pass form if there is one.

    Raises ExfamError where the named one does not serve the network.
    """
    check_choice("conditional", name, ("auto", *CONDITIONALS))
    if name == "auto":
        exact = Exact()
        return Static() if exact.refusal(blocks, visibility) else exact
    chosen = CONDITIONALS[name]()
    chosen.check(blocks, visibility)
    return chosen


class _LeftOut(NamedTuple):
    """Layer 1 with each element left out in turn.

    With i hidden, element j has the pooled values

        top_ji N_j + rest_ji R_j - own_ji v_i + mask_ji m_i + null_ji n

    where N_j sums e_jk v_k over all k, R_j over all but the key that j attends to most, v_i are
    values, m_i those of the mask at i and n that of the null token.
    """

    all_keys: PerHead  # N_j
    other_keys: PerHead  # R_j
    top: Tensor  # (batch, heads, j, i), as the four below
    rest: Tensor
    own: Tensor
    mask: Tensor
    null: Tensor | None


class _First(NamedTuple):
    """Layer 1: what each element pools with another hidden, and the centers after it."""

    pooled: _LeftOut
    v: PerHead
    v_mask: PerHead
    null: tuple[Tensor, Tensor] | None  # the null token's shares and value
    center: Tensor  # stream of center i after layer 1
    weights: Tensor  # weights of center i at layer 1


def _first_layer(block: Block, tokens: Tokens, visibility: Visibility) -> _First:
    attention, position = block.attention, tokens.position
    q, (k, v) = block.queries(tokens.content, position), block.keys(tokens.content, position)
    k_mask, v_mask = block.keys(tokens.center, position)
    scores = attention.scores(q, k, position, position)
    to_mask = attention.scores(q, k_mask, position, position) if visibility.sees_mask else None
    to_null = attention.null_scores(q) if attention.null is not None else None
    absent = ~tokens.present[:, None, None, :]
    if attention.kernel.normalizes:
        pooled = _left_out_softmax(scores, absent, v, to_mask, to_null)
    else:
        pooled = _left_out_linear(attention.kernel, scores, absent, v, to_mask, to_null)
    null = None
    if pooled.null is not None and attention.null is not None:
        null = pooled.null, attention.null.value
    sight = sight_of_centers(tokens, visibility)
    center, weights = attend(block, tokens.center, (k, v), sight, visibility.sees_mask)
    return _First(pooled, v, v_mask, null, center, weights)


def _left_out_linear(
    kernel: ScoreKernel,
    scores: Tensor,
    absent: Tensor,
    v: PerHead,
    to_mask: Tensor | None,
    to_null: Tensor | None,
) -> _LeftOut:
    """The terms of `_LeftOut` for weights that are strengths of scores times a share of each."""
    e = kernel.strength(scores).masked_fill(absent, 0.0)
    n_visible = (~absent).sum(-1, keepdim=True).to(e.dtype) - 1
    n_visible = n_visible + (to_mask is not None) + (to_null is not None)
    share = kernel.share(n_visible).expand_as(e)
    pooled = e @ v
    return _LeftOut(
        all_keys=pooled,
        other_keys=torch.zeros_like(pooled),
        top=share,
        rest=torch.zeros_like(e),
        own=share * e,
        mask=torch.zeros_like(e) if to_mask is None else share * kernel.strength(to_mask),
        null=None if to_null is None else share * kernel.strength(to_null),
    )


def _left_out_softmax(
    scores: Tensor, absent: Tensor, v: PerHead, to_mask: Tensor | None, to_null: Tensor | None
) -> _LeftOut:
    """The terms of `_LeftOut` for softmax, stable whichever key dominates.

    Leaving out the largest term of a row by subtraction would lose all digits, and so would its
    scale for the others: that case has a sum of its own (R_j), scaled by the second largest.
    """
    low = torch.finfo(scores.dtype).min
    ranked = scores.detach().masked_fill(absent, low)
    first, index = ranked.max(-1, keepdim=True)
    is_top = torch.zeros_like(ranked, dtype=torch.bool).scatter_(-1, index, True)
    second = ranked.masked_fill(is_top, low).amax(-1, keepdim=True)
    e = (scores - first).masked_fill(absent, low).exp()
    other = (scores - second).masked_fill(absent | is_top, low).exp()
    scale = torch.where(is_top, second, first)
    offset = scale
    for more in (to_mask, to_null):
        offset = offset if more is None else offset.maximum(more.detach())
    kept = torch.where(is_top, other.sum(-1, keepdim=True), e.sum(-1, keepdim=True) - e)
    shrink = (scale - offset).exp()
    mask = torch.zeros_like(e) if to_mask is None else (to_mask - offset).exp()
    null = None if to_null is None else (to_null - offset).exp()
    den = shrink * kept + mask + (0.0 if null is None else null)
    den = torch.where(den > 0, den, 1.0)
    share = shrink / den
    top, rest = share.masked_fill(is_top, 0.0), share.masked_fill(~is_top, 0.0)
    null = None if null is None else null / den
    return _LeftOut(e @ v, other @ v, top, rest, top * e, mask / den, null)


def _two_layers(one: Block, two: Block, tokens: Tokens, visibility: Visibility) -> Hidden:
    first = _first_layer(one, tokens, visibility)
    attention, position = two.attention, tokens.position
    q = two.queries(first.center, position)
    columns = _PairColumns if attention.encoding.rotates else _MatrixColumns
    pairs = columns(one, two, tokens, first, q)
    if attention.encoding.replaces:
        scores = attention.scores(q, q, position, position)
    else:
        bias = attention.encoding.bias(q, position, position)
        scores = pairs.products() * attention.scale
        scores = scores if bias is None else scores + bias
    own = two.keys(first.center, position) if visibility.sees_mask else None
    context = visibility.context(tokens.present)
    attended = attention.weigh(q, scores, pairs.pool, context, position, own)
    return Hidden(two.join(first.center, attended.update), (first.weights, attended.weights))


class _MatrixColumns:
    """Layer-2 scores and pooled values by matrix products, never holding a (j, i, embed) array."""

    def __init__(self, one: Block, two: Block, tokens: Tokens, first: _First, q: PerHead) -> None:
        self.first, self.q = first, q
        key_value, by_head = (
            two.attention.key_value,
            (two.attention.n_heads, two.attention.head_dim),
        )
        # Weights (heads, head_dim, embed) and biases (heads, 1, head_dim).
        self.to_key, self.to_value = key_value.weight.unflatten(0, (2, *by_head))
        self.key_bias, self.value_bias = key_value.bias.unflatten(0, (2, *by_head))[:, :, None]
        output, heads = one.attention.output, (one.attention.n_heads, one.attention.head_dim)
        kept = tokens.content if one.connection.residual else torch.zeros_like(tokens.content)
        self.kept = kept + output.bias
        self.out_heads = output.weight.unflatten(1, heads)  # (embed, h, head_dim)

    def products(self) -> Tensor:
        """q_i . k_j with element i hidden: (batch, heads2, i, j)."""
        first, left = self.first, self.first.pooled
        through = self.q @ self.to_key  # (batch, g, i, embed)
        scores = through @ self.kept[:, None].mT + (self.q * self.key_bias).sum(-1, keepdim=True)
        u = torch.einsum("bgie,ehd->bghid", through, self.out_heads)
        moved = left.top.mT[:, None] * (u @ left.all_keys[:, None].mT)
        moved = moved + left.rest.mT[:, None] * (u @ left.other_keys[:, None].mT)
        of_own = (u * first.v[:, None]).sum(-1, keepdim=True)
        of_mask = (u * first.v_mask[:, None]).sum(-1, keepdim=True)
        moved = moved - left.own.mT[:, None] * of_own + left.mask.mT[:, None] * of_mask
        if first.null is not None:
            share, value = first.null
            moved = moved + share.mT[:, None] * (u @ value.mT)
        return scores + moved.sum(2)

    def pool(self, weights: Tensor) -> PerHead:
        """sum_j weight_ij v_j with element i hidden: (batch, heads2, i, head_dim)."""
        first, left = self.first, self.first.pooled
        stream = weights @ self.kept[:, None]
        weight = weights[:, :, None]  # (batch, g, 1, i, j)
        moved = (weight * left.top.mT[:, None]) @ left.all_keys[:, None]
        moved = moved + (weight * left.rest.mT[:, None]) @ left.other_keys[:, None]
        own = (weight * left.own.mT[:, None]).sum(-1, keepdim=True)
        mask = (weight * left.mask.mT[:, None]).sum(-1, keepdim=True)
        moved = moved - own * first.v[:, None] + mask * first.v_mask[:, None]
        if first.null is not None:
            share, value = first.null
            moved = moved + (weight * share.mT[:, None]).sum(-1, keepdim=True) * value
        stream = stream + torch.einsum("bghid,ehd->bgie", moved, self.out_heads)
        return stream @ self.to_value.mT + weights.sum(-1, keepdim=True) * self.value_bias


class _PairColumns:
    """The same with layer 1's output held for every center i and element j, for rotated keys."""

    def __init__(self, one: Block, two: Block, tokens: Tokens, first: _First, q: PerHead) -> None:
        self.q, left = q, first.pooled
        pooled = left.top[..., None] * left.all_keys[..., None, :]  # (batch, h, j, i, head_dim)
        pooled = pooled + left.rest[..., None] * left.other_keys[..., None, :]
        pooled = pooled - left.own[..., None] * first.v[:, :, None]
        pooled = pooled + left.mask[..., None] * first.v_mask[:, :, None]
        if first.null is not None:
            share, value = first.null
            pooled = pooled + share[..., None] * value[:, None]
        update = one.attention.output(pooled.permute(0, 3, 2, 1, 4).flatten(3))
        content = tokens.content[:, None].expand_as(update)
        stream = one.connection.after(content, update)  # (batch, i, j, embed)
        batch, length = tokens.present.shape
        group = torch.arange(batch, device=q.device).repeat_interleave(length)
        position = repeat_position(tokens.position, group)
        k, v = two.keys(stream.flatten(0, 1), position)
        self.k, self.v = k.unflatten(0, (batch, length)), v.unflatten(0, (batch, length))

    def products(self) -> Tensor:
        return torch.einsum("bgid,bigjd->bgij", self.q, self.k)

    def pool(self, weights: Tensor) -> PerHead:
        return torch.einsum("bgij,bigjd->bgid", weights, self.v)
