"""Words whose vectors, context vectors and probabilities are known.

    w_j ~ N(0, 1 / dim) in each coordinate      (assumption 1)
    c_i = Q w_i with Q orthogonal               (assumption 2)
    p(i | j) = p_i exp(w_j . c_i) / Z_j         (assumption 3), p_i ~ 1 / rank^(1 - alpha)

Source: the paper on reflections, eqs. 1 to 4.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.special
from jaxtyping import Float

from exfam.checks import ExfamError, check_positive


@dataclass(frozen=True, eq=False)
class SimulatedWords:
    """The truth about words: vectors, the map to context vectors, and how frequent they are."""

    words: Float[np.ndarray, "words dim"]
    transform: Float[np.ndarray, "dim dim"]
    probability: Float[np.ndarray, "words"]

    @property
    def context(self) -> Float[np.ndarray, "words dim"]:
        return self.words @ self.transform.T

    def log_conditional(self) -> Float[np.ndarray, "words words"]:
        logits = self.words @ self.context.T + np.log(self.probability)
        return scipy.special.log_softmax(logits, axis=1)

    def information(self) -> Float[np.ndarray, "words words"]:
        """log p(i | j) / p_i in nats, one row for each j: what the paper calls PMI."""
        return self.log_conditional() - np.log(self.probability)

    def draw_counts(self, n_pairs: int, *, seed: int) -> scipy.sparse.csr_array:
        """How often each word j (rows) had each i in its context, in `n_pairs` draws."""
        random = np.random.default_rng(seed)
        centers = random.multinomial(n_pairs, self.probability)
        drawn = random.multinomial(centers, np.exp(self.log_conditional()))
        return scipy.sparse.csr_array(drawn.astype(np.int64))


def simulate_words(
    n_words: int,
    *,
    dim: int,
    n_positive: int | None = None,
    transform: Float[np.ndarray, "rows columns"] | None = None,
    alpha: float = 0.25,
    seed: int,
) -> SimulatedWords:
    """`n_positive` of Q's signs are +1; `alpha` smooths frequencies, from Zipf's to equal ones."""
    check_positive("n_words", n_words)
    check_positive("dim", dim)
    if not 0 < alpha <= 1:
        raise ExfamError(f"`alpha` must be in (0, 1], got {alpha}.")
    if transform is None:
        transform = np.diag(_signs(dim, dim // 2 if n_positive is None else n_positive))
    elif transform.shape != (dim, dim) or not np.allclose(transform @ transform.T, np.eye(dim)):
        raise ExfamError(
            f"`transform` must be an orthogonal matrix of {dim} rows, got another of shape "
            f"{transform.shape}."
        )
    words = np.random.default_rng(seed).standard_normal((n_words, dim)) / np.sqrt(dim)
    share = np.arange(1, n_words + 1) ** (alpha - 1.0)
    return SimulatedWords(words, transform, share / share.sum())


def _signs(dim: int, n_positive: int) -> Float[np.ndarray, "dim"]:
    if not 0 <= n_positive <= dim:
        raise ExfamError(f"`n_positive` must be from 0 to {dim}, got {n_positive}.")
    return np.where(np.arange(dim) < n_positive, 1.0, -1.0)
