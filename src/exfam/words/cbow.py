"""CBOW: a word told from the mean of those around it, by softmax or by negative sampling."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from exfam.checks import ExfamError, check_positive
from exfam.estimator.rules import python_number
from exfam.kernels.cbow import train_cbow
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import EpochSettings, fit_text
from exfam.training.history import History
from exfam.words import declarations
from exfam.words.matrices import WordMatrices, initial_matrices
from exfam.words.softmax import AdamPass, adam_arrays, contexts, log_likelihood
from exfam.words.word_estimator import TextEstimator

if TYPE_CHECKING:
    from exfam.families import Bernoulli, Categorical

__all__ = ["CBOW"]


class CBOW(TextEstimator):
    """Word vectors by a continuous bag of words.

    A word is predicted by the mean of the vectors around it. With "softmax" its law is Categorical
    over all words, exact, trained by Adam: for small vocabularies. With "negative_sampling" it is
    told from words drawn as noise, each a Bernoulli.

    Model:
    `likelihood`: "negative_sampling" or "softmax" (default "negative_sampling")
    `dim`: length of a vector (default 200)
    `window`: the largest distance; drawn from 1 to this for negative sampling; None for the whole
        sentence, with softmax only (default 5)
    `negatives`: words drawn as noise; of no use to softmax (default 5)
    `tie`: as in `SkipGram`; for negative sampling only (default None)
    `positive_share`: of the signs, those that are +1 (default 0.5)
    `subsample`: frequency above which words are left out at random; for negative sampling only
        (default 0.001)
    `noise_exponent`: noise is drawn as counts to this power (default 0.75)

    Text:
    `min_count`: how often a word must be read to get a vector (default 5)
    `max_words`: the most words that get one, the most frequent (default None)
    `sentences`: "lines", or "none" where they end only with files (default "lines")
    `lower`: whether text is read in lower case (default False)
    `cleaning`: "wikifil" for a-z alone, digits spelled out (default None)

    Training:
    `learning_rate`: None for 0.075, falling linearly, of negative sampling and for 0.001, constant,
        of Adam (default None)
    `batch_size`: windows in a step of Adam (default 256)
    `epochs`: passes over the text (default 5)
    `threads`: "auto" for all processors, or a number; Adam takes one (default "auto")
    `deterministic`: one thread, so that the same seed gives the same bits (default False)
    `seed`: of initial vectors and all draws (default 0)
    `progress`: whether to draw a line on terminals (default True)

    `score` is the mean log-likelihood in nats: with softmax of every word that has a context; with
    negative sampling of all yes and no, as in `SkipGram`.
    `vectors_`: center vectors are those of the words that predict, which word2vec publishes;
    context vectors those of the word that is predicted.

    >>> text = ["i like cats and dogs", "i like dogs and cats"] * 50
    >>> model = CBOW(likelihood="softmax", window=None, dim=4).fit(text)
    >>> -1.7 < model.score(text) < 0
    True
    """

    kind = "cbow"
    parameter_rules = declarations.CBOW

    def __init__(
        self,
        *,
        likelihood: str = "negative_sampling",
        dim: int = 200,
        window: int | None = 5,
        negatives: int = 5,
        tie: str | None = None,
        positive_share: float = 0.5,
        subsample: float = 1e-3,
        noise_exponent: float = 0.75,
        min_count: int = 5,
        max_words: int | None = None,
        sentences: str = "lines",
        lower: bool = False,
        cleaning: str | None = None,
        learning_rate: float | None = None,
        batch_size: int = 256,
        epochs: int = 5,
        threads: int | str = "auto",
        deterministic: bool = False,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        self.likelihood, self.dim, self.window = likelihood, dim, window
        self.negatives, self.tie, self.positive_share = negatives, tie, positive_share
        self.subsample, self.noise_exponent = subsample, noise_exponent
        self.min_count, self.max_words, self.sentences = min_count, max_words, sentences
        self.lower, self.cleaning = lower, cleaning
        self.learning_rate, self.batch_size = learning_rate, batch_size
        self.epochs, self.threads, self.deterministic = epochs, threads, deterministic
        self.seed, self.progress = seed, progress

    @property
    def family(self) -> Union["Bernoulli", "Categorical"]:
        """The family of the predicted word, or of a yes or no."""
        from exfam.families import Bernoulli, Categorical

        return Categorical(len(self.vocabulary_)) if self._exact else Bernoulli()

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
        check_positive("learning_rate", rate)
        single = self._exact or self.deterministic
        settings = EpochSettings(
            learning_rate=float(rate),
            epochs=int(self.epochs),
            threads=1 if single else python_number(self.threads),
            seed=int(self.seed),
        )
        return replace(settings, last_share=1.0) if self._exact else settings

    def _start(self, n_words: int) -> WordMatrices:
        matrices = initial_matrices(
            n_words,
            int(self.dim),
            tie=self.tie,
            positive_share=self.positive_share,
            seed=int(self.seed),
        )
        if self._exact:
            # Adam's steps have one size for all numbers: vectors start at the size they end with.
            matrices.center[...] *= 2.0 * np.sqrt(3.0) * self.dim / np.sqrt(self.dim)
        return matrices

    def _train(self, tokens: np.ndarray, checkpoint: Checkpoint | None) -> History:
        matrices, arrays = self.matrices_, self.matrices_.arrays
        train: Any
        if self._exact:
            moments = adam_arrays(matrices)
            size = int(self.batch_size)
            train = AdamPass(matrices, moments, window=self.window, batch_size=size)
            arrays = arrays | moments
        else:
            train = self._pass(train_cbow, told=False)
        return fit_text(
            train,
            tokens=tokens,
            arrays=arrays,
            settings=self._settings(),
            progress=self.progress,
            checkpoint=checkpoint,
        )

    def _log_likelihood(self, tokens: np.ndarray) -> tuple[Any, Any]:
        if self._exact:
            told = contexts(tokens, n_words=len(self.vocabulary_), window=self.window)
            each = log_likelihood(*told, self.matrices_)
            return float(each.sum()), float(len(each))
        nats, weight = self._pass(train_cbow, told=True)(tokens, rate=0.0, seed=int(self.seed))
        return -nats, weight
