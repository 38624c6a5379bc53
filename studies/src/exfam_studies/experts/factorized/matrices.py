"""What word embeddings factorize: matrices whose entries products of two vectors should be.

Centers w_i are in rows: a word that is predicted, `output_vectors_` of an estimator. Contexts c_j
are in columns: a word that predicts, `input_vectors_`. Logarithms of pairs that never occur are
-inf; a column whose word is in no context is nan.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from exfam.checks import DataError, check_whole
from exfam.words.pmi_matrix import association
from exfam_studies.experts.factorized.pairs import CountedPairs

# The share of entries above 1 from which on expansions about 0 count as failed.
_LARGE = 0.05


@dataclass(frozen=True, eq=False)
class FactorMatrix:
    """Entries that products w_i . c_j should be, and what failed of all that this assumes.

    `values`: centers in rows, contexts in columns; -inf is log 0, nan not defined
    `equation`: the entry (i, j) in words
    `failed_assumptions`: one text each, with what was found
    """

    values: Float64[np.ndarray, "words contexts"]
    equation: str
    failed_assumptions: tuple[str, ...]

    @property
    def defined(self) -> Bool[np.ndarray, "words contexts"]:
        """Where an entry is a finite number."""
        return np.isfinite(self.values)


def cbow_linear_matrix(pairs: CountedPairs) -> FactorMatrix:
    """What CBOW without negative sampling factorizes, for its loss linearized: |V| p(w,c)/p(c) - 1.

    It is the least of the bound of the loss in which log, exp and the square of a mean are expanded
    (Taylor, Cauchy-Schwarz). Assumes that all centers have contexts of one size, that every word is
    a context, and that entries are small, for only then do the expansions come near the loss.
    Source: "Bidirectional attention as a mixture of continuous word experts", appendix H.
    """
    values = linear_form(pairs.weights)
    failed = _uneven(pairs) + unsupported(values) + too_large(values)
    return FactorMatrix(values, "|V| p(w_i, c_j) / p(c_j) - 1", failed)


def cbow_log_matrix(pairs: CountedPairs) -> FactorMatrix:
    """What CBOW without negative sampling factorizes, as propositions 3 and 9 have it.

    log(p(w_i, c_j) / p(c_j)) + log |V|, in nats. Assumes what `cbow_linear_matrix` does, of which
    it is log(1 + x), and that every pair occurs.
    Source: "Bidirectional attention as a mixture of continuous word experts", propositions 3 and 9.
    """
    values, linear = log_form(pairs.weights), linear_form(pairs.weights)
    failed = _uneven(pairs) + unsupported(values) + too_large(linear)
    return FactorMatrix(values, "log(p(w_i, c_j) / p(c_j)) + log |V|", failed)


def sgns_matrix(pairs: CountedPairs, *, negatives: int, exponent: float = 1.0) -> FactorMatrix:
    """What skip-gram with negative sampling factorizes: PMI - log k, in nats.

    `negatives`: k, the words drawn as noise for each pair
    `exponent`: of the frequencies of the predicted words, which noise is drawn by; 0.75 for
        `SkipGram` as it comes (default 1.0)

    Assumes dimensions enough to fit every pair, that noise is drawn for all pairs alike, and that
    every pair occurs. `SkipGram` draws windows (`weights="dynamic"`), leaves out frequent words
    unless `subsample` is 0, and does not count noise that is the predicted word itself, as in
    `sgns_excused_matrix`.
    Raises ExfamError unless `negatives` is an integer above 0 and `exponent` above 0.
    Source: Levy & Goldberg (2014), eq. 11.
    """
    check_whole("negatives", negatives)
    shift = float(np.log(negatives))
    # Noise is drawn among the predicted words, which `association` has in columns.
    values = association(pairs.counts.T.tocsr(), shift=shift, exponent=exponent).toarray().T
    values[pairs.weights == 0] = -np.inf
    values[:, pairs.context == 0] = np.nan
    equation = f"log(p(w_i, c_j) / (q(w_i) p(c_j))) - log {negatives}, q ~ p(w_i)^{exponent:g}"
    return FactorMatrix(values, equation, unsupported(values))


def sgns_excused_matrix(
    pairs: CountedPairs, *, negatives: int, exponent: float = 1.0
) -> FactorMatrix:
    """What skip-gram factorizes whose noise is not counted where it is the predicted word itself.

    Then word i is noise for context j only beside other words, a share 1 - p(w_i | c_j) of all, and
    the entry is PMI - log k - log(1 - p(w_i | c_j)), in nats: +inf for a word that is alone near
    its context. The more words, the less it differs from `sgns_matrix`, whose parameters it has.
    Raises ExfamError as `sgns_matrix`.
    Source: Levy & Goldberg (2014), eqs. 5 to 7, with #(c_j) - #(w_i, c_j) in place of #(c_j).
    """
    plain = sgns_matrix(pairs, negatives=negatives, exponent=exponent)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = plain.values - np.log(1 - pairs.conditional)
    values[np.isneginf(plain.values)] = -np.inf
    failed = plain.failed_assumptions
    if n_alone := int(np.isposinf(values).sum()):
        failed += (f"no word may be alone near a context, got {n_alone} that {_are(n_alone)}",)
    return FactorMatrix(values, f"{plain.equation} - log(1 - p(w_i | c_j))", failed)


def linear_form(
    joint: Float64[np.ndarray, "words contexts"],
) -> Float64[np.ndarray, "words contexts"]:
    """|V| p(w_i, c_j) / p(c_j) - 1 of any joint distribution or counts; nan in columns of 0.

    >>> linear_form(np.array([[0.5, 0.0], [0.5, 0.0]]))
    array([[ 0., nan],
           [ 0., nan]])
    """
    with np.errstate(invalid="ignore"):
        return len(joint) * (joint / joint.sum(axis=0)) - 1


def log_form(
    joint: Float64[np.ndarray, "words contexts"],
) -> Float64[np.ndarray, "words contexts"]:
    """log(p(w_i, c_j) / p(c_j)) + log |V| of a joint distribution or counts; nan in columns of 0.

    >>> log_form(np.array([[0.5, 0.0], [0.5, 0.0]]))
    array([[ 0., nan],
           [ 0., nan]])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(joint / joint.sum(axis=0)) + np.log(len(joint))


