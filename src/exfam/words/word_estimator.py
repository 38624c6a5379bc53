"""Models of words trained on text: what they share, and skip-gram."""

from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float32, Int32

from exfam.checks import DataError, ExfamError, with_types
from exfam.estimator.base import (
    Declared,
    Estimator,
    attribute,
    check_fitted,
    parameter,
    settings_from,
)
from exfam.estimator.file_parameters import TextFiles
from exfam.estimator.plain import identified
from exfam.estimator.record import recorded
from exfam.estimator.rules import (
    SEED,
    Choice,
    Flag,
    OrNone,
    OrWord,
    Positive,
    Share,
    Whole,
    python_number,
)
from exfam.kernels.alias import alias_table
from exfam.kernels.sampled import train_skipgram
from exfam.kernels.windows import MOST_TOGETHER, Plan, Sampling
from exfam.reading.text import (
    PreparedText,
    Vocabulary,
    is_prepared_text,
    keep_probability,
    noise_probability,
    open_text,
    prepare_text,
)
from exfam.reading.text.corpus import warn_unknown_words
from exfam.reading.text.text_options import CLEANINGS, SENTENCES
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import EpochSettings, Piece, fit_text
from exfam.training.history import History
from exfam.vectors import WordVectors
from exfam.words.matrices import TIES, WordMatrices, initial_matrices

if TYPE_CHECKING:
    from exfam.families import Bernoulli, Categorical

CheckpointLike = Checkpoint | str | PathLike[str] | None
# Nats of training are computed for one in so many groups of windows.
_NATS_EVERY = 64
# With so many negatives windows share them by three, which takes less time; of fewer, vectors that
# are trained against more draws are worth more.
_MANY_NEGATIVES = 16
# Products of two larger numbers overflow single precision.
_LARGEST = 1e18


class WordModel(Declared, section="Model"):
    """Vectors and the noise that they are trained against."""

    dim: int = parameter(Whole(), "length of a vector", default=200)
    window: int = parameter(
        Whole(), "the largest distance of two words; drawn for a window from 1 to this", default=5
    )
    negatives: int = parameter(
        Whole(),
        "words drawn as noise, shared by the words of a window, or of three windows where "
        "there are 16 or more",
        default=5,
    )
    tie: str | None = parameter(
        Choice(TIES),
        'None, "reflection" (c = q * w, the first signs +1), "random" (signs are drawn) or '
        '"linear" (c = Q w with a trained matrix Q; several times slower)',
        default=None,
    )
    positive_share: float = parameter(
        Share(), "of the signs, those that are +1; 0.35 to 0.65 are alike", default=0.5
    )
    subsample: float = parameter(
        Positive(zero=True),
        "frequency above which words are left out at random; 0 for none",
        default=0.001,
    )
    noise_exponent: float = parameter(
        Positive(zero=True), "noise is drawn as counts to this power", default=0.75
    )


class TextReading(TextFiles, section="Text"):
    """How text is read."""

    min_count: int = parameter(Whole(), "how often a word must be read to get a vector", default=5)
    max_words: int | None = parameter(
        OrNone(Whole()), "the most words that get one, the most frequent", default=None
    )
    sentences: str = parameter(
        Choice(SENTENCES), '"lines", or "none" where they end only with files', default="lines"
    )
    lower: bool = parameter(Flag(), "whether text is read in lower case", default=False)
    cleaning: str | None = parameter(
        Choice((None, *CLEANINGS)), '"wikifil" for a-z alone, digits spelled out', default=None
    )


