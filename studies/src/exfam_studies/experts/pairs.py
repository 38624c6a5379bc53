"""(Word, position) pairs as units: one expert and one strength a pair, the same in all sentences.

In a network of one linear attention layer, what a cell does depends on its word, its position and
the target alone: x_j = c_w + p_j. So the logits of target m are

    sum_h sum_j tau^h(x_j, j) f^h(x_j, j) / sum_j tau^h(x_j, j)

with tables of all pairs: tau = exp(score) and f = W^LOV (c_w + p_j) + (g + D e_m) / H. The MASK
token at the target is a unit, too.
Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2 and the last
remark of section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.experts import (
    Experts,
    LinearAttention,
    Sentences,
    score_components,
    similarity_components,
)
from exfam.experts.sentences import check_sentences


@dataclass(frozen=True, eq=False)
class PairExperts:
    """Scores and experts of all pairs of a unit and a position, for each target.

    Units are the network's tokens and, last, MASK. At a target's own position there is only MASK,
    and all units there stand for it.
    """

    attention: LinearAttention
    targets: tuple[int, ...]
    scores: Float[Tensor, "units targets heads positions"]
    contributions: Float[Tensor, "units targets heads positions params"]

    @property
    def strengths(self) -> Float[Tensor, "units targets heads positions"]:
        """tau = exp(score), of each head and target relative to the largest."""
        return (self.scores - self.scores.amax((0, 3), keepdim=True)).exp()

    def experts(self, sentences: Sentences) -> Experts:
        """The experts of each sentence, looked up in the tables: the network's own, exactly.

        Raises ExfamError for sentences of another network, or with cells between two tokens, which
        are no units.
        """
        code, stands = unit_codes(self.attention, sentences, self.targets)
        row = code.clamp_min(0)[:, :, None]  # rows, targets, heads, positions
        target = torch.arange(len(self.targets))[:, None, None]
        head = torch.arange(self.scores.shape[2])[:, None]
        place = torch.arange(self.scores.shape[3])
        scores = self.scores[row, target, head, place]
        contributions = self.contributions[row, target, head, place]
        weighs = stands[:, :, None]
        return Experts(
            scores.masked_fill(~weighs, -torch.inf).softmax(-1),
            contributions.masked_fill(~weighs[..., None], 0.0),
        )


def pair_experts(attention: LinearAttention, targets: Sequence[int]) -> PairExperts:
    """The tables of all (word, position) pairs, for each target.

    They have as many numbers as units, targets, heads, positions and outputs multiply to. Raises
    ExfamError for targets that the network does not have.
    """
    # A sentence of one and the same token for each of them, and one of MASK alone.
    n_tokens, n_positions = len(attention.tokens), attention.n_positions
    code = torch.arange(n_tokens + 1)[:, None].expand(-1, n_positions)
    masked = code == n_tokens
    rows = Sentences(torch.where(masked, -1, code), masked=masked)
    return PairExperts(
        attention,
        tuple(targets),
        score_components(attention, rows, targets).total,
        similarity_components(attention, rows, targets).total,
    )


def unit_codes(
    attention: LinearAttention, sentences: Sentences, targets: Sequence[int]
) -> tuple[Int64[Tensor, "rows targets positions"], Bool[Tensor, "rows targets positions"]]:
    """Which unit stands where, seen from each target, and where one stands at all.

    The last unit is MASK, which stands at the target. Raises ExfamError for sentences of another
    network, or with cells between two tokens.

    >>> from exfam.experts import random_network
    >>> network = random_network(torch.Generator().manual_seed(0))
    >>> unit_codes(network, Sentences(torch.tensor([[0, -1, 2]])), [2])[0].tolist()
    [[[0, -1, 7]]]
    """
    check_sentences(attention, sentences, targets)
    if bool((sentences.share_of_next > 0).any()):
        raise ExfamError("`sentences` must be of whole tokens as units, got cells between two.")
    mask = len(attention.tokens)
    code = torch.where(sentences.is_mask, mask, sentences.token)
    code = torch.where(sentences.shown, code, -1)[:, None].expand(-1, len(targets), -1)
    place = torch.arange(attention.n_positions)
    at_target = place == torch.tensor(list(targets), dtype=torch.int64)[:, None]
    code = torch.where(at_target, mask, code)
    return code, code >= 0
