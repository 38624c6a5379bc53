"""CBOW: a word predicted by the mean of those around it, by softmax or negative sampling."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.special
from jaxtyping import Float64, Int32, Int64

from exfam.checks import ExfamError
from exfam.estimator.base import parameter, settings_from
from exfam.estimator.rules import Choice, OrNone, Positive, Whole, python_number
from exfam.kernels.sampled import train_cbow
from exfam.training.epochs import EpochSettings, Piece
from exfam.words.matrices import WordMatrices
from exfam.words.word_estimator import TextEstimator

if TYPE_CHECKING:
    from exfam.families import Bernoulli, Categorical

# Adam's.
_DECAYS, _TINY = (0.9, 0.999), 1e-8


class CBOW(TextEstimator):
    """Word vectors by a continuous bag of words.

    A word is predicted by the mean of the vectors around it. With "softmax" it is Categorical over
    all words, exact, trained by Adam: for small vocabularies. With "negative_sampling" whether it
    is the word or one drawn as noise is a Bernoulli.

    {parameters}

    >>> text = ["i like cats and dogs", "i like dogs and cats"] * 50
    >>> model = CBOW(likelihood="softmax", window=None, dim=4).fit(text)
    >>> -1.7 < model.score(text) < 0
    True
    """

    kind = "cbow"
    _kernel = staticmethod(train_cbow)
    likelihood: str = parameter(
        Choice(("negative_sampling", "softmax")),
        '"negative_sampling" or "softmax"',
        default="negative_sampling",
    )
    window: Any = parameter(
        OrNone(Whole()),
        "the largest distance; drawn from 1 to this for negative sampling; None for the whole"
        " sentence, with softmax only",
        default=5,
    )
    negatives: int = parameter(text="words drawn as noise; of no use to softmax", default=5)
    tie: str | None = parameter(text="as in `SkipGram`; for negative sampling only", default=None)
    subsample: float = parameter(
        text="frequency above which words are left out at random; for negative sampling only",
        default=0.001,
    )
    learning_rate: Any = parameter(
        OrNone(Positive()),
        "None for 0.075, falling linearly, of negative sampling and for 0.001, constant, of Adam",
        default=None,
    )
    batch_size: int = parameter(Whole(), "windows in a step of Adam", default=256)
    threads: int | str = parameter(
        text='"auto" for all processors, or a number; Adam takes one', default="auto"
    )

    @property
    def family(self) -> "Bernoulli | Categorical":
        """The family of the predicted word, or of a yes or no."""
        from exfam.families import Categorical

        return Categorical(len(self.vocabulary_)) if self._exact else super().family

    @property
    def _exact(self) -> bool:
        return self.likelihood == "softmax"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.window is None and not self._exact:
            raise ExfamError("`window` must be an integer >= 1 for negative sampling, got None.")
        if self._exact and self.tie is not None:
            raise ExfamError(
                f"`tie` must be None for likelihood='softmax', got {self.tie!r}. "
                "Use likelihood='negative_sampling'."
            )

    def _settings(self) -> EpochSettings:
        rate = self.learning_rate
        if rate is None:
            rate = 1e-3 if self._exact else 0.075
        threads = 1 if self._exact or self.deterministic else python_number(self.threads)
        constant = {"last_share": 1.0} if self._exact else {}
        given = {"learning_rate": python_number(rate), "threads": threads, **constant}
        return settings_from(self, EpochSettings, **given)

    def _initial(self, n_words: int) -> WordMatrices:
        matrices = super()._initial(n_words)
        if self._exact:
            # Adam's steps have one size for all numbers: vectors start at the size they end with.
            matrices.center[...] *= 2.0 * np.sqrt(3.0) * self.dim / np.sqrt(self.dim)
        return matrices

    def _training_pass(self) -> tuple[Piece, dict[str, np.ndarray]]:
        if not self._exact:
            return super()._training_pass()
        moments = adam_arrays(self.matrices_)
        train = AdamPass(self.matrices_, moments, self.window, int(self.batch_size))
        return train, self.matrices_.arrays | moments

    def _log_likelihood(self, tokens: np.ndarray) -> tuple[float, float]:
        if not self._exact:
            return super()._log_likelihood(tokens)
        windows = contexts(tokens, n_words=len(self.vocabulary_), window=self.window)
        nats = log_likelihood(*windows, self.matrices_)
        return float(nats.sum()), float(len(nats))


def contexts(
    tokens: Int32[np.ndarray, "tokens"], *, n_words: int, window: int | None
) -> tuple[scipy.sparse.csr_array, Int64[np.ndarray, "centers"]]:
    """What averages the words around each word that has some, and these words.

    `window`: the largest distance; None for the whole sentence, which is meant for short ones
    """
    sentence = np.cumsum(tokens < 0)
    positions: list[np.ndarray] = []
    others: list[np.ndarray] = []
    for distance in range(1, len(tokens) if window is None else window + 1):
        near = np.flatnonzero(sentence[:-distance] == sentence[distance:])
        # A sentence's end has the number of the next.
        near = near[(tokens[near] >= 0) & (tokens[near + distance] >= 0)]
        if not len(near):
            break
        positions += [near, near + distance]
        others += [near + distance, near]
    none = np.empty(0, np.int64)
    position, other = (np.concatenate([*some, none]) for some in (positions, others))
    centers, row = np.unique(position, return_inverse=True)
    share = 1.0 / np.bincount(row, minlength=len(centers))
    entries = share[row], (row, tokens[other])
    mean = scipy.sparse.csr_array(entries, shape=(len(centers), n_words), dtype=np.float32)
    return mean, tokens[centers].astype(np.int64)


def log_likelihood(
    mean: scipy.sparse.csr_array, centers: Int64[np.ndarray, "centers"], matrices: WordMatrices
) -> Float64[np.ndarray, "centers"]:
    """log p(center | context) in nats of each; eta = W h with h the mean of the context's vectors.

    `matrices`: `center` holds the context's vectors, which predict, `context` those of W
    """
    logits = ((mean @ matrices.inputs) @ matrices.outputs.T).astype(np.float64)
    return scipy.special.log_softmax(logits, axis=1)[np.arange(len(centers)), centers]


def adam_arrays(matrices: WordMatrices) -> dict[str, np.ndarray]:
    """Adam's moments of both matrices, and the number of its steps."""
    moments = {
        f"{moment} {name}": np.zeros_like(array)
        for moment in ("first", "second")
        for name, array in matrices.arrays.items()
    }
    return moments | {"steps": np.zeros(1)}


