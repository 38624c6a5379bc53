"""How far two word sets are from paraphrasing each other: rho, sigma, delta and xi.

    rho_j     = log p(c_j | W*) / p(c_j | W)
    sigma_j^W = log p(W | c_j) / product over W of p(w_i | c_j)
    delta     = log p(W*) / p(W), the same for all j
    xi_j      = log p(W* | c_j) / p(W | c_j)

The bar versions are those of a law of attention windows. p(W | c_j) is in rho and xi and, with the
opposite sign, in sigma^W - sigma^W*: it cancels in their sum.
Source: Appendix G of the paper on bidirectional attention as a mixture of experts, Definition 10
and Lemmas 11 and 15.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from exfam.checks import DataError
from exfam_studies.experts.paraphrases.laws import WordLaw, never_together


@dataclass(frozen=True, eq=False)
class ParaphraseTerms:
    """The terms of two sets W and W*, in nats, one number a context word but for `delta`.

    `sigma`, `sigma_star`: of W and of W*
    `seen`: whether both sets were counted around c_j, before smoothing
    """

    rho: Float[np.ndarray, "contexts"]
    sigma: Float[np.ndarray, "contexts"]
    sigma_star: Float[np.ndarray, "contexts"]
    delta: float
    xi: Float[np.ndarray, "contexts"]
    seen: Bool[np.ndarray, "contexts"]

    @property
    def dependence(self) -> Float[np.ndarray, "contexts"]:
        """Delta = sigma^W - sigma^W*, how dependent words of the sets are given c_j."""
        return self.sigma - self.sigma_star

    @property
    def finite(self) -> Bool[np.ndarray, "contexts"]:
        """Where no probability is 0."""
        terms = np.stack([self.rho, self.sigma, self.sigma_star, self.xi])
        return np.isfinite(terms).all(axis=0)


def paraphrase_terms(
    law: WordLaw, words: Collection[str], star: Collection[str]
) -> ParaphraseTerms:
    """The terms of W = `words` and W* = `star`, of any sizes of at least 1.

    Without smoothing, terms of contexts around which a set does not occur are infinite or NaN.
    Raises DataError for a set that is empty or never occurs, or holds a word twice;
    UnknownWordError, with near spellings, for unknown words.
    """
    given, seen = law.given_and_seen(words)
    given_star, seen_star = law.given_and_seen(star)
    p, p_star = float(given @ law.context), float(given_star @ law.context)
    for own, total in ((words, p), (star, p_star)):
        if not total > 0:
            raise never_together(own)
    with np.errstate(divide="ignore", invalid="ignore"):
        # p(c_j | W) = p(W | c_j) p(c_j) / p(W)
        of_context, of_context_star = given * law.context / p, given_star * law.context / p_star
        return ParaphraseTerms(
            rho=np.log(of_context_star) - np.log(of_context),
            sigma=_sigma(law, words, given),
            sigma_star=_sigma(law, star, given_star),
            delta=float(np.log(p_star) - np.log(p)),
            xi=np.log(given_star) - np.log(given),
            seen=seen & seen_star,
        )


def factorized_matrix(law: WordLaw) -> Float[np.ndarray, "words contexts"]:
    """M_ij = log p(w_i, c_j) / p(c_j) + log |V|, or N of attention windows: what is factorized.

    Raises DataError where a pair has probability 0.
    Source: Propositions 9 and 14 of the paper on bidirectional attention as a mixture of experts.

    >>> from exfam_studies.experts.paraphrases import sentence_windows
    >>> factorized_matrix(WordLaw(sentence_windows([["a", "b"]]), smoothing=0.5)).round(3)
    array([[-0.693,  0.405],
           [ 0.405, -0.693]])
    """
    pairs = law.pairs
    if not (pairs > 0).all():
        i, j = np.argwhere(~(pairs > 0))[0]
        raise DataError(
            f"`law` must give each pair a probability above 0, got 0 for {law.words[i]!r} around "
            f"{law.words[j]!r} ({(pairs == 0).mean():.0%} of pairs). Take smoothing above 0."
        )
    return np.log(pairs) + np.log(len(law.words))


def _sigma(
    law: WordLaw, words: Collection[str], given: Float[np.ndarray, "contexts"]
) -> Float[np.ndarray, "contexts"]:
    apart = sum(np.log(law.single(word)) for word in words)
    return np.log(given) - apart
