"""Words whose vectors, context vectors and probabilities are known.

    w_j ~ N(0, 1 / dim) in each coordinate      (assumption 1)
    c_i = Q w_i with Q orthogonal               (assumption 2)
    p(i | j) = p_i exp(w_j . c_i) / Z_j         (assumption 3), p_i ~ 1 / rank^(1 - alpha)

Source: the paper on reflections, eqs. 1 to 4.
"""

from dataclasses import dataclass

import numpy as np
import scipy.special


@dataclass(frozen=True, eq=False)
class SimulatedWords:
    """The truth about words: vectors, the map to context vectors, and how frequent they are."""

    words: np.ndarray
    transform: np.ndarray
    probability: np.ndarray

    @property
    def context(self):
        return self.words @ self.transform.T

    def log_conditional(self):
        logits = self.words @ self.context.T + np.log(self.probability)
        return scipy.special.log_softmax(logits, axis=1)

    def information(self):
        """log p(i | j) / p_i in nats, one row for each j: what the paper calls PMI."""
        return self.log_conditional() - np.log(self.probability)


def simulate_words(n_words, *, dim, n_positive=None, transform=None, alpha=0.25, seed):
    """`n_positive` of Q's signs are +1; `alpha` smooths frequencies, from Zipf's to equal ones."""
    if transform is None:
        n_positive = dim // 2 if n_positive is None else n_positive
        transform = np.diag(np.where(np.arange(dim) < n_positive, 1.0, -1.0))
    words = np.random.default_rng(seed).standard_normal((n_words, dim)) / np.sqrt(dim)
    share = np.arange(1, n_words + 1) ** (alpha - 1.0)
    return SimulatedWords(words, transform, share / share.sum())
