"""Partition functions of models of words: whether they normalize themselves."""

from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from exfam.checks import DataError
from exfam_studies.reflections.linear_map import check_pair

_LOGITS_AT_ONCE = 16_000_000


@dataclass(frozen=True, eq=False)
class PartitionReport:
    """Partition functions Z of words, one each, against what theory expects of all of them.

    `expected`: 1 + 1 / (2 dim); `spread`: standard deviation of Z; `within`: share of words whose Z
    lies within a tenth of `expected`.
    """

    log_z: Float[np.ndarray, "chosen"]
    mean: float
    spread: float
    expected: float
    within: float


def partition_report(
    words: Float[np.ndarray, "words dim"],
    context: Float[np.ndarray, "contexts context_dim"],
    probability: Float[np.ndarray, "probabilities"],
    *,
    at: Int[np.ndarray, "chosen"] | None = None,
    shift: float = 0.0,
) -> PartitionReport:
    """Z_j of all words, or those `at`, against 1 + 1 / (2 dim).

    `shift`: added to each exponent: log k for vectors trained with k negative samples, whose
        products approach the information less log k (default 0.0)

    Raises DataError as `log_partition`.
    Source: Lemma 2 of the paper on reflections, eq. 12.

    >>> flat = partition_report(np.zeros((4, 2)), np.zeros((4, 2)), np.full(4, 0.25))
    >>> flat.mean, flat.spread, flat.expected
    (1.0, 0.0, 1.25)
    """
    log_z = log_partition(words, context, probability, at=at) + shift
    z, expected = np.exp(log_z), 1 + 1 / (2 * words.shape[1])
    return PartitionReport(
        log_z=log_z,
        mean=float(z.mean()),
        spread=float(z.std()),
        expected=expected,
        within=float((np.abs(z - expected) <= 0.1 * expected).mean()),
    )


def log_partition(
    words: Float[np.ndarray, "words dim"],
    context: Float[np.ndarray, "contexts context_dim"],
    probability: Float[np.ndarray, "probabilities"],
    *,
    at: Int[np.ndarray, "chosen"] | None = None,
) -> Float[np.ndarray, "chosen"]:
    """log Z_j = log of the sum over i of p_i exp(w_j . c_i), in nats, for all words or those `at`.

    Memory stays bounded; time is the number of chosen words times that of all times `dim`.
    Raises DataError for vectors that do not go together, or probabilities that are none.

    >>> log_partition(np.ones((2, 1)), np.array([[0.0], [1.0]]), np.array([1.0, 0.0]))
    array([0., 0.])
    """
    check_pair(words, context)
    check_probability(probability, len(words))
    chosen = np.arange(len(words)) if at is None else at
    with np.errstate(divide="ignore"):
        log_p = np.log(probability)
    step = max(1, _LOGITS_AT_ONCE // len(context))
    pieces = [
        scipy.special.logsumexp(words[chosen[first : first + step]] @ context.T + log_p, axis=1)
        for first in range(0, len(chosen), step)
    ]
    return np.concatenate([np.empty(0), *pieces])


def check_probability(probability: Float[np.ndarray, "probabilities"], n_words: int) -> None:
    """Raise DataError unless there is a probability for each word, and they sum to 1."""
    # Single precision sums to 1 only so far.
    is_whole = abs(float(probability.sum()) - 1) <= 1e-4
    if len(probability) != n_words or not is_whole or not (probability >= 0).all():
        raise DataError(
            f"`probability` must be {n_words} numbers >= 0 that sum to 1, got {len(probability)} "
            f"with sum {probability.sum():g} and minimum {probability.min(initial=np.inf):g}."
        )
