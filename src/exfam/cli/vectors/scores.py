"""Held-out text under a model of words."""

from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.estimator.registry import REGISTRY

__all__ = ["is_of_words", "word_scores"]

# Where the log-likelihood is of yes and no, a perplexity would tell nothing.
_SAMPLED = ("skip-gram", "cbow")
_NOT_OF_WORDS = ("database", "memory_limit", "date_format", "unknown", "per_row")


def is_of_words(model: Any) -> bool:
    """Whether a model is of words of a text.

    >>> from exfam.words import SkipGram
    >>> is_of_words(SkipGram())
    True
    """
    return REGISTRY[model.kind].reads == "text"


def word_scores(model: Any, chosen: Any) -> dict[str, Any]:
    """Mean nats of the file's text, as a table's columns; see the models' `score`.

    Raises ExfamError for options that are not of text, DataError for a file that cannot be read.
    """
    for name in _NOT_OF_WORDS:
        if given := getattr(chosen, name, None):
            raise ExfamError(
                f"`--{name.replace('_', '-')}` must be left out for a model of words, got {given!r}"
                ", which is of rows. Take a file of text."
            )
    nats = float(model.score(chosen.file))
    is_exact = model.kind not in _SAMPLED or getattr(model, "likelihood", None) == "softmax"
    perplexity = float(np.exp(-nats)) if is_exact and nats > -700 else np.nan
    return {"part": ["words"], "nats": [nats], "perplexity": np.array([perplexity])}
