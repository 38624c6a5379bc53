"""What models of words trained on text share: fit, score, vectors, save, load."""

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from exfam.checks import DataError, ExfamError, check_positive, with_types
from exfam.estimator.base import Estimator, attribute, check_fitted
from exfam.estimator.plain import identified
from exfam.estimator.rules import python_number
from exfam.kernels.alias import alias_table
from exfam.kernels.windows import MOST_TOGETHER, Plan, Sampling
from exfam.reading.text import Vocabulary, keep_probability, noise_probability
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import EpochSettings, Piece, fit_text
from exfam.training.history import History
from exfam.vectors import WordVectors
from exfam.words.declarations import PassTraining, TextReading, WordModel
from exfam.words.matrices import WordMatrices, initial_matrices
from exfam.words.texts import coded_text, known_tokens

# Nats of training are computed for one in so many groups of windows.
_NATS_EVERY = 64
# With so many negatives windows share them by three, which takes less time; of fewer, vectors that
# are trained against more draws are worth more.
_MANY_NEGATIVES = 16
# Of parameters, those that a fit may change between two runs of the same checkpoint.
_IRRELEVANT = ("progress",)
# Products of two larger numbers overflow single precision.
_LARGEST = 1e18


class _SampledPass:
    """A pass of a compiled kernel over a piece of text; see `Piece`."""

    def __init__(
        self, kernel: Any, *, matrices: WordMatrices, sampling: Sampling, plan: Plan
    ) -> None:
        self._kernel, self._matrices = kernel, matrices
        self._sampling, self._plan = sampling, plan

    def __call__(self, tokens: np.ndarray, *, rate: float, seed: int) -> tuple[float, float]:
        """Nats and how many yes and no they are of; vectors are trained in place."""
        totals = np.zeros(2)
        fixed = self._matrices.vectors, self._matrices.kind, self._sampling, self._plan
        self._kernel(tokens, *fixed, np.float32(rate), np.uint64(seed), totals)
        return float(totals[0]), float(totals[1])


