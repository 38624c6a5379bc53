"""What word embeddings factorize: matrices whose entries products of two vectors should be.

Centers w_i, which are predicted (`output_vectors_`), are in rows, contexts c_j (`input_vectors_`)
in columns. Logarithms of pairs that never occur are -inf; a column of no context is nan.
Source: "Bidirectional attention as a mixture of continuous word experts", section 4, appendix H.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float64, Int64, Shaped

from exfam.checks import DataError, check_whole
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import PreparedText
from exfam.vectors.evaluation import correlation, rank_correlation
from exfam.words.pmi import association
from exfam_studies.common.statements import unmet

# The share of entries above 1 from which on expansions about 0 count as failed.
_LARGE = 0.05

Matrix = Float[np.ndarray, "words contexts"]
Chosen = Bool[np.ndarray, "words contexts"] | bool


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """How often word i (rows) was a center with word j (columns) in its context.

    `context_sizes`: how many centers had a context of 0, 1, 2, … words
    """

    counts: scipy.sparse.csr_array
    context_sizes: Int64[np.ndarray, "sizes"]

    @property
    def weights(self) -> Matrix:
        """The counts as a full matrix: 8 bytes for each two words."""
        return self.counts.toarray().astype(np.float64)

    @property
    def joint(self) -> Matrix:
        """p(w_i, c_j) of all pairs, which sum to 1."""
        return self.weights / self.counts.sum()


def count_word_pairs(
    text: PreparedText, *, window: int | None, weights: str = "flat"
) -> CountedPairs:
    """Count the pairs of a corpus; words out of its vocabulary are as if not written.

    `window`: the largest distance of two words of a sentence; None for the whole sentence
    `weights`: "flat", "harmonic" or, as windows drawn from 1 to `window` weigh pairs, "dynamic"

    Raises DataError for a text without any pair.
    """
    sentence, length = by_sentence(text)
    reach = int(length.max()) - 1 if window is None else window
    counts = count_cooccurrences(text.tokens, len(text.vocabulary), window=reach, weights=weights)
    before = np.arange(len(sentence)) - (np.cumsum(length) - length)[sentence]
    after = length[sentence] - 1 - before
    return CountedPairs(counts, np.bincount(np.minimum(before, reach) + np.minimum(after, reach)))


def by_sentence(
    text: PreparedText,
) -> tuple[Int64[np.ndarray, "words"], Int64[np.ndarray, "sentences"]]:
    """The sentence of every word, from 0, and the number of words of every sentence.

    Raises DataError for a text without any pair of words.
    """
    sentence = np.cumsum(text.tokens < 0)[text.tokens >= 0]
    length = np.bincount(sentence)
    if length.max(initial=0) < 2:
        raise DataError(
            "`text` must hold a sentence of two words or more, got none. Prepare longer sentences."
        )
    return sentence, length


@dataclass(frozen=True, eq=False)
class FactorMatrix:
    """Entries that products w_i . c_j should be, and what failed of all that this assumes.

    `equation`: the entry (i, j) in words; values of -inf are log 0, those of nan not defined
    """

    values: Matrix
    equation: str
    failed_assumptions: tuple[str, ...]

    @property
    def defined(self) -> Bool[np.ndarray, "words contexts"]:
        """Where an entry is a finite number."""
        return np.isfinite(self.values)


# Products of a model, centers in rows, beside the matrices they should be, by name; and figures.
Judged = tuple[Mapping[str, tuple[np.ndarray, FactorMatrix]], dict[str, float]]


def cbow_linear_matrix(pairs: CountedPairs) -> FactorMatrix:
    """What CBOW without negative sampling factorizes, for its loss linearized: |V| p(w,c)/p(c) - 1.

    Assumes that all centers have contexts of one size, that every word is a context, and that
    entries are small, for only then do the expansions come near the loss. Source: appendix H.
    """
    values = linear_form(pairs.weights)
    failed = _uneven_contexts(pairs) + unsupported(values) + too_large(values)
    return FactorMatrix(values, "|V| p(w_i, c_j) / p(c_j) - 1", failed)


def cbow_log_matrix(pairs: CountedPairs) -> FactorMatrix:
    """log(p(w_i, c_j) / p(c_j)) + log |V|, in nats: what CBOW factorizes by propositions 3 and 9.

    Assumes what `cbow_linear_matrix` does, of which it is log(1 + x), and that every pair occurs.
    """
    values, linear = log_form(pairs.weights), linear_form(pairs.weights)
    failed = _uneven_contexts(pairs) + unsupported(values) + too_large(linear)
    return FactorMatrix(values, "log(p(w_i, c_j) / p(c_j)) + log |V|", failed)


def sgns_matrix(pairs: CountedPairs, *, negatives: int, excused: bool = False) -> FactorMatrix:
    """What skip-gram with k negatives factorizes: PMI - log k, in nats.

    `excused`: whether noise that is the predicted word itself is not counted, as by `SkipGram`:
        log(1 - p(w_i | c_j)) is then taken from entries

    Assumes dimensions enough to fit every pair, noise drawn as words are frequent, and that every
    pair occurs. Source: Levy & Goldberg (2014), eqs. 5 to 11.
    """
    check_whole("negatives", negatives)
    # Noise is drawn among the predicted words, which `association` has in columns.
    values = association(pairs.counts.T.tocsr(), shift=float(np.log(negatives))).toarray().T
    weights = pairs.weights
    never, of_context = weights == 0, weights.sum(axis=0)
    values[never] = -np.inf
    values[:, of_context == 0] = np.nan
    equation = f"log(p(w_i, c_j) / (p(w_i) p(c_j))) - log {negatives}"
    failed = unsupported(values)
    if excused:
        equation += " - log(1 - p(w_i | c_j))"
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(never, values, values - np.log(1 - weights / of_context))
        if n_alone := int(np.isposinf(values).sum()):
            failed += (f"no word may be alone near a context, got {n_alone} that are",)
    return FactorMatrix(values, equation, failed)


def linear_form(joint: np.ndarray) -> np.ndarray:
    """|V| p(w_i, c_j) / p(c_j) - 1 of a joint distribution or counts; nan in columns of 0."""
    with np.errstate(invalid="ignore"):
        return len(joint) * (joint / joint.sum(axis=0)) - 1


def log_form(joint: np.ndarray) -> np.ndarray:
    """log(p(w_i, c_j) / p(c_j)) + log |V| of a joint distribution or counts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(joint / joint.sum(axis=0)) + np.log(len(joint))


