"""What a map of vectors is of: words of a model of text, or items of a model of groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.checks import ExfamError
from exfam.estimator.evaluate import item_probabilities
from exfam.vectors import WordVectors
from exfam.vectors.neighbors import unit_rows

Scored = list[tuple[int, float]]


@dataclass(frozen=True, eq=False)
class Entries:
    """Names with vectors. `center`: dense or sparse rows; `by`: what they are.

    `order`: the most frequent first; `vectors`: those of dense rows; `model`: of groups, whose
    items these are, and `item` their codes
    """

    noun: str
    names: list[str]
    center: Any
    by: str
    order: Int64[np.ndarray, "entries"]
    vectors: WordVectors | None = None
    model: Any = field(default=None, repr=False)
    item: Int64[np.ndarray, "_"] | None = None

    @property
    def reflected(self) -> Bool[np.ndarray, "dim"] | None:
        """Where tied context vectors have the other sign; None where all or none have."""
        signs = None if self.vectors is None else self.vectors.signs
        return None if signs is None or abs(signs.sum()) == len(signs) else signs < 0

    @cached_property
    def contexts(self) -> WordVectors | None:
        """The context vectors as vectors of their own, if there are any."""
        if self.vectors is None or (self.vectors.context is None and not self.vectors.tied):
            return None
        return WordVectors(self.vectors.words, self.vectors.matrix("context"))

    def alike(self, code: int, *, k: int) -> Scored:
        """The nearest others: cosines, as the model or its vectors have them."""
        if self.model is None or self.item is None:
            assert self.vectors is not None
            return self._coded(self.vectors.most_similar(code, k=k))
        label = self.model.vocabulary_["item"][self.item[code]]
        similar = self.model.similar_items(label, k=k)
        codes = self.model._vocabulary.index("item").codes
        there = ~np.isnan(similar.similarity[0])
        found = np.array([codes[label] for label in similar.labels[0][there]], dtype=np.int64)
        rows = np.searchsorted(self.item, found).tolist()
        return list(zip(rows, similar.similarity[0][there].tolist(), strict=True))

    def beside(self, code: int, *, k: int) -> Scored:
        """Those whose context vectors are nearest to the center vector of one."""
        if self.contexts is None or self.vectors is None or not self.vectors.norms[code]:
            return []
        return self._coded(self.contexts.most_similar(self.vectors.center[code], k=k))

    def own_cosine(self, code: int) -> float | None:
        """Of the center vector with its own context vector."""
        if self.contexts is None or self.vectors is None:
            return None
        lengths = [float(own.norms[code]) for own in (self.vectors, self.contexts)]
        product = float(self.vectors.center[code] @ self.contexts.center[code])
        return product / (lengths[0] * lengths[1]) if all(lengths) else None

    def analogy(self, a: int, b: int, c: int, *, k: int) -> Scored:
        """What is to c as b is to a."""
        if self.vectors is None:
            raise ExfamError("`a` must be of a model with vectors of few columns for analogies.")
        # As the vectors' own `analogy`, in one product with lengths that are known.
        found = self._coded(self.vectors.most_similar([b, c], a, k=k))
        unit = unit_rows(self.vectors.center[[a, b, c]])
        length = float(np.linalg.norm(unit[1] + unit[2] - unit[0]))
        return [(row, length * cosine) for row, cosine in found]

    def _coded(self, nearest: Sequence[Any]) -> Scored:
        assert self.vectors is not None
        return [(self.vectors.index[own.word], float(own.score)) for own in nearest]


def has_entries(model: Any) -> bool:
    """Whether a model, an encoder or vectors has something to draw."""
    if hasattr(model, "similar_items"):
        own = _directions(model)
        return own is not None and bool(own.is_there.any())
    return isinstance(model, WordVectors) or any(
        hasattr(model, name) for name in ("vectors_", "encoder", "word_vectors")
    )


def entries_of(model: Any) -> Entries:
    """Of what has entries."""
    if hasattr(model, "similar_items"):
        return _of_items(model)
    vectors = model if isinstance(model, WordVectors) else getattr(model, "vectors_", None)
    if vectors is None:
        encoder = model.encoder() if hasattr(model, "encoder") else model
        vectors = encoder.word_vectors()
    names, order = list(vectors.words), np.arange(len(vectors))
    return Entries("word", names, vectors.center, "center vectors", order, vectors)


def _directions(model: Any) -> Any:
    """Of the vectors of items; None where all are alike to the model."""
    from exfam.efa.similar import item_directions

    try:
        return item_directions(model)
    except ExfamError:
        return None


def _of_items(model: Any) -> Entries:
    own = _directions(model)
    # Those without a direction are nowhere.
    item = np.flatnonzero(own.is_there)
    center = own.vectors if own.is_there.all() else own.vectors[item]
    item = item if own.item is None else own.item[item]
    names = [str(label) for label in model.vocabulary_["item"][item].tolist()]
    vectors = None
    if isinstance(center, np.ndarray):
        # Labels may be equal as texts; names only count here as keys.
        words = (
            tuple(names) if len(set(names)) == len(names) else tuple(map(repr, range(len(names))))
        )
        context = _contexts(model, own.by)
        context = None if context is None else context[item]
        vectors = WordVectors(words, center.astype(np.float32, copy=False), context)
    order = np.arange(len(names))
    if model._has_items:
        from exfam.efa.blanks import append_blank
        from exfam.efa.recommend import lone_items

        empty = append_blank(lone_items(model.schema_, np.zeros(0, dtype=np.int64)), model.schema_)
        ((_, probability),) = item_probabilities(model.members_, empty)
        order = np.argsort(-probability[0][item], kind="stable")
    return Entries("item", names, center, own.by, order, vectors, model, item)


def _contexts(model: Any, by: str) -> np.ndarray | None:
    own = getattr(model, "item_context_vectors_", None) if by == "center vectors" else None
    same = own is not None and own.shape == model.item_vectors_.shape
    return np.ascontiguousarray(own, dtype=np.float32) if own is not None and same else None
