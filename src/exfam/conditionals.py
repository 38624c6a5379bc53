"""All conditionals of a group at once: what each element's hidden state is when it is hidden.

`copies` is the definition: one masked copy of the group for each element. The others give the same
(`two_stream`, `exact`) or a slightly different model (`static`) without making copies.

    copies       any network; I forward passes over a group of I elements
    two_stream   causal, any depth: content never sees a mask, so one stream serves all queries
    exact        bidirectional, one layer; or two layers without feed-forward or layer norm
    static       keys and values come from each token alone, at every layer: any depth, one pass
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.attention import Attention, Block, PerHead, Visibility
from exfam.checks import ExfamError
from exfam.encodings import Position

__all__ = [
    "CONDITIONALS",
    "Conditional",
    "Copies",
    "Exact",
    "Hidden",
    "Static",
    "Tokens",
    "TwoStream",
    "choose_conditional",
]

# Above this weight on one key, leaving it out of a sum by subtraction would lose digits.
DOMINANT_WEIGHT = 0.99


class Tokens(NamedTuple):
    """Tokens of padded groups, seen as context (`content`) and as hidden centers (`center`)."""

    content: Float[Tensor, "batch length embed"]
    center: Float[Tensor, "batch length embed"]
    position: Position
    present: Bool[Tensor, "batch length"]


class Hidden(NamedTuple):
    """Hidden states of all centers, and the centers' attention weights at each layer.

    `weights`: (batch, heads, center, columns), the columns being the elements, then the null token
    and the mask token where there are any.
    """

    state: Float[Tensor, "batch length embed"]
    weights: tuple[Float[Tensor, "batch heads length columns"], ...]


class Conditional(ABC):
    """A way to get the hidden states of all centers of a group."""

    @abstractmethod
    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        """Why this way does not serve such a network, or None if it does."""

    @abstractmethod
    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """Hidden states of all centers."""

    def check(self, blocks: Sequence[Block], visibility: Visibility) -> None:
        """Raise ExfamError where this way does not serve such a network."""
        reason = self.refusal(blocks, visibility)
        if reason is not None:
            raise ExfamError(
                f"`conditional` must be one that serves this network: {reason}. "
                "Use 'copies' (any network) or 'static' (any depth, one pass)."
            )


def _pass(
    block: Block,
    query_stream: Tensor,
    key_stream: Tensor,
    tokens: Tokens,
    may_attend: Tensor,
    own: bool = False,
) -> tuple[Tensor, Tensor]:
    """One block: the query stream attends to keys made from the key stream."""
    position = tokens.position
    q = block.queries(query_stream, position)
    keys = block.keys(key_stream, position)
    own_key = block.keys(query_stream, position) if own else None
    attended = block.attention.gather(q, keys, may_attend, (position, position), own_key)
    return block.join(query_stream, attended.update), attended.weights


class Copies(Conditional):
    """One masked copy of the group for each element: the definition, exact for any network."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        lengths = tokens.present.int().sum(1)
        order = torch.argsort(lengths, stable=True)
        bounds = _bucket_bounds(lengths[order].tolist())
        parts = [
            self._bucket(blocks, _rows(tokens, order[low:high], width), visibility)
            for low, high, width in bounds
        ]
        length = tokens.present.shape[1]
        back = torch.argsort(order)
        state = torch.cat([_pad(part.state, length, -2) for part in parts])[back]
        weights = tuple(
            torch.cat(
                [_pad_columns(part.weights[i], part.state.shape[1], length) for part in parts]
            )[back]
            for i in range(len(blocks))
        )
        return Hidden(state, weights)

    def _bucket(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        """All copies of groups of about one length."""
        batch, length, embed = tokens.content.shape
        group, center = tokens.present.nonzero(as_tuple=True)
        row = torch.arange(len(group), device=group.device)
        stream = tokens.content[group].clone()
        stream[row, center] = tokens.center[group, center]
        position, present = tokens.position[group], tokens.present[group]
        copy = Tokens(stream, stream, position, present)
        may_attend = visibility.content(present)
        if not visibility.sees_mask:
            hidden = torch.zeros_like(present)
            hidden[row, center] = True
            may_attend = may_attend & ~hidden[:, None, :]
        weights = []
        for block in blocks[:-1]:
            stream, used = _pass(block, stream, stream, copy, may_attend)
            weights.append(used[row, :, center])
        last, query_position = blocks[-1], position[row, center][:, None]
        attended = last.attention.gather(
            last.queries(stream[row, center][:, None], query_position),
            last.keys(stream, position),
            may_attend[row, center][:, None],
            (query_position, position),
        )
        weights.append(attended.weights[:, :, 0])
        state = last.join(stream[row, center][:, None], attended.update)[:, 0]
        if visibility.sees_mask:
            weights = [_own_column_last(used, row, center) for used in weights]
        out = state.new_zeros(batch, length, embed).index_put((group, center), state)
        return Hidden(out, tuple(_scatter(w, group, center, batch, length) for w in weights))


def _bucket_bounds(lengths: list[int]) -> list[tuple[int, int, int]]:
    """(from, to, width) of runs of sorted lengths in which padding stays below a quarter."""
    bounds, low = [], 0
    for high in range(1, len(lengths) + 1):
        if high == len(lengths) or lengths[high] > max(4, 1.25 * lengths[low]):
            bounds.append((low, high, max(1, lengths[high - 1])))
            low = high
    return bounds


def _rows(tokens: Tokens, rows: Tensor, width: int) -> Tokens:
    """Some groups, cut to `width` (padding is always last)."""
    return Tokens(*(part[rows][:, :width] for part in tokens))


def _pad(x: Tensor, length: int, dim: int) -> Tensor:
    missing = length - x.shape[dim]
    after = [0, 0] * (-dim - 1) + [0, missing]
    return torch.nn.functional.pad(x, after)


def _pad_columns(weights: Tensor, n_keys: int, length: int) -> Tensor:
    """Weights padded to `length` centers and keys; extra columns stay last."""
    keys, extra = weights[..., :n_keys], weights[..., n_keys:]
    return _pad(torch.cat([_pad(keys, length, -1), extra], -1), length, -2)


def _own_column_last(weights: Tensor, row: Tensor, center: Tensor) -> Tensor:
    """The mask's weight moved from its place among the keys to a last column."""
    own = weights[row, :, center]
    others = weights.transpose(1, 2).index_put((row, center), torch.zeros_like(own))
    return torch.cat([others.transpose(1, 2), own[..., None]], -1)


def _scatter(weights: Tensor, group: Tensor, center: Tensor, batch: int, length: int) -> Tensor:
    """(copies, heads, columns) to (batch, heads, center, columns)."""
    out = weights.new_zeros(batch, length, *weights.shape[1:])
    return out.index_put((group, center), weights).transpose(1, 2)


class TwoStream(Conditional):
    """Causal: content attends to earlier content and itself; centers attend to earlier content."""

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None if visibility.causal else "'two_stream' is for direction='causal'"

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        self.check(blocks, visibility)
        context, content_sees = (
            visibility.context(tokens.present),
            visibility.content(tokens.present),
        )
        content, center, weights = tokens.content, tokens.center, []
        for i, block in enumerate(blocks):
            center, used = _pass(block, center, content, tokens, context, visibility.sees_mask)
            weights.append(used)
            if i + 1 < len(blocks):
                content, _ = _pass(block, content, content, tokens, content_sees)
        return Hidden(center, tuple(weights))


class Static(Conditional):
    """Centers attend, at every layer, to keys and values made from each token alone.

    An exact conditional of a slightly different model: context elements do not change each other.
    With one layer it is the same model as `copies`.
    """

    def refusal(self, blocks: Sequence[Block], visibility: Visibility) -> str | None:
        return None

    def hide(self, blocks: Sequence[Block], tokens: Tokens, visibility: Visibility) -> Hidden:
        context = visibility.context(tokens.present)
        center, weights = tokens.center, []
        for block in blocks:
            center, used = _pass(
                block, center, tokens.content, tokens, context, visibility.sees_mask
            )
            weights.append(used)
        return Hidden(center, tuple(weights))


class Exact(Conditional):
    """One pass, equal to `copies`, where the algebra allows it.

    Causal networks of any depth go through `TwoStream`, one layer through `Static`. Two
    bidirectional layers whose stream changes linearly: with element i hidden, layer 1 gives element
    j the output (N_j - e_ji v_i + e_jm v_m) / den_ji, where N_j sums e_jk v_k over all k and m is
    the mask at i; layer 2 is needed at center i only, and reduces to scalars and matrix products.
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


class _First(NamedTuple):
    """Layer 1 with each element left out in turn; letters as in the docstring of `Exact`."""

    v: PerHead
    v_mask: PerHead
    total: PerHead  # N_j
    e: Tensor  # (batch, heads, j, k)
    e_mask: Tensor  # (batch, heads, j, i): j attends to the mask at i
    null: Tensor | None  # the null token's part of N_j
    den: Tensor  # (batch, heads, j, i)
    center: Tensor  # stream of center i after layer 1
    weights: Tensor  # weights of center i at layer 1


def _first_layer(block: Block, tokens: Tokens, visibility: Visibility) -> _First:
    attention, position = block.attention, tokens.position
    q, (k, v) = block.queries(tokens.content, position), block.keys(tokens.content, position)
    k_mask, v_mask = block.keys(tokens.center, position)
    absent = ~tokens.present[:, None, None, :]
    scores = attention.scores(q, k, position, position).masked_fill(absent, float("-inf"))
    to_mask = attention.scores(q, k_mask, position, position)
    low = torch.finfo(scores.dtype).min
    offset = scores.detach().amax(-1, keepdim=True).clamp_min(low)
    if visibility.sees_mask:
        offset = offset.maximum(to_mask.detach().amax(-1, keepdim=True))
    null = attention.null_scores(q)[..., None] if attention.null is not None else None
    if null is not None:
        offset = offset.maximum(null.detach())
    terms = attention.kernel.terms
    e = terms(scores, offset).masked_fill(absent, 0.0)
    e_mask = terms(to_mask, offset) if visibility.sees_mask else torch.zeros_like(to_mask)
    total, den, of_null = e @ v, _sum_without_each(e) + e_mask, None
    if null is not None:
        assert attention.null is not None
        e_null = terms(null, offset)
        of_null = e_null * attention.null.value
        total, den = total + of_null, den + e_null
    center, weights = _pass(
        block,
        tokens.center,
        tokens.content,
        tokens,
        visibility.context(tokens.present),
        visibility.sees_mask,
    )
    den = den if attention.kernel.normalizes else torch.ones_like(den)
    return _First(v, v_mask, total, e, e_mask, of_null, _safe(den), center, weights)


def _safe(den: Tensor) -> Tensor:
    """Denominators with 1 for 0: then the numerator is 0 as well."""
    return torch.where(den > 0, den, torch.ones_like(den))


def _sum_without_each(e: Tensor) -> Tensor:
    """Sum over the last dimension with each entry left out in turn, by sums from both ends.

    Subtracting an entry from the total would lose all digits where that entry dominates.
    """
    before = torch.nn.functional.pad(e.cumsum(-1)[..., :-1], (1, 0))
    after = torch.nn.functional.pad(e.flip(-1).cumsum(-1)[..., :-1], (1, 0)).flip(-1)
    return before + after


def _two_layers(one: Block, two: Block, tokens: Tokens, visibility: Visibility) -> Hidden:
    first = _first_layer(one, tokens, visibility)
    attention, position = two.attention, tokens.position
    q = two.queries(first.center, position)
    share = first.e / (first.e + first.den)
    peaked = one.attention.kernel.normalizes and bool((share > DOMINANT_WEIGHT).any())
    columns = _PairColumns if peaked or attention.encoding.rotates else _MatrixColumns
    pairs = columns(one, two, tokens, first, q)
    scores = [_pair_scores(attention, pairs, q, position)]
    own = two.keys(first.center, position) if visibility.sees_mask else None
    if attention.null is not None:
        scores.append(attention.null_scores(q)[..., None])
    if own is not None:
        scores.append(attention.own_scores(q, own[0], position)[..., None])
    n_keys, n_extra = tokens.present.shape[1], len(scores) - 1
    allowed = visibility.context(tokens.present)[:, None]
    allowed = torch.nn.functional.pad(allowed, (0, n_extra), value=True)
    weights = attention.kernel.weights(torch.cat(scores, -1), allowed)
    pooled = pairs.pool(weights[..., :n_keys])
    if attention.null is not None:
        pooled = pooled + weights[..., n_keys, None] * attention.null.value
    if own is not None:
        pooled = pooled + weights[..., -1, None] * own[1]
    state = two.join(first.center, attention.merge(pooled))
    return Hidden(state, (first.weights, weights))


def _pair_scores(
    attention: Attention, pairs: "_MatrixColumns | _PairColumns", q: PerHead, position: Position
) -> Tensor:
    """Layer-2 scores of center i with element j, element i hidden."""
    if attention.encoding.log_weights(position, position) is not None:
        return attention.scores(q, q, position, position)
    bias = attention.encoding.bias(q, position, position)
    product = pairs.products() * attention.scale
    return product if bias is None else product + bias


def _key_value_maps(attention: Attention) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights (heads, head_dim, embed) and biases (heads, 1, head_dim) of keys and of values."""
    shape = (2, attention.n_heads, attention.head_dim)
    weight = attention.key_value.weight.unflatten(0, shape)
    bias = attention.key_value.bias.unflatten(0, shape)[:, :, None]
    return weight[0], weight[1], bias[0], bias[1]


class _MatrixColumns:
    """Layer-2 scores and pooled values by matrix products, never holding a (j, i, embed) array."""

    def __init__(self, one: Block, two: Block, tokens: Tokens, first: _First, q: PerHead) -> None:
        self.first, self.q = first, q
        self.maps = _key_value_maps(two.attention)
        self.output = one.attention.output
        kept = tokens.content if one.connection.residual else torch.zeros_like(tokens.content)
        self.kept = kept + self.output.bias
        heads = (one.attention.n_heads, one.attention.head_dim)
        self.out_heads = self.output.weight.unflatten(1, heads)  # (embed, h, head_dim)

    def products(self) -> Tensor:
        """q_i . k_j with element i hidden: (batch, heads2, i, j)."""
        to_key, _, key_bias, _ = self.maps
        first = self.first
        through = self.q @ to_key  # (batch, g, i, embed)
        scores = through @ self.kept[:, None].mT + (self.q * key_bias).sum(-1, keepdim=True)
        u = torch.einsum("bgie,ehd->bghid", through, self.out_heads)
        e, den = first.e.mT[:, None], first.den.mT[:, None]  # (batch, 1, h, i, j)
        of_total = u @ first.total[:, None].mT
        of_own = (u * first.v[:, None]).sum(-1, keepdim=True)
        of_mask = (u * first.v_mask[:, None]).sum(-1, keepdim=True)
        moved = of_total - e * of_own + first.e_mask.mT[:, None] * of_mask
        return scores + (moved / den).sum(2)

    def pool(self, weights: Tensor) -> PerHead:
        """sum_j weight_ij v_j with element i hidden: (batch, heads2, i, head_dim)."""
        _, to_value, _, value_bias = self.maps
        first = self.first
        stream = weights @ self.kept[:, None]
        ratio = weights[:, :, None] / first.den.mT[:, None]  # (batch, g, h, i, j)
        moved = ratio @ first.total[:, None]
        own = (ratio * first.e.mT[:, None]).sum(-1, keepdim=True)
        mask = (ratio * first.e_mask.mT[:, None]).sum(-1, keepdim=True)
        moved = moved - own * first.v[:, None] + mask * first.v_mask[:, None]
        stream = stream + torch.einsum("bghid,ehd->bgie", moved, self.out_heads)
        return stream @ to_value.mT + weights.sum(-1, keepdim=True) * value_bias


class _PairColumns:
    """The same with layer 1's output held for every (center i, element j): where keys are rotated,
    or where one key dominates so that leaving it out by subtraction would lose digits."""

    def __init__(self, one: Block, two: Block, tokens: Tokens, first: _First, q: PerHead) -> None:
        self.q = q
        terms = first.e[..., None] * first.v[:, :, None]  # (batch, h, j, k, head_dim)
        without = _sum_without_each(terms.transpose(-1, -2)).transpose(-1, -2)
        without = without + first.e_mask[..., None] * first.v_mask[:, :, None]
        if first.null is not None:
            without = without + first.null[..., None, :]
        pooled = without / first.den[..., None]  # (batch, h, j, i, head_dim)
        update = one.attention.output(pooled.permute(0, 3, 2, 1, 4).flatten(3))
        stream = one.connection.after(tokens.content[:, None], update)  # (batch, i, j, embed)
        batch, length = tokens.present.shape
        shared = tokens.position.stride(0) == 0
        position = (
            tokens.position[:1].expand(batch * length, *tokens.position.shape[1:])
            if shared
            else tokens.position.repeat_interleave(length, 0)
        )
        k, v = two.keys(stream.flatten(0, 1), position)
        self.k, self.v = k.unflatten(0, (batch, length)), v.unflatten(0, (batch, length))

    def products(self) -> Tensor:
        return torch.einsum("bgid,bigjd->bgij", self.q, self.k)

    def pool(self, weights: Tensor) -> PerHead:
        return torch.einsum("bgij,bigjd->bgid", weights, self.v)


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
    if name == "auto":
        exact = Exact()
        return Static() if exact.refusal(blocks, visibility) else exact
    if name not in CONDITIONALS:
        listed = ", ".join(repr(choice) for choice in ["auto", *CONDITIONALS])
        raise ExfamError(f"`conditional` must be one of {listed}, got {name!r}.")
    chosen = CONDITIONALS[name]()
    chosen.check(blocks, visibility)
    return chosen