def asymmetry(joint: Float64[np.ndarray, "words words"]) -> float:
    """How far p(w_i, c_j) is from p(w_j, c_i): half the sum of |p - p'|, in [0, 1)."""
    return float(np.abs(joint - joint.T).sum() / 2)


def unsupported(values: np.ndarray) -> tuple[str, ...]:
    """What is said of words that are in no context, and of pairs that do not occur."""
    n_words, n_pairs = int(np.isnan(values).all(axis=0).sum()), int(np.isneginf(values).sum())
    return unmet(
        (n_words == 0, f"every word must be a context, got {n_words} that are not"),
        (n_pairs == 0, f"every pair must occur, got {n_pairs} of {values.size} that do not"),
    )


def too_large(linear: np.ndarray) -> tuple[str, ...]:
    """What is said of entries for which exp and log are no longer about linear."""
    known = linear[np.isfinite(linear)]
    share = float((np.abs(known) > 1).mean()) if known.size else 0.0
    words = f"entries of the linear form must be within 1 of 0, got {share:.0%} that are not"
    return unmet((share <= _LARGE, words))


def _uneven_contexts(pairs: CountedPairs) -> tuple[str, ...]:
    n_empty, sizes = int(pairs.context_sizes[0]), np.flatnonzero(pairs.context_sizes[1:]) + 1
    return unmet(
        (n_empty == 0, f"every center must have a context, got {n_empty} without"),
        (len(sizes) == 1, f"all contexts must have one size, got {sizes[0]} to {sizes[-1]} words"),
    )


@dataclass(frozen=True)
class Agreement:
    """Correlations of products with the entries of a matrix; nan where all are equal.

    `spearman`: of all cells whose context occurs, pairs that never occur being the lowest;
    `pearson`: of the cells that are finite numbers
    """

    band: str
    spearman: float
    pearson: float
    n_cells: int
    n_defined: int

    def __str__(self) -> str:
        return (
            f"{self.band}: Spearman {self.spearman:.3f} of {self.n_cells} cells, "
            f"Pearson {self.pearson:.3f} of the {self.n_defined} defined"
        )


def agreement(
    products: Matrix, matrix: FactorMatrix, *, band: str = "all pairs", chosen: Chosen = True
) -> Agreement:
    """The agreement of products, centers in rows, with a matrix, over all pairs or those chosen."""
    ranked, defined = chosen & ~np.isnan(matrix.values), chosen & matrix.defined
    return Agreement(
        band=band,
        spearman=rank_correlation(products[ranked], matrix.values[ranked]),
        pearson=correlation(products[defined].astype(np.float64), matrix.values[defined]),
        n_cells=int(ranked.sum()),
        n_defined=int(defined.sum()),
    )


def agreement_by_band(
    products: Matrix,
    matrix: FactorMatrix,
    *,
    frequency: Shaped[np.ndarray, "words"],
    bounds: Sequence[int | float],
) -> tuple[Agreement, ...]:
    """The agreement within bands of frequency: a pair is in that of the rarer of its two words.

    `bounds`: where a band ends and the next begins, rising; a word at a bound is in the upper band
    """
    ends = [f"{bound:g}" for bound in bounds]
    between = [f"{low} to {high}" for low, high in zip(ends, ends[1:], strict=False)]
    of_pair = np.searchsorted(bounds, np.minimum(frequency[:, None], frequency), side="right")
    return tuple(
        agreement(products, matrix, band=band, chosen=of_pair == number)
        for number, band in enumerate([f"below {ends[0]}", *between, f"{ends[-1]} and more"])
    )
