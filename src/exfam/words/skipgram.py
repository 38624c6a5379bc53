"""Skip-gram with negative sampling, its context vectors free or tied."""

from exfam.kernels.sampled import train_skipgram
from exfam.words.word_estimator import TextEstimator


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
