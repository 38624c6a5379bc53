"""What a report about word vectors is made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from exfam.checks import ExfamError
from exfam.estimator.base import check_fitted
from exfam.report.contents import ReportRequest
from exfam.report.words import clean
from exfam.vectors import WordVectors

# The most frequent words, whose cloud is looked at and among which neighbors are looked for.
CLOUD = 20_000


@dataclass(frozen=True, eq=False)
class WordMaterial:
    """Vectors of words, how often the words were read, and what they may be scored on.

    `counts`: by row of the vectors; None where a file of vectors has none
    `model`: that the vectors are of, or None; `text`: to score it on, or None
    `rows`: the most frequent words, at most `CLOUD`, those without a direction left out
    """

    vectors: WordVectors
    counts: Int64[np.ndarray, "words"] | None
    model: Any
    text: Any
    seed: int
    rows: Int64[np.ndarray, "shown"]

    @property
    def cloud(self) -> Float32[np.ndarray, "shown dim"]:
        """Center vectors of the most frequent words."""
        return self.vectors.center[self.rows]

    def name(self, row: int, *, most: int = 40) -> str:
        """A word as it is shown."""
        return clean(self.vectors.words[row], most=most)


def gather_words(model: Any, request: ReportRequest) -> WordMaterial:
    """The vectors of a fitted model, or those that are given themselves.

    Raises ExfamError for a model without vectors of words, and for a text beside vectors alone.
    """
    if request.train is not None:
        raise ExfamError(
            "`train` must be left out for word vectors, got a text. Frequencies of words, which "
            "they stand beside, are those of the model."
        )
    if isinstance(model, WordVectors):
        if request.data is not None:
            raise ExfamError(
                "`data` must be left out for word vectors without their model, which score no "
                f"text, got {request.data!r}."
            )
        vectors, counts, fitted = model, None, None
    else:
        vectors, counts, fitted = _fitted_vectors(model), _counts(model), model
    order = np.arange(len(vectors)) if counts is None else np.argsort(-counts, kind="stable")
    order = order[vectors.norms[order] > 0][:CLOUD]
    if not len(order):
        raise ExfamError("`model` must have a vector that is not zero, got none.")
    return WordMaterial(vectors, counts, fitted, request.data, request.seed, order)


def _fitted_vectors(model: Any) -> WordVectors:
    name = type(model).__name__
    if not isinstance(getattr(type(model), "vectors_", None), property) and not hasattr(
        model, "vectors_"
    ):
        raise ExfamError(
            f"`model` must be fitted and have vectors of words, got {name}. Those of SkipGram, "
            "CBOW and PMIFactorization are reported."
        )
    check_fitted(model, model.fitted_attribute)
    vectors: WordVectors = model.vectors_
    return vectors


def _counts(model: Any) -> Int64[np.ndarray, "words"]:
    words = model.vectors_.words
    if hasattr(model, "vocabulary_"):
        counts: Int64[np.ndarray, "words"] = model.vocabulary_.counts
        return counts
    read = dict(zip(model._counted.words, model._counted.counts.tolist(), strict=True))
    return np.array([read[word] for word in words], dtype=np.int64)
