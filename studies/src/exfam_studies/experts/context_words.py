"""A word predicted from those around it, a mixture of experts whose weights are a part.

    p(b | context) = exp(eta_b) / sum over all words b' of exp(eta_b'),
    eta_b = sum_j alpha_j(b) u_b . v_(x_j) + g_b

with j over the words around. u_b . v_x is the expert of word x; the weights are

    even     alpha_j = 1 / n, as in CBOW
    mask     alpha_j = softmax_j(v_(x_j) . a), linear attention with a = W^KQ c_MASK
    center   alpha_j(b) = softmax_j(q_b . k_(x_j) / sqrt(key_dim)), attention word embeddings

The last depend on the word that is predicted: each candidate b weighs the context for itself, and
the softmax over b goes over all eta_b. Weights of the true center would give the answer away.
Source: "Bidirectional attention as a mixture of continuous word experts", section 2.2, footnote 1
and proposition 6; Sonkar et al. (2020), who train by negative sampling, not by this softmax.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.embeddings import ItemEmbedding
from exfam.groups import Batch
from exfam.layers import normal

CONTEXT_WEIGHTS = ("center", "even", "mask")
# Of one width for all words, or one for each candidate.
Scores = Float[Tensor, "batch length window candidates"]


class Window(NamedTuple):
    """The words around each element: codes, how far they are (before: below 0), which are there."""

    item: Int64[Tensor, "batch length window"]
    offset: Int64[Tensor, "window"]
    there: Bool[Tensor, "batch length window"]


class WordExperts(NamedTuple):
    """eta of every element as g plus weights alpha_j(b) times experts u_b . v_(x_j) around it."""

    weights: Float[Tensor, "batch length window words"]
    contributions: Float[Tensor, "batch length window words"]
    constant: Float[Tensor, "words"]


class ContextWords(nn.Module):
    """Outputs of all words for each element of a sentence, given those around it.

    `window`: the largest distance, None for the whole sentence
    `offsets`: whether weights also have a learned factor for each distance

    Outputs start at 0. Unknown words are no context. Raises ExfamError for other choices.
    """

    direction = "bidirectional"

    def __init__(
        self,
        n_words: int,
        *,
        weights: str = "center",
        dim: int = 32,
        key_dim: int = 16,
        window: int | None = None,
        offsets: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        check_choice("weights", weights, CONTEXT_WEIGHTS)
        if window is not None or offsets:
            check_whole("window", window)
        self.n_items, self.window = n_words, window
        self.given = ItemEmbedding(n_words, dim, generator=generator, scale=dim**-0.5)
        self.predicted = ItemEmbedding(n_words, dim, generator=generator, scale=0.0)
        self.scores, self.constant = nn.ParameterDict(), nn.Parameter(torch.zeros(n_words))
        if offsets and window is not None:
            self.scores["offset"] = nn.Parameter(torch.zeros(2 * window))
        if weights == "mask":
            self.scores["mask"] = nn.Parameter(torch.zeros(dim))
        elif weights == "center":
            for name in ("query", "key"):
                drawn = normal(n_words, key_dim, scale=0.1, generator=generator)
                self.scores[name] = nn.Parameter(drawn)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length words"]:
        """One output a word for every element."""
        window = self.around(batch)
        weights = self.weights(window)
        if weights.shape[-1] == 1:
            # Weights alike for all candidates: a mean of vectors, and one product.
            vectors = self.given.vectors()[window.item]
            return (weights * vectors).sum(2) @ self.predicted.vectors().T + self.constant
        return (weights * self.contributions(window)).sum(2) + self.constant

    def around(self, batch: Batch) -> Window:
        """The words around each element. Raises ExfamError for groups without items."""
        if batch.item is None:
            raise ExfamError("`item` must be given for a model of words, got groups without items.")
        item, length = batch.item, batch.item.shape[1]
        far = min(self.window or length, max(1, length - 1))
        offset = torch.arange(-far, far + 1, device=item.device)
        offset = offset[offset != 0]
        position = torch.arange(length, device=item.device)[:, None] + offset
        inside = (position >= 0) & (position < length)
        position = position.clamp(0, length - 1)
        known = batch.present & (item >= 0)
        return Window(item.clamp_min(0)[:, position], offset, known[:, position] & inside)

    def weights(self, window: Window) -> Scores:
        """alpha, which sums to 1 over a window, or is 0 where there is nothing around."""
        scores = self._scores(window).to(self.constant.dtype)
        there = window.there[..., None]
        low = torch.finfo(scores.dtype).min / 2
        return scores.masked_fill(~there, low).softmax(2).masked_fill(~there, 0.0)

    def _scores(self, window: Window) -> Scores:
        """Of one column if they are alike for all candidates, else one a candidate."""
        if "query" in self.scores:
            query, key = self.scores["query"], self.scores["key"]
            products = key @ query.T / math.sqrt(key.shape[1])
            scores = nn.functional.embedding(window.item, products)
        elif "mask" in self.scores:
            scores = (self.given.vectors() @ self.scores["mask"])[window.item][..., None]
        else:
            scores = torch.zeros(*window.item.shape, 1, device=window.item.device)
        if "offset" in self.scores:
            assert self.window is not None
            # Offsets -window .. -1, 1 .. window have the numbers 0 .. 2 window - 1.
            number = window.offset + self.window - (window.offset > 0).to(torch.int64)
            scores = scores + self.scores["offset"][number][:, None]
        return scores

    def contributions(self, window: Window) -> Float[Tensor, "batch length window words"]:
        """u_b . v_x of each word x around and each candidate b: the experts."""
        products = self.given.vectors() @ self.predicted.vectors().T
        return nn.functional.embedding(window.item, products)

    @torch.no_grad()
    def experts(self, batch: Batch) -> WordExperts:
        """The model as a mixture of experts, of every element of a batch."""
        window = self.around(batch)
        contributions = self.contributions(window)
        weights = self.weights(window).expand_as(contributions)
        return WordExperts(weights, contributions, self.constant.detach())
