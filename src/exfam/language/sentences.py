"""Sentences as words that have vectors, and as what a fit learns from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.language.networks.positional_sentences import SentenceBatch
from exfam.reading.text.checks import check_no_table
from exfam.training.batching import (
    digest,
    epoch_batches,
    groups_digest,
    read_at_random,
    sequential_batches,
)


@dataclass(frozen=True, eq=False)
class LabeledSentences:
    """Sentences with labels as a source of batches.

    `words`: the rows of `vectors` that are each sentence's words, as items of groups
    `label`: the code of each sentence's label
    """

    words: Groups
    vectors: Float32[np.ndarray, "vocabulary dim"]
    label: Int64[np.ndarray, "sentences"]

    @property
    def lengths(self) -> Int64[np.ndarray, "sentences"]:
        """Number of words of every sentence."""
        return self.words.lengths

    def total(self, first: int, last: int) -> float:
        """How many of sentences `first` to `last`, the latter excluded, have a word."""
        return float((self.lengths[first:last] > 0).sum())

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        """Every sentence with a word once, in random batches of sentences of like length."""
        return epoch_batches(
            self.words, generator=generator, batch_size=batch_size, max_tokens=max_tokens
        )

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        """Every sentence once, by length."""
        return sequential_batches(self.words, max_tokens=max_tokens)

    def pad(self, index: Int64[np.ndarray, "batch"]) -> SentenceBatch:
        """The sentences at `index` side by side."""
        n_words = self.lengths[index]
        position = np.arange(max(1, int(n_words.max(initial=0))))
        present = position < n_words[:, None]
        codes = self.words.item
        assert codes is not None
        vectors = np.zeros((*present.shape, self.vectors.shape[1]), dtype=np.float32)
        vectors[present] = self.vectors[
            codes[(self.words.start[index][:, None] + position)[present]]
        ]
        return SentenceBatch(
            torch.from_numpy(vectors),
            torch.from_numpy(n_words),
            torch.from_numpy(self.label[index]),
        )

    def fingerprint(self) -> dict[str, str]:
        """Digests of the words, of their vectors and of the labels."""
        return {
            "words": groups_digest(self.words),
            "vectors": digest([self.vectors]),
            "labels": digest([self.label]),
        }

    def read_at_random(self) -> AbstractContextManager[None]:
        """The system reads no more of mapped files than what is needed."""
        return read_at_random(self.words)


def split_sentences(X: Any, *, name: str) -> list[list[str]]:
    """The words of each sentence: of a text, what stands between white space.

    Raises DataError, naming the index, for what is neither text nor a list of words, for one text
    in place of several, and for a table.

    >>> split_sentences(["so good", ["so", "bad"]], name="X")
    [['so', 'good'], ['so', 'bad']]
    """
    check_no_table(name, X)
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise DataError(
            f"`{name}` must be sentences, each a text or a list of words, got one "
            f"{type(X).__name__}. Put it into a list."
        )
    split = []
    for index, sentence in enumerate(X):
        words = sentence.split() if isinstance(sentence, str) else sentence
        is_list = isinstance(words, list | tuple | np.ndarray)
        if not is_list or not all(isinstance(word, str) for word in words):
            raise DataError(
                f"`{name}` must be sentences, each a text or a list of words, got "
                f"{type(sentence).__name__} at index {index}."
            )
        split.append([str(word) for word in words])
    return split


def known_words(
    sentences: Sequence[Sequence[str]], index: Mapping[str, int], *, longest: int
) -> tuple[Groups, float]:
    """The rows of the words that have one, and the share of words that do.

    A word is looked up as it is spelled, then in lower case; what is unknown is dropped, and of
    what is left no more than the first `longest` words stay.

    >>> words, share = known_words([["The", "dxg"], []], {"the": 7}, longest=9)
    >>> words.item.tolist(), words.lengths.tolist(), share
    ([7], [1, 0], 0.5)
    """
    codes: list[int] = []
    ends = [0]
    n_words = n_known = 0
    for words in sentences:
        looked_up = (index.get(word, index.get(word.lower())) for word in words)
        known = [code for code in looked_up if code is not None]
        n_words, n_known = n_words + len(words), n_known + len(known)
        codes += known[:longest]
        ends.append(len(codes))
    bounds = np.array(ends, dtype=np.int64)
    groups = Groups(start=bounds[:-1], stop=bounds[1:], item=np.array(codes, dtype=np.int32))
    return groups, n_known / max(1, n_words)
