"""Pointwise mutual information of words that occur together, as a sparse matrix."""

import numpy as np
import scipy.sparse
from jaxtyping import Float

from exfam.checks import DataError, check_positive


def association(
    counts: scipy.sparse.csr_array,
    *,
    positive: bool = False,
    shift: float = 0.0,
    exponent: float = 1.0,
) -> scipy.sparse.csr_array:
    """Pointwise mutual information in nats of all pairs that were counted; others stay 0.

    `positive`: whether negative values become 0 (default False)
    `shift`: what is taken from each value, in nats: log k for k negative samples (default 0.0)
    `exponent`: of the contexts' frequencies; other than 1 the matrix is not symmetric (default 1.0)

    Entry (j, i) is log p(i | j) / p(i) less the shift, where p(i | j) is the share of i in row j
    and p(i) that of `context_probability`. Pairs never seen are 0, as if independent, shifted or
    not: the matrix stays as sparse as the counts.
    Raises DataError for counts that are negative, not finite, or all 0, ExfamError for a shift
    below 0 or an exponent that is not above 0.
    Source: Levy, Goldberg & Dagan (2015), section 3; Levy & Goldberg (2014), eq. 11.

    >>> counts = scipy.sparse.csr_array([[0, 4], [4, 0]])
    >>> association(counts).toarray().round(3)
    array([[0.   , 0.693],
           [0.693, 0.   ]])
    """
    check_positive("shift", shift, zero=True)
    check_positive("exponent", exponent)
    context = context_probability(counts, exponent=exponent)
    data = counts.data.astype(np.float64)
    length = np.diff(counts.indptr)
    row = np.repeat(np.asarray(counts.sum(axis=1), np.float64), length)
    # Logarithms apart: no product of counts overflows, and the matrix is symmetric to the last bit.
    with np.errstate(divide="ignore"):
        values = np.log(data) - (np.log(row) + np.log(context)[counts.indices]) - shift
    seen = data > 0
    if positive:
        seen &= values > 0
    if seen.all():
        return scipy.sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    columns, rows = counts.indices.copy(), counts.indptr.copy()
    values = np.where(seen, values, 0.0)
    information = scipy.sparse.csr_array((values, columns, rows), shape=counts.shape)
    information.eliminate_zeros()
    return information


def context_probability(
    counts: scipy.sparse.csr_array, *, exponent: float
) -> Float[np.ndarray, "contexts"]:
    """Shares of the contexts, each frequency raised to `exponent`; they sum to 1.

    Raises DataError for counts that are negative, not finite, or all 0.

    >>> context_probability(scipy.sparse.csr_array([[0.0, 8.0], [1.0, 0.0]]), exponent=1 / 3)
    array([0.33333333, 0.66666667])
    """
    data = counts.data
    if not np.isfinite(data).all() or data.min(initial=0) < 0:
        raise DataError(
            f"`counts` must be finite numbers >= 0, got {data[~(data >= 0) | np.isinf(data)][0]}."
        )
    total = np.asarray(counts.sum(axis=0), np.float64)
    if not total.any():
        raise DataError(
            "`counts` must hold at least one pair, got none. Take a longer text or a wider window."
        )
    frequency = np.where(total > 0, total, 1.0) ** exponent * (total > 0)
    return frequency / frequency.sum()
