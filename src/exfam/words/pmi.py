"""Word vectors by factorizing pointwise mutual information."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
from jaxtyping import Float, Int64

from exfam.checks import DataError, ExfamError, check_positive
from exfam.estimator.base import Estimator, check_fitted, parameter
from exfam.estimator.file_parameters import TextFiles
from exfam.estimator.record import recorded
from exfam.estimator.rules import SEED, Choice, Flag, Positive, Whole
from exfam.kernels.cooccurrence import WINDOW_WEIGHTS, count_cooccurrences
from exfam.reading.text import PreparedText, prepare_text
from exfam.reading.text.corpus import warn_unknown_words
from exfam.vectors import WordVectors
from exfam.vectors.neighbors import row_slices
from exfam.words.word_estimator import prepared_before

if TYPE_CHECKING:
    from exfam.families import Categorical

_LOGITS_AT_ONCE = 16_000_000
_SPECTRA = {"eigenvalues", "singular_values"}


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of words and of pairs of them, within a window."""

    words: tuple[str, ...]
    counts: Int64[np.ndarray, "words"]
    pairs: scipy.sparse.csr_array

    def kept(self, min_count: int) -> "PairCounts":
        """Those of words read at least so often, the most frequent first."""
        order = np.argsort(-self.counts, kind="stable")
        order = order[self.counts[order] >= min_count]
        words = tuple(self.words[code] for code in order)
        return PairCounts(words, self.counts[order], self.pairs[order][:, order])

    def added(self, other: "PairCounts") -> "PairCounts":
        """Sums of both; words of `other` that are new follow those of this."""
        words = tuple(dict.fromkeys(self.words + other.words))
        own, others = self._widened(words), other._widened(words)
        return PairCounts(words, own.counts + others.counts, own.pairs + others.pairs)

    def _widened(self, words: tuple[str, ...]) -> "PairCounts":
        index = {word: code for code, word in enumerate(words)}
        code = np.array([index[word] for word in self.words], dtype=np.int64)
        counts = np.zeros(len(words), dtype=np.int64)
        counts[code] = self.counts
        pairs = self.pairs.tocoo()
        wide = (pairs.data, (code[pairs.row], code[pairs.col]))
        shape = (len(words), len(words))
        return PairCounts(words, counts, scipy.sparse.csr_array(wide, shape=shape))


def with_rare_words(source: Any, *, encoding: str | None) -> PreparedText:
    """A prepared text that keeps rare words, which hold their positions in windows."""
    text = prepared_before(source)
    return prepare_text(source, min_count=1, encoding=encoding) if text is None else text


