"""The warning that a score leaves words out."""

import warnings

from exfam.checks import ExfamWarning

__all__ = ["warn_unknown_words"]


def warn_unknown_words(n_unknown: int, n_words: int, *, unit: str = "words") -> None:
    """Warn, once for a text, that words which the model does not know are not in its score.

    >>> warn_unknown_words(0, 9)
    """
    if n_unknown:
        warnings.warn(
            f"{n_unknown} of the {n_words} {unit} of `X` are unknown to the model, and left out of "
            "the score: compare it only with scores of models that know the same words.",
            ExfamWarning,
            stacklevel=3,
        )
