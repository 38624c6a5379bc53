"""CBOW: a word predicted by the mean of those around it, by softmax or negative sampling."""

from typing import TYPE_CHECKING, Any

import numpy as np

from exfam.checks import ExfamError
from exfam.estimator.base import parameter, settings_from
from exfam.estimator.rules import Choice, OrNone, Positive, Whole, python_number
from exfam.kernels.sampled import train_cbow
from exfam.training.epochs import EpochSettings, Piece
from exfam.words.matrices import WordMatrices
from exfam.words.softmax import AdamPass, adam_arrays, contexts, log_likelihood
from exfam.words.word_estimator import TextEstimator

if TYPE_CHECKING:
    from exfam.families import Bernoulli, Categorical


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
        given = {"learning_rate": python_number(rate), "threads": threads}
        if self._exact:
            given["last_share"] = 1.0
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
        moments, size = adam_arrays(self.matrices_), int(self.batch_size)
        train = AdamPass(self.matrices_, moments, window=self.window, batch_size=size)
        return train, self.matrices_.arrays | moments

    def _log_likelihood(self, tokens: np.ndarray) -> tuple[float, float]:
        if not self._exact:
            return super()._log_likelihood(tokens)
        windows = contexts(tokens, n_words=len(self.vocabulary_), window=self.window)
        nats = log_likelihood(*windows, self.matrices_)
        return float(nats.sum()), float(len(nats))
