"""A word predicted from those around it, a mixture of experts whose weights are a part.

    p(b | context) = exp(eta_b) / sum over all words b' of exp(eta_b'),
    eta_b = sum_j alpha_j(b) u_b . v_(x_j) + g_b

with j over the words around. u_b . v_x is the expert of word x; the weights are

    even     alpha_j = 1 / n, as in CBOW
    mask     alpha_j = softmax_j(v_(x_j) . a), linear attention with a = W^KQ c_MASK
    center   alpha_j(b) = softmax_j(q_b . k_(x_j) / sqrt(key_dim)), attention word embeddings

The last depend on the center word, which is what is asked for: each candidate b weighs the context
for itself, in its own eta_b, and the softmax over b goes over all these. Weights of the true center
in all of them would give the answer away, and leave no distribution.
Source: "Bidirectional attention as a mixture of continuous word experts", section 2.2, footnote 1
and proposition 6; Sonkar et al. (2020), who train by negative sampling, not by this softmax.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_positive, check_whole
from exfam.embeddings import ItemEmbedding
from exfam.groups import Batch
from exfam.layers import normal

# Of one width for all words, or one for each candidate.
Scores = Float[Tensor, "batch length window candidates"]


class Window(NamedTuple):
    """The words around each element: codes, how far they are (before: below 0), which are there."""

    item: Int64[Tensor, "batch length window"]
    offset: Int64[Tensor, "window"]
    there: Bool[Tensor, "batch length window"]


class ContextScores(nn.Module, ABC):
    """How much each word of a context counts, before the softmax over the context.

    Scores have one column if they are alike for all candidates, else one a candidate.
    """

    @abstractmethod
    def forward(self, window: Window) -> Scores:
        """A score for each word of each window."""


class EvenScores(ContextScores):
    """All alike, as in CBOW.

    >>> EvenScores()(window_of(torch.zeros(1, 3, dtype=torch.int64), most=2)).shape
    torch.Size([1, 3, 4, 1])
    """

    def forward(self, window: Window) -> Scores:
        return torch.zeros(*window.item.shape, 1, device=window.item.device)


class MaskScores(ContextScores):
    """v_x . a: what the MASK token asks of each word, by the vectors that predict.

    >>> words = ItemEmbedding(5, 4, generator=torch.Generator().manual_seed(0))
    >>> MaskScores(words)(window_of(torch.zeros(1, 3, dtype=torch.int64), most=2)).shape
    torch.Size([1, 3, 4, 1])
    """

    def __init__(self, words: ItemEmbedding) -> None:
        super().__init__()
        self.words = words
        self.asked = nn.Parameter(torch.zeros(words.dim))

    def forward(self, window: Window) -> Scores:
        return (self.words.vectors() @ self.asked)[window.item][..., None]


class CenterScores(ContextScores):
    """q_b . k_x / sqrt(key_dim): each candidate b asks for itself.

    >>> scores = CenterScores(5, 4, generator=torch.Generator().manual_seed(0))
    >>> scores(window_of(torch.zeros(1, 3, dtype=torch.int64), most=2)).shape
    torch.Size([1, 3, 4, 5])
    """

    def __init__(self, n_words: int, key_dim: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.query = nn.Parameter(normal(n_words, key_dim, scale=0.1, generator=generator))
        self.key = nn.Parameter(normal(n_words, key_dim, scale=0.1, generator=generator))

    def forward(self, window: Window) -> Scores:
        scores = self.key @ self.query.T / math.sqrt(self.key.shape[1])
        return nn.functional.embedding(window.item, scores)


class WithOffsets(ContextScores):
    """Other scores plus a learned number for each distance up to `most`, before and after.

    What is weighed is then a (word, position) pair, the position counted from the center.

    >>> scores = WithOffsets(EvenScores(), most=2)
    >>> scores(window_of(torch.zeros(1, 3, dtype=torch.int64), most=2)).shape
    torch.Size([1, 3, 4, 1])
    """

    def __init__(self, scores: ContextScores, *, most: int) -> None:
        super().__init__()
        check_whole("most", most)
        self.scores, self.most = scores, most
        self.of_offset = nn.Parameter(torch.zeros(2 * most))

    def forward(self, window: Window) -> Scores:
        # Offsets -most .. -1, 1 .. most have the numbers 0 .. 2 most - 1.
        number = window.offset + self.most - (window.offset > 0).to(torch.int64)
        return self.scores(window) + self.of_offset[number][:, None]


def window_of(
    item: Int64[Tensor, "batch length"],
    *,
    most: int | None,
    known: Bool[Tensor, "batch length"] | None = None,
) -> Window:
    """The words around each of a sentence, up to a distance of `most`, or all of them.

    `known`: which may be context; all if None (default None)

    >>> window_of(torch.tensor([[4, 5, 6]]), most=1).item.tolist()
    [[[4, 5], [4, 6], [5, 6]]]
    >>> window_of(torch.tensor([[4, 5, 6]]), most=1).there.int().tolist()
    [[[0, 1], [1, 1], [1, 0]]]
    """
    length = item.shape[1]
    far = max(1, length - 1)
    far = far if most is None else min(most, far)
    offset = torch.arange(-far, far + 1, device=item.device)
    offset = offset[offset != 0]
    place = torch.arange(length, device=item.device)[:, None] + offset
    inside = (place >= 0) & (place < length)
    place = place.clamp(0, length - 1)
    seen = torch.ones_like(item, dtype=torch.bool) if known is None else known
    return Window(item.clamp_min(0)[:, place], offset, seen[:, place] & inside)


class ContextWords(nn.Module):
    """Outputs of all words for each element of a sentence, given those around it.

    `given`: vectors v of the words around; `predicted`: vectors u of the word that is predicted
    `scores`: how they are weighed; `window`: the largest distance, None for the whole sentence

    Words that the vocabulary does not know are no context. Without any context eta is g, which
    starts at 0. Raises ExfamError for vectors that do not fit, or a window that is no whole number.
    """

    direction = "bidirectional"

    def __init__(
        self,
        given: ItemEmbedding,
        predicted: ItemEmbedding,
        scores: ContextScores,
        *,
        window: int | None,
    ) -> None:
        super().__init__()
        if (given.n_items, given.dim) != (predicted.n_items, predicted.dim):
            raise ExfamError(
                f"`predicted` must have {given.n_items} vectors of length {given.dim} as `given`, "
                f"got {predicted.n_items} of length {predicted.dim}."
            )
        if window is not None:
            check_whole("window", window)
        self.given, self.predicted, self.scores, self.window = given, predicted, scores, window
        self.constant = nn.Parameter(torch.zeros(given.n_items))

    @property
    def n_items(self) -> int:
        """How many words there are."""
        return self.given.n_items

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
        known = batch.present & (batch.item >= 0)
        return window_of(batch.item, most=self.window, known=known)

    def weights(self, window: Window) -> Scores:
        """alpha, which sums to 1 over a window, or is 0 where there is nothing around."""
        scores = self.scores(window).to(self.constant.dtype)
        there = window.there[..., None]
        low = torch.finfo(scores.dtype).min / 2
        return scores.masked_fill(~there, low).softmax(2).masked_fill(~there, 0.0)

    def contributions(self, window: Window) -> Float[Tensor, "batch length window words"]:
        """u_b . v_x of each word x around and each candidate b: the experts."""
        products = self.given.vectors() @ self.predicted.vectors().T
        return nn.functional.embedding(window.item, products)


@dataclass(frozen=True)
class ContextWordsSettings:
    """Sizes and choices of a model of words.

    `weights`: "even", "mask" or "center", see `CONTEXT_WEIGHTS`; `key_dim` is for "center" alone
    `offsets`: whether distances count too, which takes a `window`

    Raises ExfamError for other choices and sizes.
    """

    weights: str = "center"
    dim: int = 32
    key_dim: int = 16
    window: int | None = None
    offsets: bool = False

    def __post_init__(self) -> None:
        check_choice("weights", self.weights, CONTEXT_WEIGHTS)
        check_positive("dim", self.dim)
        check_positive("key_dim", self.key_dim)
        if self.offsets and self.window is None:
            raise ExfamError("`window` must be an integer >= 1 for scores of offsets, got None.")


def build_context_words(
    n_words: int, settings: ContextWordsSettings, *, generator: torch.Generator
) -> ContextWords:
    """A network of these sizes; outputs start at 0."""
    given = ItemEmbedding(n_words, settings.dim, generator=generator, scale=settings.dim**-0.5)
    predicted = ItemEmbedding(n_words, settings.dim, generator=generator, scale=0.0)
    scores = CONTEXT_WEIGHTS[settings.weights](given, settings, generator)
    if settings.offsets:
        assert settings.window is not None
        scores = WithOffsets(scores, most=settings.window)
    return ContextWords(given, predicted, scores, window=settings.window)


_Make = Callable[[ItemEmbedding, ContextWordsSettings, torch.Generator], ContextScores]

CONTEXT_WEIGHTS: dict[str, _Make] = {
    "center": lambda words, settings, generator: CenterScores(
        words.n_items, settings.key_dim, generator=generator
    ),
    "even": lambda words, settings, generator: EvenScores(),
    "mask": lambda words, settings, generator: MaskScores(words),
}
