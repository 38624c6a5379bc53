"""A corpus read once, into token ids and a vocabulary."""

import bz2
import gzip
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError, check_choice
from exfam.data.text.vocabulary import Vocabulary

__all__ = ["PreparedText", "prepare_text"]


@dataclass(frozen=True, eq=False)
class PreparedText:
    """A corpus as token ids: codes of `vocabulary`; -1 ends a sentence."""

    tokens: Int32[np.ndarray, "tokens"]
    vocabulary: Vocabulary

    @property
    def n_tokens(self) -> int:
        """Raw tokens read, those of words out of the vocabulary too."""
        return self.vocabulary.n_tokens


def prepare_text(
    source: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    min_count: int = 5,
    max_words: int | None = None,
    sentences: str = "lines",
    lower: bool = False,
    cleaning: str | None = None,
) -> PreparedText:
    """Read a corpus into token ids and a vocabulary.

    `source`: a file (plain, .gz, .bz2), a folder, a list of paths, or sentences (text or lists)

    >>> text = prepare_text(["a b a", "b c"], min_count=2)
    >>> text.vocabulary.words, text.tokens.tolist(), text.n_tokens
    (('a', 'b'), [0, 1, 0, -1, 1, -1], 5)
    """
    check_choice("sentences", sentences, ("lines", "none"))
    read = [_cleaned(sentence, lower) for sentence in _sentences(source)]
    counts = Counter(word for sentence in read for word in sentence)
    if not counts:
        raise DataError("`source` must have words, got none.")
    everything = Vocabulary.counted(counts)
    n_kept = min(int((everything.counts >= min_count).sum()), max_words or len(everything))
    vocabulary = Vocabulary(
        everything.words[:n_kept], everything.counts[:n_kept], everything.n_tokens
    )
    index, tokens = vocabulary.index, []
    for sentence in read:
        codes = [index[word] for word in sentence if word in index]
        tokens += codes
        if codes and sentences == "lines":
            tokens.append(-1)
    if tokens and tokens[-1] != -1:
        tokens.append(-1)
    array = np.array(tokens, np.int32)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        np.save(Path(folder, "tokens.npy"), array)
        array = np.load(Path(folder, "tokens.npy"), mmap_mode="r")
    return PreparedText(array, vocabulary)


def _cleaned(sentence: str | list[str], lower: bool) -> list[str]:
    words = sentence.split() if isinstance(sentence, str) else sentence
    return [word.lower() for word in words] if lower else words


def _sentences(source: Any) -> Iterator[str | list[str]]:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        for each in paths:
            opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(each.suffix, open)
            with opener(each, "rt", encoding="utf-8") as file:
                yield from file
    elif isinstance(source, Iterable):
        for item in source:
            if isinstance(item, os.PathLike):
                yield from _sentences(item)
            else:
                yield item
    else:
        raise DataError(f"`source` must be files or sentences, got {type(source).__name__}.")