class PMIFactorization(TextFiles, Estimator):
    """Vectors whose products are the mutual information of words that occur together.

    The model is Categorical: p(i | j) = p_i exp(w_j . c_i) / Z_j for word i in the context of word
    j, with p_i the frequency of i (to the power `exponent`) and Z_j exact.

    {parameters}

    After `fit`: `vectors_`; `eigenvalues_` or `singular_values_`, the largest first;
    `frequencies_`, the words' shares of all words with a vector.
    Source: Remark 4.2 of the paper on reflections; Levy & Goldberg (2014), section 5.

    >>> text = ["a b a c", "c b a", "b c a b", "d c d", "d a d b"] * 3
    >>> model = PMIFactorization(dim=2, min_count=2).fit(text)
    >>> model.vectors_.center.shape, model.vectors_.signs.tolist()
    ((4, 2), [1, -1])
    """

    kind = "pmi-factorization"
    fitted_attribute = "vectors_"

    dim: int = parameter(Whole(), "length of a vector; fewer than there are words", default=200)
    window: int = parameter(Whole(most=10**6), "the largest distance of a context word", default=2)
    weights: str = parameter(
        Choice(WINDOW_WEIGHTS),
        'of a pair by its distance: "flat", "harmonic" or "dynamic"',
        default="flat",
    )
    min_count: int = parameter(
        Whole(),
        "how often a word must be read to get a vector; rarer ones keep their positions in windows",
        default=100,
    )
    method: str = parameter(
        Choice(("eigen", "svd")),
        '"eigen": W = U |L|^(1/2) and C = W sgn L of the eigenvalues L largest in absolute '
        'value, tied by reflection; or "svd": W = U S^(1/2) and C = V S^(1/2) of the largest '
        "singular values",
        default="eigen",
    )
    positive: bool = parameter(Flag(), "whether negative information becomes 0", default=False)
    shift: float = parameter(
        Positive(zero=True), "taken from information, in nats: log k for k negatives", default=0.0
    )
    exponent: float = parameter(
        Positive(), 'of the contexts\' frequencies; must be 1 for "eigen"', default=1.0
    )
    max_bytes: int = parameter(
        Whole(most=2**63 - 1),
        "of memory for counting, about; what does not fit goes to files",
        default=2000000000,
    )
    seed: int = parameter(SEED, "of the start of Lanczos iteration", default=0)

    vectors_: WordVectors
    frequencies_: Float[np.ndarray, "words"]
    eigenvalues_: Float[np.ndarray, "dim"]
    singular_values_: Float[np.ndarray, "dim"]

    @recorded
    def fit(
        self, X: Any, y: None = None, *, folder: str | PathLike[str] | None = None
    ) -> "PMIFactorization":
        """Fit to a prepared text or the folder of one, files, or sentences.

        `folder`: where counting is saved as it goes: a fit that was killed goes on from there.
        Raises DataError where too few words are read often enough.
        """
        self._check_parameters()
        text = with_rare_words(X, encoding=self.file_encoding)
        counts = zip(text.vocabulary.words, text.vocabulary.counts, strict=True)
        often = tuple(word for word, count in counts if count >= self.min_count)
        self._factorize(self._count(text, often, folder))
        n_tokens = int(sum(text.vocabulary.counts))
        self.data_counts_ = {"tokens": n_tokens, "words": len(self.vectors_.words)}
        return self

    def partial_fit(self, X: Any, y: None = None) -> "PMIFactorization":
        """Add the counts of more text, and factorize anew; words may be new.

        Counts all words of a text, also those too rare as yet: calls on the parts of a text come
        to what one call on the whole does. Words that `fit` left out start from nothing.
        """
        self._check_parameters()
        text = with_rare_words(X, encoding=self.file_encoding)
        more = self._count(text, tuple(text.vocabulary.words))
        counted = getattr(self, "_counted", None)
        self._factorize(more if counted is None else counted.added(more))
        return self

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        vectors, pairs = self.vectors_, self._counted.pairs
        arrays = {
            "center": vectors.center,
            "context": vectors.context,
            "signs": vectors.signs,
            "frequencies": self.frequencies_,
            **{name: getattr(self, f"{name}_", None) for name in _SPECTRA},
            "counts": self._counted.counts,
            "pairs": pairs.data,
            "pair_columns": pairs.indices,
            "pair_rows": pairs.indptr,
        }
        return {}, {name: array for name, array in arrays.items() if array is not None}

    def _labels(self) -> dict[str, np.ndarray]:
        words = {"word": self.vectors_.words, "counted": self._counted.words}
        return {name: np.array(labels, dtype=object) for name, labels in words.items()}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        stored = {name: np.asarray(tensor) for name, tensor in tensors.items()}
        words, counted = (tuple(vocabulary[name].tolist()) for name in ("word", "counted"))
        context, signs = (stored.get(name) for name in ("context", "signs"))
        self.vectors_ = WordVectors(words, stored["center"], context, signs)
        self.frequencies_ = stored["frequencies"]
        for name in _SPECTRA & stored.keys():
            setattr(self, f"{name}_", stored[name])
        entries = stored["pairs"], stored["pair_columns"], stored["pair_rows"]
        pairs = scipy.sparse.csr_array(entries, shape=(len(counted), len(counted)))
        self._counted = PairCounts(counted, stored["counts"], pairs)

    def log_conditional(self, words: Sequence[str]) -> Float[np.ndarray, "chosen words"]:
        """log p(i | j) in nats of every word i in the context of each j of `words`.

        Columns follow `vectors_.words`. Raises UnknownWordError for a word without a vector.
        """
        check_fitted(self, "vectors_")
        return self._log_rows(self.vectors_.codes(words))

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-likelihood in nats of a context word given its word, normalized exactly.

        Over all pairs of words with vectors within the window, each pair in both directions and
        weighted as in counting. Words without vectors are left out, with a warning.
        """
        check_fitted(self, "vectors_")
        self._check_parameters()
        text = with_rare_words(X, encoding=self.file_encoding)
        counted = self._count(text, self.vectors_.words)
        pairs, total = counted.pairs, 0.0
        if not pairs.nnz:
            raise DataError(
                "`X` must hold at least one pair of words that have vectors, got none. "
                "Take more text, or fit with a smaller `min_count`."
            )
        warn_unknown_words(text.n_tokens - int(counted.counts.sum()), text.n_tokens)
        rows = np.flatnonzero(np.diff(pairs.indptr))
        for part in row_slices(len(rows), max(1, _LOGITS_AT_ONCE // len(self.vectors_))):
            some = rows[part]
            held = pairs[some].tocoo()
            total += float(held.data @ self._log_rows(some)[held.row, held.col])
        return total / float(pairs.sum())

    @property
    def family(self) -> "Categorical":
        """The family of a context word given its word: one class per word."""
        from exfam.families import Categorical

        check_fitted(self, "vectors_")
        return Categorical(len(self.vectors_))

    def _log_rows(self, codes: np.ndarray) -> Float[np.ndarray, "chosen words"]:
        centers = self.vectors_.center[codes].astype(np.float64)
        context = self.vectors_.matrix("context").astype(np.float64)
        prior = np.log(self.frequencies_) * self.exponent
        return scipy.special.log_softmax(centers @ context.T + prior, axis=1)

    def _count(
        self, text: PreparedText, words: tuple[str, ...], folder: str | PathLike[str] | None = None
    ) -> PairCounts:
        """Counts of `words` and pairs of them; all other words keep their positions in windows."""
        codes = {word: code for code, word in enumerate(words)}
        own = text.vocabulary.words
        code = np.array([codes.get(word, len(words)) for word in own] + [-1], dtype=np.int32)
        counts = np.zeros(len(words) + 1, dtype=np.int64)
        np.add.at(counts, code[:-1], text.vocabulary.counts)
        # Codes that stay as they are need no copy of the text.
        known = min(len(own), len(words))
        as_is = np.array_equal(code[:known], np.arange(known)) and (code[known:-1] >= known).all()
        tokens = text.tokens if as_is else code[text.tokens]
        options = {name: getattr(self, name) for name in ("window", "weights", "max_bytes")}
        pairs = count_cooccurrences(tokens, len(words), **options, folder=folder)
        return PairCounts(words, counts[:-1], pairs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method == "eigen" and self.exponent != 1:
            raise ExfamError(
                f"`exponent` must be 1 for method='eigen', got {self.exponent}: information is not "
                "symmetric otherwise. Use method='svd'."
            )

    def _factorize(self, counted: PairCounts) -> None:
        kept = counted.kept(self.min_count)
        if len(kept.words) <= self.dim:
            raise DataError(
                f"`X` must hold more than dim = {self.dim} words read at least {self.min_count} "
                f"times, got {len(kept.words)}. Lower `min_count` or `dim`, or take more text."
            )
        matrix = association(
            kept.pairs, positive=self.positive, shift=self.shift, exponent=self.exponent
        )
        if self.method == "eigen":
            values, vectors = largest_eigenpairs(matrix, self.dim, seed=self.seed)
            context, signs = None, np.where(values < 0, -1, 1).astype(np.int8)
        else:
            vectors, values, right = largest_singular_triplets(matrix, self.dim, seed=self.seed)
            signs, context = None, np.ascontiguousarray(right * np.sqrt(values), dtype=np.float32)
        center = np.ascontiguousarray(vectors * np.sqrt(np.abs(values)), dtype=np.float32)
        self.vectors_ = WordVectors(kept.words, center, context, signs)
        setattr(self, "eigenvalues_" if self.method == "eigen" else "singular_values_", values)
        self.frequencies_ = kept.counts / kept.counts.sum()
        self._counted = counted


def association(
    counts: scipy.sparse.csr_array,
    *,
    positive: bool = False,
    shift: float = 0.0,
    exponent: float = 1.0,
) -> scipy.sparse.csr_array:
    """Pointwise mutual information in nats of all pairs that were counted; others stay 0.

    Entry (j, i) is log p(i | j) / p(i) less `shift` (log k for k negative samples), where p(i | j)
    is the share of i in row j and p(i) that of `context_probability`. Pairs never seen are 0,
    shifted or not: the matrix stays as sparse as the counts. `positive`: negative values become 0.
    `exponent`: of the contexts' frequencies; other than 1 the matrix is not symmetric.
    Source: Levy, Goldberg & Dagan (2015), section 3; Levy & Goldberg (2014), eq. 11.
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
    entries = np.where(seen, values, 0.0), counts.indices.copy(), counts.indptr.copy()
    information = scipy.sparse.csr_array(entries, shape=counts.shape)
    if not seen.all():
        information.eliminate_zeros()
    return information


