"""What words are worth without a context: a model's rival that knows frequencies alone."""

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamWarning
from exfam.reading.text import (
    PreparedText,
    Vocabulary,
    keep_probability,
    noise_probability,
    prepare_text,
)
from exfam.vectors import WordVectors
from exfam.words.matrices import WordMatrices
from exfam.words.pmi import PMIFactorization
from exfam.words.word_estimator import TextEstimator, prepared_before

# Parts of a text that are scored apart, for an interval, and the fewest tokens of one.
_PIECES, _TOKENS = 20, 200


def frequency_model(model: TextEstimator | PMIFactorization) -> TextEstimator | PMIFactorization:
    """A model like a fitted one whose predictions depend on the predicted word's frequency alone.

    Its scores are of the same observations, noise included: what the model has more is what the
    vectors know of contexts. Of sampled noise, log-odds are log p(w) - log k noise(w)
    (1 - p(w)), p being the share of the word after sub-sampling and k the number of negatives.
    """
    if isinstance(model, PMIFactorization):
        plain = copy(model)
        zeros = np.zeros((len(model.vectors_), 1), dtype=np.float32)
        plain.vectors_ = WordVectors(model.vectors_.words, zeros, zeros)
        return plain
    parameters = {**model.get_params(), "dim": 1, "tie": None, "progress": False}
    other = type(model)(**parameters)
    other.vocabulary_ = model.vocabulary_
    eta = _log_odds(model).astype(np.float32)[:, None]
    # Those of a word never drawn are never used.
    eta[~np.isfinite(eta)] = 0
    other.matrices_ = WordMatrices.restored({"center": np.ones_like(eta), "context": eta})
    return other


def _log_odds(model: TextEstimator) -> Float64[np.ndarray, "words"]:
    counts = model.vocabulary_.counts
    exact = getattr(model, "likelihood", None) == "softmax"
    kept = counts * (1.0 if exact else keep_probability(counts, model.subsample))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_share = np.log(kept) - np.log(kept.sum())
        if exact:
            return log_share
        noise = noise_probability(counts, model.noise_exponent) * model.negatives
        # Noise that is the predicted word itself is not counted.
        return log_share - np.log(noise) - np.log1p(-np.exp(log_share))


@dataclass(frozen=True, eq=False)
class TextScores:
    """Nats of a model and of its rival by frequency, of pieces of a text of about equal length.

    `n_tokens`: words read; `unknown`: the share of them that the model does not know
    """

    model: Float64[np.ndarray, "pieces"]
    frequency: Float64[np.ndarray, "pieces"]
    n_tokens: int
    unknown: float


def score_text(model: TextEstimator | PMIFactorization, text: Any) -> TextScores:
    """Both models' `score` on pieces of a text; raises what `score` raises of the whole."""
    read = _read(model, text)
    index = model.vectors_.index
    known = np.array([word in index for word in read.vocabulary.words] + [False])
    # The last entry is that of the ends of sentences.
    words = int((read.tokens >= 0).sum())
    unknown = 1 - int(known[read.tokens].sum()) / words
    rival, pieces = frequency_model(model), _pieces(read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExfamWarning)
        nats = np.array([[one.score(piece) for one in (model, rival)] for piece in pieces])
    return TextScores(nats[:, 0], nats[:, 1], words, unknown)


def _read(model: Any, text: Any) -> PreparedText:
    """The text as the model reads it, rare words too."""
    options = {**getattr(model, "_reading", {}), "min_count": 1}
    options.pop("max_words", None)
    prepared = prepared_before(text)
    return prepare_text(text, **options) if prepared is None else prepared


def _pieces(text: PreparedText) -> list[PreparedText]:
    n = int(np.clip(len(text.tokens) // _TOKENS, 1, _PIECES))
    return [_piece(text, tokens) for tokens in np.array_split(np.array(text.tokens), n)]


def _piece(text: PreparedText, tokens: np.ndarray) -> PreparedText:
    counts = np.bincount(tokens[tokens >= 0], minlength=len(text.vocabulary)).astype(np.int64)
    n_tokens = int(counts.sum())
    return PreparedText(tokens, Vocabulary(text.vocabulary.words, counts, n_tokens), n_tokens)
