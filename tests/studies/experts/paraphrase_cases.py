"""Word sets whose probabilities are known."""

import numpy as np

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
