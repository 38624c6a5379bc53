"""Theorem 2: the logits of one linear attention layer as a mixture of additive experts.

F = sum_h sum_j pi^h_j f^h_j, where pi^h = softmax_j of x_j^T W^KQ_h (c_MASK + p_m) and
f^h_j = W^LOV_h x_j + (g + D e_m) / H. The expert at the target's own positions is its MASK token.
Biases: b_Q belongs to the query, b_V, b_O, b' and b'' are in g.
Source: "Bidirectional attention as a mixture of continuous word experts", lemma 1 and theorem 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.experts.bundle import LinearAttention
from exfam.experts.sentences import Sentences, check_sentences


@dataclass(frozen=True, eq=False)
class Experts:
    """The experts of each row and target: `weights` pi, summing to 1, and `contributions` f.

    An absent cell has weight and contribution 0.
    """

    weights: Float[Tensor, "rows targets heads positions"]
    contributions: Float[Tensor, "rows targets heads positions params"]

    @property
    def parts(self) -> Float[Tensor, "rows targets positions params"]:
        """What each position adds to the logits: sum_h pi^h_j f^h_j."""
        return (self.weights[..., None] * self.contributions).sum(2)

    @property
    def logits(self) -> Float[Tensor, "rows targets params"]:
        """The network's logits: the parts' sum."""
        return self.parts.sum(2)


@dataclass(frozen=True, eq=False)
class ScoreComponents:
    """What a score is the sum of, scaled: by token, token and target, position, both positions.

    token: c_xj W^KQ c_MASK; token_position: c_xj W^KQ p_m; position: p_j W^KQ c_MASK;
    position_position: p_j W^KQ p_m. b_Q goes with c_MASK, as it too depends on no position.
    """

    token: Float[Tensor, "rows targets heads positions"]
    token_position: Float[Tensor, "rows targets heads positions"]
    position: Float[Tensor, "heads positions"]
    position_position: Float[Tensor, "targets heads positions"]

    @property
    def total(self) -> Float[Tensor, "rows targets heads positions"]:
        """The scores, scaled, up to what is constant over positions."""
        return self.token + self.token_position + self.position + self.position_position


@dataclass(frozen=True, eq=False)
class SimilarityComponents:
    """What an expert is the sum of: the token, its position, the center, the center's position.

    token: W^LOV c_xj, as in CBOW; position: W^LOV p_j; center: g / H; center_position: D e_m / H.
    """

    token: Float[Tensor, "rows targets heads positions params"]
    position: Float[Tensor, "targets heads positions params"]
    center: Float[Tensor, "targets params"]
    center_position: Float[Tensor, "targets params"]

    @property
    def total(self) -> Float[Tensor, "rows targets heads positions params"]:
        """The experts."""
        constant = self.center + self.center_position
        return self.token + self.position + constant[:, None, None]


def as_experts(network: LinearAttention, sentences: Sentences, targets: Sequence[int]) -> Experts:
    """The network's logits of each target as a mixture of experts, exactly.

    This and what follows raise ExfamError where sentences or targets are not the network's, and
    for a network of several layers.

    >>> from exfam.experts import random_network
    >>> network = random_network(torch.Generator().manual_seed(0))
    >>> experts = as_experts(network, Sentences(torch.tensor([[0, -1, 2]])), [2])
    >>> experts.weights.sum(-1).round(decimals=6).tolist()
    [[[1.0, 1.0]]]
    """
    scores = score_components(network, sentences, targets).total
    weighs = weighing(sentences, targets)[:, :, None]
    weights = scores.masked_fill(~weighs, -torch.inf).softmax(-1)
    contributions = similarity_components(network, sentences, targets).total
    return Experts(weights, contributions.masked_fill(~weighs[..., None], 0.0))


def center_weights(
    network: LinearAttention,
    sentences: Sentences,
    targets: Sequence[int],
    *,
    centers: Int64[Tensor, "targets params"],
) -> Float[Tensor, "rows targets heads positions params"]:
    """Weights that depend on the center word: each candidate asks with its own vector, not MASK's.

    pi_j(b) = softmax_j of x_j^T W^KQ (c_b + p_m), as in attention word embeddings. `centers` are
    rows of `tokens`: the token of each output. Times the contributions of `as_experts` and summed
    over heads and positions they give another model's logits. Source: "Bidirectional attention as
    a mixture of continuous word experts", footnote 1, after Sonkar et al. (2020).
    """
    layer, placed = network.layer, masked_copies(network, sentences, targets) + network.positions
    asks = network.tokens[centers] + network.positions[list(targets)][:, None]
    query = torch.einsum("hde,tpe->thpd", layer.query, asks) + layer.query_bias[:, None]
    key = torch.einsum("hde,rtse->rthsd", layer.scale * layer.key, placed)
    scores, weighs = key @ query.mT, weighing(sentences, targets)[:, :, None, :, None]
    return scores.masked_fill(~weighs, -torch.inf).softmax(3)


def score_components(
    network: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> ScoreComponents:
    """The four components of every score."""
    cells, layer = masked_copies(network, sentences, targets), network.layer
    positions = network.positions
    # W_K^T W_Q applied to the query's two terms: what a key is compared with.
    key = layer.scale * layer.key
    of_mask = torch.einsum("hde,hd->he", key, layer.query @ network.mask + layer.query_bias)
    of_position = torch.einsum("hde,hdf,tf->the", key, layer.query, positions[list(targets)])
    return ScoreComponents(
        token=torch.einsum("rtse,he->rths", cells, of_mask),
        token_position=torch.einsum("rtse,the->rths", cells, of_position),
        position=of_mask @ positions.T,
        position_position=of_position @ positions.T,
    )


def similarity_components(
    network: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> SimilarityComponents:
    """The four components of every expert."""
    cells, m, layer = masked_copies(network, sentences, targets), list(targets), network.layer
    readout = network.readout[m]
    to_logits = readout + readout @ layer.hidden  # W^l = W''(I + W')
    lov = torch.einsum("tpe,hed,hdf->thpf", to_logits, layer.out, layer.value)
    constant = readout @ layer.hidden_bias + network.readout_bias[m]
    g = to_logits @ (network.mask + layer.added) + constant
    d = torch.einsum("tpe,te->tp", to_logits, network.positions[m])
    return SimilarityComponents(
        token=torch.einsum("rtse,thpe->rthsp", cells, lov),
        position=torch.einsum("se,thpe->thsp", network.positions, lov),
        center=g / layer.n_heads,
        center_position=d / layer.n_heads,
    )


def masked_copies(
    network: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> Float[Tensor, "rows targets positions embed"]:
    """c_xj of each cell, MASK at the target."""
    check_sentences(network, sentences, targets)
    c, token = network.tokens, sentences.token
    share = sentences.share_of_next.to(c.dtype)[..., None]
    between = torch.lerp(c[token], c[(token + 1).clamp(max=len(c) - 1)], share)
    own = torch.where(sentences.is_mask[..., None], network.mask, between)
    at_target = _at_target(sentences, targets)[..., None]
    return torch.where(at_target, network.mask, own[:, None])


def weighing(
    sentences: Sentences, targets: Sequence[int]
) -> Bool[Tensor, "rows targets positions"]:
    """Which experts count: all that stand in the row, and the MASK at the target."""
    return sentences.shown[:, None] | _at_target(sentences, targets)


def _at_target(sentences: Sentences, targets: Sequence[int]) -> Bool[Tensor, "1 targets positions"]:
    positions = torch.arange(sentences.code.shape[1])
    return (positions == torch.tensor(list(targets), dtype=torch.int64)[:, None])[None]
