"""Skip-gram with negative sampling, its context vectors free or tied."""

from typing import TYPE_CHECKING, Any

import numpy as np

from exfam.kernels.skipgram import train_skipgram
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import fit_text
from exfam.training.history import History
from exfam.words import declarations
from exfam.words.matrices import WordMatrices, initial_matrices
from exfam.words.word_estimator import TextEstimator

if TYPE_CHECKING:
    from exfam.families import Bernoulli

__all__ = ["SkipGram"]


class SkipGram(TextEstimator):
    """Word vectors by skip-gram with negative sampling.

    Of two words it is told whether they stand near each other in a text, or whether the second was
    drawn as noise: a Bernoulli with eta = w . c, w the vector of the word that predicts, c that of
    the predicted. Tied vectors need half the numbers: c = q * w, where the signs q turn attraction
    into repulsion in some dimensions; then a word need not be near itself.

    Model:
    `dim`: length of a vector (default 200)
    `window`: the largest distance of two words; that of a window is drawn from 1 to this
        (default 5)
    `negatives`: words drawn as noise, shared by the words of a window, or of three windows where
        there are 16 or more (default 5)
    `tie`: None, "reflection" (c = q * w, the first signs +1), "random" (signs are drawn) or
        "linear" (c = Q w with a trained matrix Q; several times slower) (default None)
    `positive_share`: of the signs, those that are +1; 0.35 to 0.65 are alike (default 0.5)
    `subsample`: frequency above which words are left out at random; 0 for none (default 0.001)
    `noise_exponent`: noise is drawn as counts to this power (default 0.75)

    Text:
    `min_count`: how often a word must be read to get a vector (default 5)
    `max_words`: the most words that get one, the most frequent (default None)
    `sentences`: "lines", or "none" where they end only with files (default "lines")
    `lower`: whether text is read in lower case (default False)
    `cleaning`: "wikifil" for a-z alone, digits spelled out (default None)

    Training:
    `learning_rate`: of the start; falls linearly, nearly to 0 (default 0.025)
    `epochs`: passes over the text (default 5)
    `threads`: "auto" for all processors, or a number; several write without locks (default "auto")
    `deterministic`: one thread, so that the same seed gives the same bits on the same machine; it
        costs the speed of the others (default False)
    `seed`: of initial vectors and all draws (default 0)
    `progress`: whether to draw a line on terminals (default True)

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
    parameter_rules = declarations.SKIP_GRAM

    def __init__(
        self,
        *,
        dim: int = 200,
        window: int = 5,
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
        learning_rate: float = 0.025,
        epochs: int = 5,
        threads: int | str = "auto",
        deterministic: bool = False,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        self.dim, self.window, self.negatives = dim, window, negatives
        self.tie, self.positive_share = tie, positive_share
        self.subsample, self.noise_exponent = subsample, noise_exponent
        self.min_count, self.max_words, self.sentences = min_count, max_words, sentences
        self.lower, self.cleaning = lower, cleaning
        self.learning_rate, self.epochs, self.threads = learning_rate, epochs, threads
        self.deterministic, self.seed, self.progress = deterministic, seed, progress

    @property
    def family(self) -> "Bernoulli":
        """The family of a yes or no."""
        from exfam.families import Bernoulli

        return Bernoulli()

    def _start(self, n_words: int) -> WordMatrices:
        return initial_matrices(
            n_words,
            int(self.dim),
            tie=self.tie,
            positive_share=self.positive_share,
            seed=int(self.seed),
        )

    def _train(self, tokens: np.ndarray, checkpoint: Checkpoint | None) -> History:
        return fit_text(
            self._pass(train_skipgram, told=False),
            tokens=tokens,
            arrays=self.matrices_.arrays,
            settings=self._settings(),
            progress=self.progress,
            checkpoint=checkpoint,
        )

    def _log_likelihood(self, tokens: np.ndarray) -> tuple[Any, Any]:
        told = self._pass(train_skipgram, told=True)(tokens, rate=0.0, seed=int(self.seed))
        return -told[0], told[1]
