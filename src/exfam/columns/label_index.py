"""Where labels are in a vocabulary, worked out once and kept beside it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from unicodedata import normalize

import numpy as np
from jaxtyping import Int64, Shaped


def without_white_space(texts: list[str]) -> list[str]:
    """Texts with single blanks between words and none at their ends, letters in one form."""
    # Arrow would import pandas to look at a list.
    return [" ".join((x if x.isascii() else _in_one_form(x)).split()) for x in texts]


def _in_one_form(text: str) -> str:
    return normalize("NFKC", text).replace("\u200b", " ").replace("\ufeff", " ")


class LabelIndex:
    """The code of each label of a vocabulary, of which the last counts where labels are equal.

    Everything is computed at first need. Threads that need it at the same time may both compute it,
    to the same result.

    >>> LabelIndex(np.array(["bread", "milk"], dtype=object)).code_of("milk")
    1
    """

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels

    @cached_property
    def listed(self) -> list[Any]:
        """The labels as Python has them."""
        listed: list[Any] = self.labels.tolist()
        return listed

    @cached_property
    def codes(self) -> dict[Any, int]:
        """The code of each label."""
        return {label: code for code, label in enumerate(self.listed)}

    @cached_property
    def is_distinct(self) -> bool:
        """Whether no two labels are equal."""
        return len(self.codes) == len(self.listed)

    @cached_property
    def spaced(self) -> set[str] | None:
        """Labels with white space to lose, without it; None if labels differ in that alone."""
        texts = [label for label in self.codes if isinstance(label, str)]
        bare = without_white_space(texts)
        if bare != texts and len(set(bare)) < len(texts):
            return None
        return {short for short, text in zip(bare, texts, strict=True) if short != text}

    def code_of(self, label: Any) -> int:
        """The code of a label, -1 if it is not among them."""
        return self.codes.get(label, -1)

    def names_of(
        self, codes: Int64[np.ndarray, "*shape"], *, unknown: Any = None
    ) -> Shaped[np.ndarray, "*shape"]:
        """The labels of codes, as Python has them; `unknown` for -1."""
        listed = self.listed
        named = np.empty(codes.size, dtype=object)
        for k, code in enumerate(codes.ravel().tolist()):
            named[k] = listed[code] if code >= 0 else unknown
        return named.reshape(codes.shape)

    def texts_of(self, codes: Int64[np.ndarray, "codes"]) -> np.ndarray:
        """The labels of codes as text, "(unknown)" for -1."""
        names = self.names_of(codes, unknown="(unknown)")
        return np.array([str(name) for name in names], dtype=object)

    def look_up(self, names: np.ndarray) -> Int64[np.ndarray, "names"]:
        """The code of each name, -1 where it is not among the labels."""
        codes, listed = self.codes, names.tolist()
        return np.array([codes.get(name, -1) for name in listed], dtype=np.int64)

    def has_twins(self, names: list[str]) -> bool:
        """Whether any of these and the labels differ in white space alone."""
        new = [name for name in dict.fromkeys(names) if name not in self.codes]
        if self.spaced is None:
            return True
        bare = without_white_space(new) if new else []
        return len(set(bare)) < len(bare) or any(
            short in self.spaced or (short != name and short in self.codes)
            for short, name in zip(bare, new, strict=True)
        )


class IndexedVocabulary(dict[str, np.ndarray]):
    """A vocabulary that keeps a `LabelIndex` of each of its columns."""

    def __init__(self, vocabulary: Mapping[str, np.ndarray]) -> None:
        super().__init__(vocabulary)
        self._indexes = {name: LabelIndex(np.asarray(labels)) for name, labels in self.items()}

    def is_of(self, vocabulary: Mapping[str, np.ndarray]) -> bool:
        """Whether this has the very arrays of another one."""
        if len(self) != len(vocabulary):
            return False
        return all(self.get(name) is labels for name, labels in vocabulary.items())

    def index(self, name: str) -> LabelIndex:
        """Of the labels of a column."""
        return self._indexes[name]


def index_of(vocabulary: Mapping[str, Any], name: str) -> LabelIndex:
    """The index that a vocabulary keeps of a column, or a new one; of no labels if it has none."""
    if isinstance(vocabulary, IndexedVocabulary) and name in vocabulary:
        return vocabulary.index(name)
    return LabelIndex(np.asarray(vocabulary.get(name, ())))