def asymmetry(joint: Float64[np.ndarray, "rows columns"]) -> float:
    """How far p(w_i, c_j) is from p(w_j, c_i): half the sum of |p - p'|, in [0, 1).

    The share of pairs that would have to change places. Counts of pairs are symmetric; p-bar, whose
    pairs are weighted by attention, is not, as proposition 8 assumes it to be.
    Raises DataError for a matrix that is not square.
    Source: "Bidirectional attention as a mixture of continuous word experts", propositions 8, 17.

    >>> asymmetry(np.array([[0.2, 0.5], [0.3, 0.0]]))
    0.2
    """
    if joint.shape[0] != joint.shape[1]:
        raise DataError(f"`joint` must be square, got shape {joint.shape}.")
    return float(np.abs(joint - joint.T).sum() / 2)


def unsupported(values: Float64[np.ndarray, "words contexts"]) -> tuple[str, ...]:
    """What is said of words that are in no context, and of pairs that do not occur.

    >>> unsupported(np.array([[1.0, np.nan], [-np.inf, np.nan]]))
    ('every word must be a context, got 1 that is not', 'every pair must occur, got 1 of 4 that \
do not')
    """
    failed: tuple[str, ...] = ()
    if n_words := int(np.isnan(values).all(axis=0).sum()):
        failed += (f"every word must be a context, got {n_words} that {_are(n_words)} not",)
    if n_pairs := int(np.isneginf(values).sum()):
        failed += (f"every pair must occur, got {n_pairs} of {values.size} that do not",)
    return failed


def too_large(linear: Float64[np.ndarray, "words contexts"]) -> tuple[str, ...]:
    """What is said of entries of a linear form for which exp and log are no longer about linear.

    >>> too_large(np.array([[-0.5, 0.5], [3.0, np.nan]]))
    ('entries of the linear form must be within 1 of 0, got 33% that are not',)
    """
    known = linear[np.isfinite(linear)]
    share = float((np.abs(known) > 1).mean()) if known.size else 0.0
    if share <= _LARGE:
        return ()
    return (f"entries of the linear form must be within 1 of 0, got {share:.0%} that are not",)


def _uneven(pairs: CountedPairs) -> tuple[str, ...]:
    """The proof has 2m words around every center."""
    sizes = np.flatnonzero(pairs.context_sizes[1:]) + 1
    failed: tuple[str, ...] = ()
    if n_empty := int(pairs.context_sizes[0]):
        failed += (f"every center must have a context, got {n_empty} without",)
    if len(sizes) > 1:
        failed += (f"all contexts must have one size, got {sizes[0]} to {sizes[-1]} words",)
    return failed


def _are(n: int) -> str:
    return "is" if n == 1 else "are"