class TextEstimator(WordModel, TextReading, Estimator, section="Training"):
    """Models of words and their contexts, trained by passes over a text."""

    learning_rate: float = parameter(
        Positive(), "of the start; falls linearly, nearly to 0", default=0.025
    )
    epochs: int = parameter(Whole(), "passes over the text", default=5)
    threads: int | str = parameter(
        OrWord("auto", Whole()),
        '"auto" for all processors, or a number; several write without locks',
        default="auto",
    )
    deterministic: bool = parameter(
        Flag(),
        "one thread, so that the same seed gives the same bits on the same machine; it costs "
        "the speed of the others",
        default=False,
    )
    seed: int = parameter(SEED, "of initial vectors and all draws", default=0)
    progress: bool = parameter(Flag(), "whether to draw a line on terminals", default=True)

    fitted_attribute = "matrices_"
    # The compiled pass of negative sampling.
    _kernel: ClassVar[Any]

    vocabulary_: Vocabulary = attribute()
    matrices_: WordMatrices = attribute()
    histories_: list[History] = attribute()

    @property
    def family(self) -> "Bernoulli | Categorical":
        """The family of a yes or no."""
        from exfam.families import Bernoulli

        return Bernoulli()

    @recorded
    def fit(self, X: Any, y: None = None, *, checkpoint: CheckpointLike = None) -> "TextEstimator":
        """Fit to a text: a file or several, a folder, sentences, or a prepared text.

        `checkpoint`: a folder from which a fit that was interrupted or killed goes on.
        """
        self._check_parameters()
        tokens, vocabulary = self._coded(X)
        self.vocabulary_, self.matrices_ = vocabulary, self._initial(len(vocabulary))
        self.histories_ = [self._trained(tokens, checkpoint)]
        self.data_counts_ = {"tokens": int((tokens >= 0).sum()), "words": len(vocabulary)}
        return self

    def partial_fit(
        self, X: Any, y: None = None, *, checkpoint: CheckpointLike = None
    ) -> "TextEstimator":
        """Go on with another text, whose new words get codes after the known ones.

        Its counts add to those of the earlier texts. The learning rate starts anew.
        """
        if not hasattr(self, "matrices_"):
            return self.fit(X, checkpoint=checkpoint)
        self._check_parameters()
        tokens, vocabulary = self._coded(X, self.vocabulary_)
        self.matrices_ = self.matrices_.grown(len(vocabulary), seed=int(self.seed))
        self.vocabulary_ = vocabulary
        self.histories_.append(self._trained(tokens, checkpoint))
        n_before = self.data_counts_["tokens"] if hasattr(self, "data_counts_") else 0
        n_tokens = n_before + int((tokens >= 0).sum())
        self.data_counts_ = {"tokens": n_tokens, "words": len(vocabulary)}
        return self

    def _coded(
        self, X: Any, vocabulary: Vocabulary | None = None
    ) -> tuple[Int32[np.ndarray, "tokens"], Vocabulary]:
        """A text's codes, -1 at the ends of sentences, and the vocabulary, grown by its own."""
        text = prepared_before(X)
        if text is None:
            text = prepare_text(X, vocabulary=vocabulary, **self._reading)
        elif vocabulary is not None:
            grown = vocabulary.grown(text.vocabulary)
            return recoded(text, grown), grown
        return text.tokens, text.vocabulary

    def _trained(self, tokens: Int32[np.ndarray, "tokens"], checkpoint: Any) -> History:
        train, arrays = self._training_pass()
        history = fit_text(
            train,
            tokens=tokens,
            arrays=arrays,
            settings=self._settings(),
            progress=self.progress,
            checkpoint=identified(checkpoint, self, irrelevant=("progress",)),
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
        return initial_matrices(
            n_words, int(self.dim), tie=self.tie, positive_share=self.positive_share, seed=self.seed
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

        One warning says how many words are not known, and left out.
        """
        check_fitted(self, "matrices_")
        self._check_parameters()
        nats, weight = self._log_likelihood(np.array(self._known_tokens(X)))
        if weight == 0:
            raise DataError(
                "`X` must hold a sentence of at least two known words, got none. Take more text."
            )
        return nats / weight

    def _known_tokens(self, X: Any) -> Int32[np.ndarray, "tokens"]:
        """Codes of a text's words; those unknown are left out, with a warning."""
        known, text = self.vocabulary_, prepared_before(X)
        if text is None:
            every = {**self._reading, "min_count": 1, "max_words": len(known)}
            text = prepare_text(X, vocabulary=known, **every)
            tokens = text.tokens
        else:
            tokens = recoded(text, known)
        n_known = int((tokens >= 0).sum())
        if not n_known:
            raise DataError(
                f"`X` must hold words of the vocabulary, got none of its {len(known)} words. "
                "Take text of the same language and spelling."
            )
        warn_unknown_words(text.n_tokens - n_known, text.n_tokens)
        return tokens

    @property
    def vectors_(self) -> WordVectors:
        """The words' vectors: center those that predict, context those of the predicted word."""
        check_fitted(self, "matrices_")
        matrices, vectors = getattr(self, "_made_vectors", (None, None))
        # Every fit makes new matrices; checks of large ones take a while.
        if vectors is None or matrices is not self.matrices_:
            stored, words = self.matrices_.stored(), self.vocabulary_.words
            signs = stored.get("signs")
            context = self.matrices_.outputs if signs is None else None
            vectors = WordVectors(words, stored["center"], context, signs)
            self._made_vectors = self.matrices_, vectors
        return vectors

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
        arrays = self.matrices_.stored() | {"counts": self.vocabulary_.counts}
        return {"n_tokens": self.vocabulary_.n_tokens}, arrays

    def _labels(self) -> dict[str, np.ndarray]:
        return {"word": np.array(self.vocabulary_.words, dtype=object)}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        stored = {name: tensor.numpy() for name, tensor in tensors.items()}
        counts, words = stored.pop("counts"), tuple(vocabulary["word"].tolist())
        self.vocabulary_ = with_types(Vocabulary(words, counts, config["n_tokens"]))
        self.matrices_ = WordMatrices.restored(stored)

    def _settings(self) -> EpochSettings:
        threads = 1 if self.deterministic else python_number(self.threads)
        return settings_from(self, EpochSettings, threads=threads)

    @property
    def _reading(self) -> dict[str, Any]:
        names = {"file_encoding": "encoding"}
        return {
            names.get(name, name): python_number(getattr(self, name))
            for name in TextReading.declared
        }

    def _sampled_pass(self, *, nats_every: int) -> Piece:
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
        kernel = self._kernel
        fixed = self.matrices_.vectors, self.matrices_.transform, sampling, plan

        def train(tokens: np.ndarray, *, rate: float, seed: int) -> tuple[float, float]:
            totals = np.zeros(2)
            kernel(tokens, *fixed, np.float32(rate), np.uint64(seed), totals)
            return float(totals[0]), float(totals[1])

        return train


class SkipGram(TextEstimator):
    """Word vectors by skip-gram with negative sampling.

    Whether two words stand near each other in a text, or the second was drawn as noise, is a
    Bernoulli with eta = w . c, w the vector of the word that predicts, c that of the predicted.
    Tied vectors need half the numbers: c = q * w, where the signs q turn attraction into repulsion
    in some dimensions; then a word need not be near itself.

    {parameters}

    `score` is the mean log-likelihood in nats of all yes and no: each pair of a word and a context
    word within windows of the text (drawn and sub-sampled as in training, from `seed`), and each
    negative drawn for it that is not the word itself. `train_nats` of the history is minus the
    same, of one group of windows in 64 while it is trained.

    >>> text = ["the cat sat on the mat", "the dog sat on the rug"] * 50
    >>> model = SkipGram(dim=8, tie="reflection", subsample=0.0, threads=1).fit(text)
    >>> model.vectors_["cat"].shape, len(model.vectors_), model.score(text) < 0
    ((8,), 7, True)
    """

    kind = "skip-gram"
    _kernel = staticmethod(train_skipgram)


def recoded(text: PreparedText, vocabulary: Vocabulary) -> Int32[np.ndarray, "tokens"]:
    """The text by the codes of another vocabulary, without the words that it does not hold."""
    index = vocabulary.index
    left_out = -2
    # The last entry is that of code -1.
    codes = [*(index.get(word, left_out) for word in text.vocabulary.words), -1]
    tokens = np.array(codes, np.int32)[text.tokens]
    return tokens[tokens != left_out]


def prepared_before(source: Any) -> PreparedText | None:
    """The prepared text that `source` is, or that is in its folder; None for any other source."""
    if isinstance(source, PreparedText):
        return source
    return open_text(source) if is_prepared_text(source) else None