def context_probability(
    counts: scipy.sparse.csr_array, *, exponent: float
) -> Float[np.ndarray, "contexts"]:
    """Shares of the contexts, each frequency raised to `exponent`; they sum to 1."""
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


def largest_eigenpairs(
    matrix: Any, k: int, *, seed: int
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "words k"]]:
    """The `k` eigenvalues largest in absolute value, the largest first, and their vectors.

    From a start drawn with `seed`; each vector's entry largest in absolute value is positive.
    Raises DataError for a matrix that is not square, symmetric and finite.
    """
    check_symmetric(matrix)
    n = matrix.shape[0]
    if not 1 <= k < n:
        raise ExfamError(f"`k` must be from 1 to {n - 1} for a matrix of {n} rows, got {k}.")
    start = np.random.default_rng(seed).standard_normal(n)
    with _lanczos_errors():
        values, vectors = scipy.sparse.linalg.eigsh(matrix.astype(np.float64), k, v0=start)
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], vectors[:, order] * _signs(vectors[:, order])


def largest_singular_triplets(
    matrix: scipy.sparse.csr_array, k: int, *, seed: int
) -> tuple[Float[np.ndarray, "words k"], Float[np.ndarray, "k"], Float[np.ndarray, "words k"]]:
    """The `k` largest singular values, the largest first, between their left and right vectors.

    Signs are such that the entry of a left vector largest in absolute value is positive.
    """
    start = np.random.default_rng(seed).standard_normal(matrix.shape[0])
    with _lanczos_errors():
        left, values, right = scipy.sparse.linalg.svds(matrix, k, v0=start)
    order = np.argsort(-values, kind="stable")
    left, right = left[:, order], right[order].T
    return left * _signs(left), values[order], right * _signs(left)


def _signs(vectors: Float[np.ndarray, "words k"]) -> Float[np.ndarray, "k"]:
    """Of the entry of each column that is largest in absolute value."""
    return np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)[0])


@contextlib.contextmanager
def _lanczos_errors() -> Iterator[None]:
    """DataError for a matrix of which Lanczos iteration finds no pairs, as one of zeros alone."""
    try:
        yield
    except scipy.sparse.linalg.ArpackError as error:
        raise DataError(
            f"The matrix must have as many pairs as are wanted, got {error}. If all its entries "
            "are 0, take more text or a smaller `shift`; else, a smaller `dim`."
        ) from error


def check_symmetric(matrix: Any) -> None:
    """Raise DataError for a matrix that is not square, symmetric and finite."""
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise DataError(f"`matrix` must be square, got shape {shape}.")
    entries = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if not np.isfinite(entries).all():
        raise DataError("`matrix` must be finite, got NaN or infinite entries.")
    apart = abs(matrix - matrix.T).max()
    if apart > 1e-9 * abs(matrix).max():
        raise DataError(
            f"`matrix` must be symmetric, got entries that are {apart:g} apart from those across "
            "the diagonal. Context exponents other than 1 make it so."
        )
