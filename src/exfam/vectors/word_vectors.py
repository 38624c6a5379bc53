"""Words and their vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float, Float32, Int8, Int64

from exfam.checks import DataError, check_choice
from exfam.vectors.distances import closer_rows, cosine_distances
from exfam.vectors.files import StoredVectors, read_vectors, write_vectors
from exfam.vectors.files.rows import FilePath, check_contexts, check_vectors, with_context
from exfam.vectors.gensim_names import absent_attribute
from exfam.vectors.neighbors import Nearest, analogy_answers, nearest_rows, nearest_to
from exfam.vectors.queries import (
    Query,
    Term,
    WeightedQuery,
    as_terms,
    check_vector,
    checked_weights,
    direction,
    first_rows,
    how_many,
    summed_direction,
    unknown_word,
    weighted_mean,
)

_MATRICES = ("center", "context", "both")
_LEAVE_OUT = " Or leave unknown words out: ignore_missing=True."


class Neighbor(NamedTuple):
    """A word and its score: a cosine, or what a rule of analogies gives."""

    word: str
    score: float


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each word, or two: as the center of a window and as context of others.

    `words`: in order of the rows, by convention the most frequent first
    `context`: vectors of the words as context; None if there are none, or if they are tied
    `signs`: +1 or -1 for each column; context vectors are then the center's times these signs
        (tied by reflection) and are not stored

    Mapping-like: `vectors["cat"]` is the center vector, `vectors[["cat", "dog"]]` a row for each.
    Wherever a word is named, the number of its row does as well. `index_to_key`, `key_to_index`,
    `vectors` and `vector_size` are gensim's names for `words`, `index`, `center` and `dim`.
    Raises DataError, naming row and word, unless there is a finite row for each different word, and
    for `signs` other than -1 and +1 or given together with `context`.

    >>> vectors = WordVectors(("cat", "dog"), np.eye(2, dtype=np.float32))
    >>> "cat" in vectors, len(vectors), vectors["dog"]
    (True, 2, array([0., 1.], dtype=float32))
    """

    words: tuple[str, ...]
    center: Float32[np.ndarray, "words dim"]
    context: Float32[np.ndarray, "_ _"] | None = None
    signs: Int8[np.ndarray, "_"] | None = None
    index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        index = check_vectors(self.words, self.center, name="center")
        object.__setattr__(self, "index", index)
        check_contexts(StoredVectors(self.words, self.center, self.context, self.signs))

    @property
    def dim(self) -> int:
        """Length of a word's vector."""
        return self.center.shape[1]

    @property
    def tied(self) -> bool:
        """Whether context vectors are the center's, reflected."""
        return self.signs is not None

    def __repr__(self) -> str:
        kind = "tied" if self.tied else "center alone" if self.context is None else "with context"
        return f"WordVectors({len(self)} words, {self.dim} columns, {kind})"

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    @property
    def index_to_key(self) -> tuple[str, ...]:
        """The words, as gensim calls them."""
        return self.words

    @property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word, as gensim calls it."""
        return self.index

    @property
    def vectors(self) -> Float32[np.ndarray, "words dim"]:
        """The center vectors, as gensim calls them."""
        return self.center

    @property
    def vector_size(self) -> int:
        """Length of a word's vector, as gensim calls it."""
        return self.dim

    @cached_property
    def norms(self) -> Float32[np.ndarray, "words"]:
        """Lengths of the center vectors."""
        # Squares of large and small numbers leave float32.
        squares = np.einsum("rd,rd->r", self.center, self.center, dtype=np.float64)
        return np.sqrt(squares).astype(np.float32)

    def __contains__(self, word: object) -> bool:
        return self._row(word) is not None

    def __getitem__(self, word: Any) -> Float32[np.ndarray, "*chosen dim"]:
        is_key = isinstance(word, str) or not np.iterable(word)
        return self.center[self.code(word) if is_key else self.codes(word)]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(absent_attribute(name))

    def get(self, word: Any, default: Any = None) -> Any:
        """The word's center vector, or `default` for an unknown word."""
        row = self._row(word)
        return default if row is None else self.center[row]

    def _row(self, word: object) -> int | None:
        if isinstance(word, str):
            return self.index.get(word)
        if (
            isinstance(word, int | np.integer)
            and not isinstance(word, bool)
            and 0 <= word < len(self)
        ):
            return int(word)
        return None

    def code(self, word: Any) -> int:
        """The word's row, or the row itself.

        Raises UnknownWordError, with near spellings, for an unknown word.
        """
        row = self._row(word)
        if row is None:
            raise unknown_word(word, self.words)
        return row

    def codes(self, words: Any) -> Int64[np.ndarray, "chosen"]:
        """The words' rows. Raises UnknownWordError for an unknown word, DataError for no list."""
        if isinstance(words, str) or not np.iterable(words):
            raise DataError(f"`words` must be a list of words, got {words!r}.")
        return np.array([self.code(word) for word in words], dtype=np.int64)

    def matrix(self, of: str = "center") -> Float32[np.ndarray, "words dim"]:
        """All words' vectors: of the center, of the context, or of both: their sum.

        The sum is what GloVe releases and what hyperwords calls w+c. Of tied vectors it is zero
        where signs are -1. A center matrix is the array itself, not a copy.
        """
        check_choice("of", of, _MATRICES)
        if of == "center":
            return self.center
        if self.signs is not None:
            return self.center * (self.signs if of == "context" else self.signs + np.int8(1))
        if self.context is None:
            raise DataError(
                f"`of` must be 'center' for vectors without context vectors, got {of!r}. "
                "Give `context` or `signs`."
            )
        return self.context if of == "context" else self.center + self.context

    def most_similar(
        self,
        positive: WeightedQuery | Iterable[WeightedQuery] = (),
        negative: WeightedQuery | Iterable[WeightedQuery] = (),
        *,
        k: int | None = None,
        topn: int | None = None,
        of: str = "center",
        exclude: Sequence[str] = (),
        among: int | None = None,
    ) -> list[Neighbor]:
        """The `k` words with the largest cosine to the sum of `positive` less that of `negative`.

        `positive`, `negative`: words or vectors, one or several, each alone or as (word, weight); a
            word counts with a vector of length 1, a vector with its own length
        `k`, or `topn` as gensim calls it: how many words to find, 10 unless given
        `of`: "center", "context" or "both"
        `exclude`: words not to be found; those of `positive` and `negative` never are
        `among`: look among the first words alone; None for all

        Fewer are found where fewer are left. Raises UnknownWordError, with near spellings;
        DataError for a vector of zeros, nan or another length; ExfamError if nothing is given.

        >>> plane = np.array([[1, 0], [2, 1], [0, 1]], dtype=np.float32)
        >>> WordVectors(("cat", "dog", "the"), plane).most_similar("cat", k=1)[0].word
        'dog'
        """
        matrix = self.matrix(of)
        plus, minus = as_terms(positive, name="positive"), as_terms(negative, name="negative")
        parts = [self._part(term, matrix) for term in plus]
        mean = summed_direction([*parts, *(-self._part(term, matrix) for term in minus)])
        searched, n = first_rows(matrix, among), how_many(k, topn)
        words = [term.query for term in (*plus, *minus) if term.is_key]
        out = np.unique(self.codes([*words, *exclude]))
        out = out[out < len(searched)]
        if of != "center":
            return self._named(nearest_rows(mean[None], searched, k=n, excluded=out[None]))[0]
        lengths = self.norms[: len(searched)]
        return self._named(nearest_to(mean, searched, lengths=lengths, k=n, excluded=out))[0]

    def similar_by_word(
        self, word: str | int, *, topn: int = 10, among: int | None = None
    ) -> list[Neighbor]:
        """The `topn` words nearest to a word: `most_similar` of one word, as gensim calls it."""
        return self.most_similar(word, topn=topn, among=among)

    def similar_by_vector(
        self, vector: Float[np.ndarray, "_"], *, topn: int = 10, among: int | None = None
    ) -> list[Neighbor]:
        """The `topn` words nearest to a vector: `most_similar` of it, as gensim calls it."""
        return self.most_similar(vector, topn=topn, among=among)

    def neighbors(
        self, words: Sequence[str], *, k: int = 10, of: str = "center", among: int | None = None
    ) -> dict[str, list[Neighbor]]:
        """The `k` nearest other words of each of many words, as `most_similar` finds them.

        Memory does not grow with words times vocabulary.
        """
        matrix, codes = self.matrix(of), self.codes(words)
        for word in words:
            self._direction(word, matrix)
        searched = first_rows(matrix, among)
        nearest = nearest_rows(matrix[codes], searched, k=k, excluded=codes[:, None])
        return dict(zip(words, self._named(nearest), strict=True))

    def similarity(self, a: Query, b: Query, *, of: str = "center") -> float:
        """The cosine of two words or vectors, from -1 to 1; raises what `most_similar` raises."""
        matrix = self.matrix(of)
        return float(self._direction(a, matrix) @ self._direction(b, matrix))

    def n_similarity(self, a: Sequence[Query], b: Sequence[Query], *, of: str = "center") -> float:
        """The cosine of the plain means of two lists of words, from -1 to 1."""
        left, right = (
            self.get_mean_vector(list(words), pre_normalize=False, of=of) for words in (a, b)
        )
        return self.similarity(left, right, of=of)

    def distance(self, a: Query, b: Query, *, of: str = "center") -> float:
        """1 less the cosine of two words or vectors, from 0 to 2; exactly 0 of a word to itself."""
        matrix = self.matrix(of)
        apart = self._direction(a, matrix) - self._direction(b, matrix)
        return float(apart @ apart) / 2

    def distances(
        self, word: Query, words: Sequence[str | int] | None = None, *, of: str = "center"
    ) -> Float32[np.ndarray, "compared"]:
        """1 less the cosine of a word or vector with each of `words`; with all in order for None.

        >>> plane = np.array([[1, 0], [2, 0], [0, 1]], dtype=np.float32)
        >>> WordVectors(("cat", "dog", "the"), plane).distances("cat")
        array([0., 0., 1.], dtype=float32)
        """
        matrix = self.matrix(of)
        compared = matrix if words is None else matrix[self.codes(words)]
        return cosine_distances(self._direction(word, matrix), compared)

    def closer_than(self, a: Query, b: str | int, *, of: str = "center") -> list[str]:
        """The words that are closer to `a` than `b` is, nearest first, without `a` itself."""
        own = None if isinstance(a, np.ndarray) else self.code(a)
        rows = closer_rows(self.distances(a, of=of), self.code(b), own=own)
        return [self.words[row] for row in rows]

    def rank(self, a: Query, b: str | int, *, of: str = "center") -> int:
        """The rank of `b` among the words nearest to `a`: 1 of the nearest, and of `a` itself."""
        return len(self.closer_than(a, b, of=of)) + 1

    def most_similar_to_given(
        self, word: Query, words: Sequence[str], *, of: str = "center"
    ) -> str:
        """The one of `words` with the largest cosine to a word. Raises DataError if none given."""
        if not len(words):
            raise DataError("`words` must hold at least one word, got none.")
        return words[int(self.distances(word, words, of=of).argmin())]

    def doesnt_match(self, words: Sequence[str], *, of: str = "center") -> str:
        """The one of `words` that is farthest from the direction of their mean.

        Raises DataError for fewer than three words: of two, both are equally far.
        """
        if len(words) < 3:
            raise DataError(f"`words` must hold at least 3 words, got {len(words)}.")
        return words[int(self.distances(self.get_mean_vector(words, of=of), words, of=of).argmax())]

    def get_mean_vector(
        self,
        keys: Sequence[Query],
        weights: Any = None,
        *,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = False,
        of: str = "center",
    ) -> Float32[np.ndarray, "dim"]:
        """The mean of words' vectors, by `weights` if given: a vector for a text of these words.

        `keys`: words, or vectors, which count with their own length
        `pre_normalize`: whether vectors of words are scaled to length 1 before; `post_normalize`:
            whether the mean is
        `ignore_missing`: whether unknown words are left out rather than an error

        Raises UnknownWordError; DataError if nothing is left to average, or for wrong `weights`.
        """
        queries = [term.query for term in as_terms(keys, name="keys")]
        numbers = checked_weights(weights, n=len(queries))
        matrix, rows = self.matrix(of), np.zeros((len(queries), self.dim))
        for row, query in enumerate(queries):
            if isinstance(query, np.ndarray):
                check_vector(query, dim=self.dim, name="The vector")
                rows[row] = query
            elif query in self:
                scaled = self._direction(query, matrix) if pre_normalize else None
                rows[row] = matrix[self.code(query)] if scaled is None else scaled
            elif ignore_missing:
                numbers[row] = 0
            else:
                raise unknown_word(query, self.words, advice=_LEAVE_OUT)
        mean = weighted_mean(rows, numbers)
        return direction(mean, dim=self.dim, name="The mean") if post_normalize else mean

    def analogy(
        self, a: str, b: str, c: str, *, rule: str = "3cosadd", k: int = 10, of: str = "center"
    ) -> list[Neighbor]:
        """The `k` words d, best first, for which a is to b as c is to d; never a, b or c.

        `rule`: "3cosadd" or "3cosmul", see `analogy_answers`; `of`, errors: as of `most_similar`.

        >>> plane = np.array([[1, 0], [0, 1], [1, 1], [-1, 1]], dtype=np.float32)
        >>> vectors = WordVectors(("one", "two", "three", "four"), plane)
        >>> vectors.analogy("one", "three", "two")[0].word
        'four'
        """
        matrix, codes = self.matrix(of), self.codes([a, b, c])
        for word in (a, b, c):
            self._direction(word, matrix)
        return self._named(analogy_answers(matrix, codes[None], rule=rule, k=k))[0]

    def save(self, path: FilePath, *, format: str = "auto", of: str | None = None) -> None:
        """Write a file beside `path`, then rename it in; `format` and errors: see `write_vectors`.

        `of`: the one matrix to write, "center", "context" or "both"; None for all that the format
            holds: safetensors keeps everything, tied vectors once, others center vectors
        """
        stored = StoredVectors(self.words, self.center, self.context, self.signs)
        if of is not None:
            stored = StoredVectors(self.words, self.matrix(of))
        write_vectors(path, stored, format=format)

    @classmethod
    def load(
        cls,
        path: FilePath,
        *,
        context: FilePath | None = None,
        format: str = "auto",
        limit: int | None = None,
        errors: str = "strict",
        duplicates: str = "error",
    ) -> "WordVectors":
        """The vectors of a file of any format; other options and errors are of `read_vectors`.

        `context`: a second file, which holds the same words' context vectors; DataError if it lacks
            a word, or if the first file has context vectors itself
        """
        options: dict[str, Any] = {"format": format, "errors": errors, "duplicates": duplicates}
        stored = read_vectors(path, limit=limit, **options)
        if context is None:
            return cls(*stored)
        return cls(*with_context(stored, read_vectors(context, **options), name=context))

    def _direction(self, query: Query, matrix: np.ndarray) -> Float32[np.ndarray, "dim"]:
        if isinstance(query, np.ndarray):
            return direction(query, dim=self.dim, name="The vector")
        own = matrix[self.code(query)]
        return direction(own, dim=self.dim, name=f"The vector of {query!r}")

    def _part(self, term: Term, matrix: np.ndarray) -> Float[np.ndarray, "dim"]:
        scaled = self._direction(term.query, matrix)
        return term.weight * (term.query if isinstance(term.query, np.ndarray) else scaled)

    def _named(self, nearest: Nearest) -> list[list[Neighbor]]:
        return [
            [
                Neighbor(self.words[row], score)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ]
            for rows, scores in zip(nearest.rows, nearest.score, strict=True)
        ]