@dataclass(frozen=True, eq=False)
class AdamPass:
    """A pass of Adam over a piece of text, its windows in random batches; see `Piece`."""

    matrices: WordMatrices
    moments: dict[str, np.ndarray]
    window: int | None
    batch_size: int

    def __call__(self, tokens: np.ndarray, *, rate: float, seed: int) -> tuple[float, float]:
        """Nats of the piece's centers while it is trained, and how many centers."""
        n_words = len(self.matrices.center)
        mean, centers = contexts(tokens, n_words=n_words, window=self.window)
        order = np.random.default_rng(seed).permutation(len(centers))
        nats = 0.0
        for first in range(0, len(order), self.batch_size):
            batch = order[first : first + self.batch_size]
            nats += self._step(mean[batch], centers[batch], rate)
        return nats, float(len(centers))

    def _step(self, mean: Any, centers: np.ndarray, rate: float) -> float:
        given, weights = self.matrices.center, self.matrices.context
        assert weights is not None
        hidden = mean @ given
        logits = hidden @ weights.T
        logits -= logits.max(axis=1, keepdims=True)
        chance = np.exp(logits)
        chance /= chance.sum(axis=1, keepdims=True)
        rows = np.arange(len(centers))
        nats = -float(np.log(chance[rows, centers]).sum())
        chance[rows, centers] -= 1.0
        chance /= len(centers)
        gradients = {"center": mean.T @ (chance @ weights), "context": chance.T @ hidden}
        self.moments["steps"] += 1
        for name, gradient in gradients.items():
            self._adam(name, gradient, rate)
        return nats

    def _adam(self, name: str, gradient: np.ndarray, rate: float) -> None:
        """Source: Kingma & Ba (2015), algorithm 1."""
        first, second = self.moments[f"first {name}"], self.moments[f"second {name}"]
        n_steps = self.moments["steps"][0]
        first += (1 - _DECAYS[0]) * (gradient - first)
        second += (1 - _DECAYS[1]) * (gradient**2 - second)
        size = np.float32(rate / (1 - _DECAYS[0] ** n_steps))
        spread = np.sqrt(second / np.float32(1 - _DECAYS[1] ** n_steps)) + np.float32(_TINY)
        self.matrices.arrays[name][...] -= size * first / spread
