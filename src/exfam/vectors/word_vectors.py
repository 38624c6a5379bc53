"""Words and their vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int8, Int64

from exfam.checks import DataError, ModelFileError, check_choice, check_positive
from exfam.vectors.files import StoredVectors, read_vectors, write_vectors
from exfam.vectors.files.rows import FilePath, check_vectors
from exfam.vectors.neighbors import (
    Nearest,
    Query,
    analogy_answers,
    as_queries,
    direction,
    nearest_rows,
    summed_direction,
    unknown_word,
)

_MATRICES = ("center", "context", "both")


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

    Mapping-like: `vectors["cat"]` is the center vector.
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
        context, signs = self.context, self.signs
        if context is not None and signs is not None:
            raise DataError(
                "`signs` must be None where `context` is given, got both. "
                "Tied context vectors follow from `center` and `signs`."
            )
        if context is not None:
            if context.shape != self.center.shape:
                raise DataError(
                    f"`context` must have the shape of `center`, {len(self)} x {self.dim}, "
                    f"got {context.shape[0]} x {context.shape[1]}."
                )
            check_vectors(self.words, context, name="context")
        if signs is not None:
            if len(signs) != self.dim:
                raise DataError(
                    f"`signs` must have one sign for each of {self.dim} columns, got {len(signs)}."
                )
            if len(bad := np.flatnonzero(abs(signs) != 1)):
                got = f"{signs[bad[0]]} in column {bad[0]}"
                raise DataError(f"`signs` must be -1 or +1, got {got}.")

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

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Float32[np.ndarray, "dim"]:
        return self.center[self.code(word)]

    def get(self, word: str, default: Any = None) -> Any:
        """The word's center vector, or `default` for an unknown word."""
        row = self.index.get(word)
        return default if row is None else self.center[row]

    def code(self, word: Any) -> int:
        """The word's row. Raises UnknownWordError, with near spellings, for an unknown word."""
        row = self.index.get(word) if isinstance(word, str) else None
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
        positive: Query | Sequence[Query] = (),
        negative: Query | Sequence[Query] = (),
        *,
        k: int = 10,
        of: str = "center",
        exclude: Sequence[str] = (),
        among: int | None = None,
    ) -> list[Neighbor]:
        """The `k` words with the largest cosine to the sum of `positive` less that of `negative`.

        `positive`, `negative`: words or vectors, one or several; a word counts with a vector of
            length 1, a vector with its own length
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
        plus, minus = as_queries(positive), as_queries(negative)
        parts = [self._part(query, matrix) for query in plus]
        mean = summed_direction([*parts, *(-self._part(query, matrix) for query in minus)])
        searched = _first_rows(matrix, among)
        words = [query for query in [*plus, *minus] if isinstance(query, str)]
        out = np.unique(self.codes([*words, *exclude]))
        out = out[out < len(searched)]
        return self._named(nearest_rows(mean[None], searched, k=k, excluded=out[None]))[0]

    def neighbors(
        self, words: Sequence[str], *, k: int = 10, of: str = "center", among: int | None = None
    ) -> dict[str, list[Neighbor]]:
        """The `k` nearest other words of each of many words, as `most_similar` finds them.

        Memory does not grow with words times vocabulary.
        """
        matrix, codes = self.matrix(of), self.codes(words)
        for word in words:
            self._direction(word, matrix)
        searched = _first_rows(matrix, among)
        nearest = nearest_rows(matrix[codes], searched, k=k, excluded=codes[:, None])
        return dict(zip(words, self._named(nearest), strict=True))

    def similarity(self, a: Query, b: Query, *, of: str = "center") -> float:
        """The cosine of two words or vectors, from -1 to 1; raises what `most_similar` raises."""
        matrix = self.matrix(of)
        return float(self._direction(a, matrix) @ self._direction(b, matrix))

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
        if stored.context is not None or stored.signs is not None:
            raise DataError(
                "`context` must be None for a file that holds context vectors itself, got "
                f"{context}."
            )
        second = read_vectors(context, **options)
        index = {word: row for row, word in enumerate(second.words)}
        if missing := [word for word in stored.words if word not in index]:
            raise DataError(
                f"`context` must have a row for each of {len(stored.words)} words, got none for "
                f"{missing[0]!r} ({len(missing)} missing) in {context}."
            )
        rows = [index[word] for word in stored.words]
        return cls(stored.words, stored.center, second.center[rows])

    def _direction(self, query: Query, matrix: np.ndarray) -> Float32[np.ndarray, "dim"]:
        if isinstance(query, str):
            own = matrix[self.code(query)]
            return direction(own, dim=self.dim, name=f"The vector of {query!r}")
        return direction(query, dim=self.dim, name="The vector")

    def _part(self, query: Query, matrix: np.ndarray) -> Float[np.ndarray, "dim"]:
        scaled = self._direction(query, matrix)
        return scaled if isinstance(query, str) else query

    def _named(self, nearest: Nearest) -> list[list[Neighbor]]:
        return [
            [
                Neighbor(self.words[row], score)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ]
            for rows, scores in zip(nearest.rows, nearest.score, strict=True)
        ]


def _first_rows(matrix: np.ndarray, among: int | None) -> np.ndarray:
    if among is not None:
        check_positive("among", among)
    return matrix[:among]


def model_vectors(path: FilePath) -> StoredVectors:
    """The words' vectors in the folder of a saved model; those of linear ties are worked out."""
    # Not before: training of vectors does without pyarrow.
    from exfam.estimator.storage import load_arrays

    stored = load_arrays(path)
    center, words = stored.tensors.get("center"), stored.vocabulary.get("word")
    if center is None or words is None:
        kind = stored.config.get("estimator")
        raise ModelFileError(
            f"`path` must hold a model of words with vectors, got one of kind {kind!r} in {path}. "
            "Fit one: exfam fit words."
        )
    context, signs = stored.tensors.get("context"), stored.tensors.get("signs")
    if "transform" in stored.tensors:
        context = center @ stored.tensors["transform"].T
    return StoredVectors(tuple(words.tolist()), center, context, signs)