class TextEstimator(WordModel, TextReading, PassTraining, Estimator, ABC):
    """Models of words and their contexts, trained by passes over a text."""

    fitted_attribute = "matrices_"

    vocabulary_: Vocabulary = attribute()
    matrices_: WordMatrices = attribute()
    histories_: list[History] = attribute()

    @property
    @abstractmethod
    def _kernel(self) -> Any:
        """The compiled pass of negative sampling."""

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        checkpoint: Checkpoint | str | PathLike[str] | None = None,
    ) -> "TextEstimator":
        """Fit to a text: a file or several, a folder, sentences, or a prepared text.

        `checkpoint`: a folder from which a fit that was interrupted or killed goes on.
        Raises DataError for a text that cannot be read or has fewer than two words.
        """
        self._check_parameters()
        tokens, vocabulary = coded_text(X, self._reading)
        self.vocabulary_, self.matrices_ = vocabulary, self._initial(len(vocabulary))
        self.histories_ = [self._trained(tokens, checkpoint)]
        return self

    def partial_fit(
        self,
        X: Any,
        y: None = None,
        *,
        checkpoint: Checkpoint | str | PathLike[str] | None = None,
    ) -> "TextEstimator":
        """Go on with another text, whose new words get codes after the known ones.

        Its counts add to those of the earlier texts. The learning rate starts anew. Without an
        earlier fit it is `fit`.
        """
        if not hasattr(self, "matrices_"):
            return self.fit(X, checkpoint=checkpoint)
        self._check_parameters()
        tokens, vocabulary = coded_text(X, self._reading, vocabulary=self.vocabulary_)
        self.matrices_ = self.matrices_.grown(len(vocabulary), seed=int(self.seed))
        self.vocabulary_ = vocabulary
        self.histories_.append(self._trained(tokens, checkpoint))
        return self

    def _trained(self, tokens: Int32[np.ndarray, "tokens"], checkpoint: Any) -> History:
        train, arrays = self._training_pass()
        history = fit_text(
            train,
            tokens=tokens,
            arrays=arrays,
            settings=self._settings(),
            progress=self.progress,
            checkpoint=identified(checkpoint, self, irrelevant=_IRRELEVANT),
        )
        for vectors in (self.matrices_.inputs, self.matrices_.outputs):
            if not max(vectors.max(initial=0.0), -vectors.min(initial=0.0)) < _LARGEST:
                del self.matrices_, self.vocabulary_
                raise ExfamError(
                    f"Word vectors must be below {_LARGEST:g} after a fit, got others. Use a lower "
                    "`learning_rate`, and fit again."
                )
        return history

    def _initial(self, n_words: int) -> WordMatrices:
        """The numbers before training."""
        return initial_matrices(
            n_words,
            int(self.dim),
            tie=self.tie,
            positive_share=self.positive_share,
            seed=int(self.seed),
        )

    def _training_pass(self) -> tuple[Piece, dict[str, np.ndarray]]:
        """What trains on a piece of text, and the arrays that it changes."""
        return self._sampled_pass(nats_every=_NATS_EVERY), self.matrices_.arrays

    def _log_likelihood(self, tokens: Int32[np.ndarray, "tokens"]) -> tuple[float, float]:
        """Nats of held-out tokens, summed, and of how many observations."""
        scored = self._sampled_pass(nats_every=1)
        nats, weight = scored(tokens, rate=0.0, seed=int(self.seed))
        return -nats, weight

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-likelihood in nats of a held-out text, of the words that are known; see class.

        Words that are not known are left out, and one warning says how many they are.
        Raises DataError for a text without a known word that has a known word beside it.
        """
        check_fitted(self, "matrices_")
        self._check_parameters()
        tokens = known_tokens(X, self._reading, vocabulary=self.vocabulary_)
        nats, weight = self._log_likelihood(np.array(tokens))
        if weight == 0:
            raise DataError(
                "`X` must hold a sentence of at least two known words, got none. Take more text."
            )
        return nats / weight

    @property
    def vectors_(self) -> WordVectors:
        """The words' vectors: center those that predict, context those of the predicted word."""
        check_fitted(self, "matrices_")
        matrices, words = self.matrices_, self.vocabulary_.words
        if matrices.signs is not None:
            signs = matrices.stored()["signs"]
            return WordVectors(words, matrices.inputs, signs=signs)
        return WordVectors(words, matrices.inputs, matrices.outputs)

    @property
    def input_vectors_(self) -> Float32[np.ndarray, "words dim"]:
        """Vectors of the words that predict: of a window's context."""
        check_fitted(self, "matrices_")
        return self.matrices_.inputs

    @property
    def output_vectors_(self) -> Float32[np.ndarray, "words dim"]:
        """Vectors of the words that are predicted: of a window's center."""
        check_fitted(self, "matrices_")
        return self.matrices_.outputs

    @property
    def history_(self) -> History:
        """What happened in the last fit."""
        check_fitted(self, "histories_")
        return self.histories_[-1]

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        vocabulary = self.vocabulary_
        arrays = self.matrices_.stored() | {"counts": vocabulary.counts}
        return {"n_tokens": vocabulary.n_tokens}, arrays

    def _labels(self) -> dict[str, np.ndarray]:
        return {"word": np.array(self.vocabulary_.words, dtype=object)}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        """Take back what `save` wrote."""
        stored = {name: tensor.numpy() for name, tensor in tensors.items()}
        counts, words = stored.pop("counts"), tuple(vocabulary["word"].tolist())
        self.vocabulary_ = with_types(Vocabulary(words, counts, config["n_tokens"]))
        self.matrices_ = WordMatrices.restored(stored)

    def _settings(self) -> EpochSettings:
        threads = 1 if self.deterministic else self.threads
        check_positive("learning_rate", self.learning_rate)
        return EpochSettings(
            learning_rate=float(self.learning_rate),
            epochs=int(self.epochs),
            threads=python_number(threads),
            seed=int(self.seed),
        )

    @property
    def _reading(self) -> dict[str, Any]:
        """Options of `prepare_text`."""
        return {name: python_number(getattr(self, name)) for name in TextReading.declared}

    def _sampled_pass(self, *, nats_every: int) -> _SampledPass:
        """A pass with negative sampling; nats are computed for one in so many groups of windows."""
        counts = self.vocabulary_.counts
        keep = keep_probability(counts, self.subsample)
        noise = noise_probability(counts, self.noise_exponent)
        sampling = Sampling((keep * 2.0**32).astype(np.uint64), alias_table(noise))
        wanted = int(self.negatives)
        together = 1 if wanted < _MANY_NEGATIVES else MOST_TOGETHER
        # As many more are drawn as the kernels' blocks of three have room for, each weighing less.
        drawn = -(-(wanted + together) // 3) * 3 - together
        plan = Plan(
            window=int(self.window),
            negatives=drawn,
            weight=np.float32(wanted / drawn),
            together=together,
            nats_every=nats_every,
        )
        return _SampledPass(self._kernel, matrices=self.matrices_, sampling=sampling, plan=plan)
