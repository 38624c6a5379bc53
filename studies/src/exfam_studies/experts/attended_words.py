"""Models of words as mixtures of experts: each word around is one, weighed for each candidate."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.groups import Batch
from exfam_studies.experts.context_words import ContextWords, Window


@dataclass(frozen=True, eq=False)
class WordExperts:
    """eta of every element as g plus weights times experts, summed over the words around it.

    `weights` alpha_j(b) have a column a candidate b, all alike unless they depend on the center
    word; they sum to 1 over the window, or are 0 where there is nothing around. `contributions`
    are u_b . v_(x_j). `window` has the words and how far they are.
    """

    weights: Float[Tensor, "batch length window words"]
    contributions: Float[Tensor, "batch length window words"]
    constant: Float[Tensor, "words"]
    window: Window

    @property
    def parts(self) -> Float[Tensor, "batch length window words"]:
        """What each word around adds to the outputs."""
        return self.weights * self.contributions

    @property
    def eta(self) -> Float[Tensor, "batch length words"]:
        """The network's outputs."""
        return self.parts.sum(2) + self.constant

    def removal_effects(self) -> Float[Tensor, "batch length window words"]:
        """The outputs minus those without each word around: exact, without another pass.

        Without word j the others' weights are divided by their sum, for each candidate by its own.
        """
        total, parts = self.parts.sum(2, keepdim=True), self.parts
        # Sums over the others, not the total less one: where one word has about all the weight, the
        # difference would keep no digits of what is left.
        others = 1 - torch.eye(parts.shape[2], dtype=parts.dtype, device=parts.device)
        left = torch.einsum("blkp,kj->bljp", parts, others)
        share = torch.einsum("blkp,kj->bljp", self.weights, others)
        effects = total - left / share.clamp_min(torch.finfo(share.dtype).tiny)
        return effects.masked_fill(~self.window.there[..., None], 0.0)


@dataclass(frozen=True, eq=False)
class WordAttention:
    """A model of words and its experts."""

    network: ContextWords

    @torch.no_grad()
    def experts(self, batch: Batch) -> WordExperts:
        """The experts of every element of a batch."""
        window = self.network.around(batch)
        contributions = self.network.contributions(window)
        return WordExperts(
            weights=self.network.weights(window).expand_as(contributions),
            contributions=contributions,
            constant=self.network.constant.detach(),
            window=window,
        )
