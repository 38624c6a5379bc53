"""How scores become weights."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class ScoreKernel(ABC):
    """How scores become weights: divided by their sum (`normalizes`), or each for itself."""

    normalizes: bool

    @abstractmethod
    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        """Attention weights; 0 wherever a key may not be attended."""

    def share(self, n_visible: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Weight of a score of 1 among `n_visible` keys, where the kernel does not normalize."""
        return torch.ones_like(n_visible)

    def strength(self, scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What is multiplied with the share, where the kernel does not normalize: the scores."""
        return scores


class Softmax(ScoreKernel):
    """Weights exp(score), normalized over the keys that may be attended.

    >>> Softmax().weights(torch.zeros(1, 2), torch.tensor([[True, True]])).tolist()
    [[0.5, 0.5]]
    """

    normalizes = True

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        # A finite fill: a row with nothing to attend to would be softmax(-inf) = NaN; the second
        # fill makes such a row 0, so that a lone element simply has no context.
        low = torch.finfo(scores.dtype).min / 2
        return scores.masked_fill(~may_attend, low).softmax(dim=-1).masked_fill(~may_attend, 0.0)


class Linear(ScoreKernel):
    """Weights equal to the scores: the paper's linear attention (section 3.3).

    >>> Linear().weights(torch.tensor([[2.0, 3.0]]), torch.tensor([[True, False]])).tolist()
    [[2.0, 0.0]]
    """

    normalizes = False

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        return scores.masked_fill(~may_attend, 0.0)


class Mean(ScoreKernel):
    """Linear attention divided by the number of keys that may be attended.

    The 1/(I-1) of proposition 3, for groups of any length; 1/(i-1) in a causal model.

    >>> visible = torch.tensor([[True, True, False]])
    >>> Mean().weights(torch.tensor([[2.0, 3.0, 4.0]]), visible).tolist()
    [[1.0, 1.5, 0.0]]
    """

    normalizes = False

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        n_visible = may_attend.sum(-1, keepdim=True).to(scores.dtype)
        return scores.masked_fill(~may_attend, 0.0) * self.share(n_visible)

    def share(self, n_visible: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return n_visible.clamp_min(1.0).reciprocal()


class ReluMean(Mean):
    """Scores above 0, divided by the number of keys that may be attended: ReLU attention / n.

    Source: Bai et al. (2023), whose transformer Theorem 2 of "Exponential Family Attention" is of.

    >>> visible = torch.tensor([[True, True, False]])
    >>> ReluMean().weights(torch.tensor([[2.0, -3.0, 4.0]]), visible).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        return super().weights(self.strength(scores), may_attend)

    def strength(self, scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return scores.relu()


SCORE_KERNELS: dict[str, type[ScoreKernel]] = {
    "linear": Linear,
    "mean": Mean,
    "relu-mean": ReluMean,
    "softmax": Softmax,
}
