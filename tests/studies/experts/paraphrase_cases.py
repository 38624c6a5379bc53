"""Word sets whose probabilities are known."""

import itertools

import numpy as np

from exfam_studies.experts.paraphrases.analogies import Factors, attention_scales
from exfam_studies.experts.paraphrases.windows import attention_windows, sentence_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets
from exfam_studies.experts.toy_sentences import toy_population

MASK = 0.7


def toy_windows():
    sentences, probability = toy_population()
    return sentence_windows(sentences, probability=probability)


def drawn_tau(n_words, seed=0):
    """Attention of words that differ by some factors of e."""
    return np.exp(np.random.default_rng(seed).standard_normal(n_words))


def toy_sets(*, attention=False, smoothing=0.1, shrinkage=None):
    windows = toy_windows()
    if attention:
        windows = attention_windows(windows, drawn_tau(len(windows.words)), mask=MASK)
    return WordSets(windows, smoothing=smoothing, shrinkage=shrinkage)


def toy_scales():
    windows = toy_windows()
    return attention_scales(windows, drawn_tau(len(windows.words)), mask=MASK)


def unscaled(factors, scales):
    """Vectors c_j of which the given ones are c~_j."""
    return Factors(factors.words, factors.context / scales.scale[:, None])


def independent_windows(probability):
    """Sentences of three words a, b, c, … that are drawn independently of each other."""
    words = "abcdefgh"[: len(probability)]
    sentences = list(itertools.product(words, repeat=3))
    p = dict(zip(words, probability, strict=True))
    weight = np.array([np.prod([p[word] for word in sentence]) for sentence in sentences])
    return sentence_windows(sentences, probability=weight)
