"""Skip-gram with negative sampling, its context vectors free or tied."""

from typing import TYPE_CHECKING, Any

import numpy as np

from exfam.kernels.skipgram import train_skipgram
from exfam.training.checkpoints import Checkpoint
from exfam.training.epochs import fit_text
from exfam.training.history import History
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
