"""How often a word is kept, and how often it is drawn as noise."""

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import DataError, check_positive


def keep_probability(
    counts: Int64[np.ndarray, "words"], threshold: float | int | int
) -> Float64[np.ndarray, "words"]:
    """The probability that sub-sampling keeps a token of each word.

    With f the word's share of all tokens and t = `threshold`: sqrt(t / f) + t / f, at most 1;
    1 for words never seen, and for all words with a threshold of 0 (no sub-sampling).
    Raises ExfamError for a negative threshold, DataError for negative counts or none above 0.
    Source: word2vec.c, `sample`; Mikolov et al. (2013) have 1 - sqrt(t / f) of being dropped.

    >>> keep_probability(np.array([980, 20]), 0.01).round(3).tolist()
    [0.111, 1.0]
    """
    check_positive("threshold", threshold, zero=True)
    total = _total(counts)
    if threshold == 0:
        return np.ones(len(counts))
    ratio = threshold * total / np.maximum(counts, 1)
    return np.where(counts > 0, np.minimum(np.sqrt(ratio) + ratio, 1.0), 1.0)


def noise_probability(
    counts: Int64[np.ndarray, "words"], exponent: float | int
) -> Float64[np.ndarray, "words"]:
    """The probability of drawing each word as a negative: counts ** exponent, summing to 1.

    `exponent`: 1 draws as the text does, 0 draws all words alike, 0.75 is word2vec's; words never
    seen are never drawn, whatever it is

    Raises ExfamError for a negative exponent, DataError for negative counts or none above 0.
    Source: Mikolov et al. (2013), section 2.2.

    >>> noise_probability(np.array([16, 1, 0]), 0.5).tolist()
    [0.8, 0.2, 0.0]
    """
    check_positive("exponent", exponent, zero=True)
    _total(counts)
    # Divided by the largest first: no power overflows.
    weights = np.where(counts > 0, (counts / counts.max()) ** exponent, 0.0)
    return weights / weights.sum()


def _total(counts: np.ndarray) -> int:
    if np.any(counts < 0):
        at = int(np.argmax(counts < 0))
        raise DataError(f"`counts` must be >= 0, got {counts[at]} at word {at}.")
    total = int(counts.sum())
    if total == 0:
        raise DataError(
            f"`counts` must have one above 0, got {len(counts)} words without any. Pass the "
            "counts of a vocabulary."
        )
    return total
