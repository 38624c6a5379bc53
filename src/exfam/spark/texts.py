"""Words of texts in a data frame of Spark's, and pairs of them, counted by the executors."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse
from jaxtyping import Int32

from exfam.checks import DataError
from exfam.columns.parts import Part, check_named
from exfam.kernels.cooccurrence import as_counts, whole_cooccurrences, window_amounts
from exfam.reading.text.corpus import Position, SentenceSource
from exfam.reading.text.text_options import TextOptions
from exfam.reading.text.vocabulary import Vocabulary
from exfam.reading.text.word_table import WordTable
from exfam.spark.engine import check_frame

# Distinct words that an executor holds, words whose pairs it counts at once, and how it does that.
MAX_DISTINCT, TOKENS_AT_ONCE, MAX_BYTES = 2_000_000, 4_000_000, 500_000_000
# What executors hand on: words or pairs, how much there is of each, and what they refuse.
_SCHEMA = "key {}, amount BIGINT, error STRING"
_TEXTS = ("string", "array<string>")

Batches = Iterator[pa.RecordBatch]


def count_words(
    dataframe: Any,
    *,
    column: str,
    min_count: int = 5,
    max_words: int | None = None,
    lower: bool = False,
    cleaning: str | None = None,
) -> Vocabulary:
    """The words of a column of texts, or of lists of words, and how often each is read.

    Equal to the vocabulary of `prepare_text` of these texts, with the same options. This process
    holds the words that are read `min_count` times.

    Raises DataError for texts that cannot be read, ExfamError where pyspark is missing.
    """
    options = TextOptions(min_count, max_words, "lines", lower, cleaning, MAX_DISTINCT)
    rows = _counted(
        dataframe,
        column,
        partial(_words, options=options),
        kind="STRING",
        kept=f"amount >= {min_count} OR key = ''",
    )
    words, amounts = rows["key"].to_pylist(), rows["amount"].to_pylist()
    counts = dict(zip(words, amounts, strict=True))
    n_tokens = counts.pop("", 0)
    order = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
    if len(order) < 2:
        raise DataError(
            f"`dataframe` must have two words or more that are read {min_count} times, got "
            f"{len(order)} among {n_tokens} words read. Choose a lower `min_count`."
        )
    return Vocabulary(tuple(order), np.array([counts[word] for word in order], np.int64), n_tokens)


def count_pairs(
    dataframe: Any,
    vocabulary: Vocabulary,
    *,
    column: str,
    window: int,
    weights: str = "flat",
    lower: bool = False,
    cleaning: str | None = None,
) -> scipy.sparse.csr_array:
    """How much the words of a vocabulary occur within `window` positions of each other.

    Other words keep their positions. Equal, to the last bit, to what `PMIFactorization` counts of
    these texts; see `exfam.kernels.cooccurrence.count_cooccurrences` for `weights`. This process
    holds all pairs that occur.

    Raises DataError for texts that cannot be read, ExfamError where pyspark is missing.
    """
    unit = window_amounts(weights, window)[1]
    options = TextOptions(1, None, "lines", lower, cleaning, MAX_DISTINCT)
    count = partial(whole_cooccurrences, n_words=len(vocabulary), window=window, weights=weights)
    work = partial(_pairs, options=options, vocabulary=vocabulary, count=count)
    rows = _counted(dataframe, column, work, kind="BIGINT", kept="true")
    pairs, amounts = (rows[name].to_numpy() for name in ("key", "amount"))
    codes = [words.astype(np.int32) for words in np.divmod(pairs, len(vocabulary))]
    shape = (len(vocabulary), len(vocabulary))
    return as_counts(scipy.sparse.csr_array((amounts, codes), shape=shape), unit)


def _counted(
    dataframe: Any,
    column: str,
    work: Callable[[Batches], Batches],
    *,
    kind: str,
    kept: str,
) -> pa.Table:
    """What executors make of a column, the amounts of each key added up, those that are `kept`."""
    check_frame(dataframe)
    names = list(dataframe.columns)
    check_named([Part("column", column)], names, what="dataframe")
    numbered = dataframe.toDF(*(f"c{k}" for k in range(len(names))))
    texts = numbered.select(f"c{names.index(column)}")
    got = texts.schema[0].dataType.simpleString()
    if got not in _TEXTS:
        raise DataError(
            f"`column` must hold texts, or lists of words, got {got} in column {column!r}. Choose "
            "another one."
        )
    counted = texts.mapInArrow(work, _SCHEMA.format(kind)).groupBy("key")
    summed = counted.agg({"amount": "sum", "error": "max"}).toDF("key", "amount", "error")
    rows = summed.where(f"{kept} OR error IS NOT NULL").toArrow()
    errors = rows["error"].drop_null()
    if len(errors):
        raise DataError(errors[0].as_py())
    return rows


def _words(batches: Batches, *, options: TextOptions) -> Batches:
    """In an executor: all words and their counts, and under "" how many were read."""
    table = WordTable(max_distinct=2 * MAX_DISTINCT)
    n_tokens = 0
    for text in _texts(batches):
        if isinstance(text, DataError):
            yield _batch([""], [0], str(text))
            return
        for _ in table.encode(options.cleaned(text), by_lines=True):
            pass
        if table.n_words > MAX_DISTINCT:  # before any is forgotten
            yield _of(table)
            n_tokens, table = n_tokens + table.n_tokens, WordTable(max_distinct=2 * MAX_DISTINCT)
    yield _of(table)
    yield _batch([""], [n_tokens + table.n_tokens])


def _of(table: WordTable) -> pa.RecordBatch:
    return _batch(table.texts(np.arange(table.n_words)), table.counts)


def _pairs(
    batches: Batches,
    *,
    options: TextOptions,
    vocabulary: Vocabulary,
    count: Callable[[Int32[np.ndarray, "tokens"]], tuple[scipy.sparse.csr_array, int]],
) -> Batches:
    """In an executor: all pairs of words, as one number, in whole amounts."""
    table, n_words = WordTable(max_distinct=MAX_DISTINCT, known=vocabulary), len(vocabulary)
    held: list[np.ndarray] = []
    for text in _texts(batches):
        if isinstance(text, DataError):
            yield _batch([-1], [0], str(text))
            return
        # A piece of text ends with a sentence. Which of the other words it is does not matter.
        parts = table.encode(options.cleaned(text), by_lines=True)
        held += [np.minimum(part.ids, n_words) for part in parts]
        if sum(map(len, held)) > TOKENS_AT_ONCE:
            yield _of_pairs(count(np.concatenate(held))[0])
            held = []
    if held:
        yield _of_pairs(count(np.concatenate(held))[0])


def _of_pairs(counts: scipy.sparse.csr_array) -> pa.RecordBatch:
    pairs = counts.tocoo()
    return _batch(pairs.row.astype(np.int64) * counts.shape[0] + pairs.col, pairs.data)


def _batch(keys: Any, amounts: Any, error: str | None = None) -> pa.RecordBatch:
    errors = pa.nulls(len(keys), pa.string()) if error is None else pa.array([error])
    arrays = [pa.array(keys), pa.array(amounts, pa.int64()), errors]
    return pa.RecordBatch.from_arrays(arrays, ["key", "amount", "error"])


def _texts(batches: Batches) -> Iterator[bytes | DataError]:
    """The texts of a column as lines of UTF-8; in the end the error of what is no text."""
    sentences = (sentence for batch in batches for sentence in batch.column(0).to_pylist())
    try:
        yield from (piece.text for piece in SentenceSource(sentences).pieces(start=Position()))
    except DataError as error:
        yield error
