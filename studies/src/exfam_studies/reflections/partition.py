"""Partition functions of models of words: whether they normalize themselves."""

from typing import NamedTuple

import numpy as np
import scipy.special
from jaxtyping import Float

from exfam.checks import DataError
from exfam_studies.reflections.linear_map import Vectors, check_pair

_LOGITS_AT_ONCE = 16_000_000

Probability = Float[np.ndarray, "_"]


class PartitionReport(NamedTuple):
    """Mean and standard deviation of Z over words, against what theory expects of all of them.

    `expected`: 1 + 1 / (2 dim); `within`: share of words whose Z lies within a tenth of it.
    """

    mean: float
    spread: float
    expected: float
    within: float


def partition_report(
    words: Vectors,
    context: Vectors,
    probability: Probability,
    *,
    n_words: int | None = None,
    shift: float = 0.0,
) -> PartitionReport:
    """Z_j of all words, or the first `n_words`, against 1 + 1 / (2 dim).

    `shift`: added to each exponent: log k for vectors trained with k negative samples

    Source: Lemma 2 of the paper on reflections, eq. 12.
    """
    z = np.exp(log_partition(words, context, probability, n_words=n_words) + shift)
    expected = 1 + 1 / (2 * words.shape[1])
    within = np.abs(z - expected) <= 0.1 * expected
    return PartitionReport(float(z.mean()), float(z.std()), expected, float(within.mean()))


def log_partition(
    words: Vectors, context: Vectors, probability: Probability, *, n_words: int | None = None
) -> Float[np.ndarray, "chosen"]:
    """log Z_j = log of the sum over i of p_i exp(w_j . c_i), in nats, of all or the first words.

    Raises DataError for vectors that do not go together, or probabilities that are none.
    """
    check_pair(words, context)
    # Single precision sums to 1 only so far.
    is_whole = abs(float(probability.sum()) - 1) <= 1e-4
    if len(probability) != len(words) or not is_whole or not (probability >= 0).all():
        raise DataError(
            f"`probability` must be {len(words)} numbers >= 0 that sum to 1, got "
            f"{len(probability)} with sum {probability.sum():g} and minimum "
            f"{probability.min(initial=np.inf):g}."
        )
    with np.errstate(divide="ignore"):
        log_p = np.log(probability)
    step = max(1, _LOGITS_AT_ONCE // len(context))
    chosen = words[:n_words]
    pieces = [
        scipy.special.logsumexp(chosen[first : first + step] @ context.T + log_p, axis=1)
        for first in range(0, len(chosen), step)
    ]
    return np.concatenate(pieces)
