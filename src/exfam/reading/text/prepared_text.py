"""Prepared texts: folders of token ids and words, opened without being read.

text.json        format, format version, sizes and checksums of the files, how they were made
tokens.npy       one 32-bit integer a token
vocabulary.json  the word of every code, and how often it was read
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError
from exfam.folders import Contents, FolderKind, contents_of
from exfam.reading.text.vocabulary import Vocabulary

TOKENS, WORDS = "tokens.npy", "vocabulary.json"
_AGAIN = "Prepare the text again, or copy the folder anew from where it is whole."
TEXT = FolderKind("prepared text", "text.json", "exfam-text", 1, again=_AGAIN)
# Tokens that are checked at once.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class PreparedText:
    """A corpus as token ids.

    `tokens`: codes of words of the `vocabulary`, -1 at the end of each sentence; a memory map that
    cannot be written to. Words out of the vocabulary are left out, and sentences of none but them.
    `n_tokens`: raw tokens read, those left out too. `forgotten`: counts up to which rare words were
    forgotten while reading, to bound memory; 0 if none were.
    """

    tokens: Int32[np.ndarray, "tokens"]
    vocabulary: Vocabulary
    n_tokens: int
    forgotten: int = 0

    def __repr__(self) -> str:
        return f"PreparedText({self.n_tokens} tokens, {len(self.vocabulary)} words)"


def write_manifest(folder: Path, *, recipe: str, n_tokens: int, forgotten: int) -> None:
    """Write `text.json`, the last file of a prepared text."""
    files = {name: asdict(contents_of(folder / name)) for name in (TOKENS, WORDS)}
    counts = {"n_tokens": n_tokens, "forgotten": forgotten}
    TEXT.write(folder, {"recipe": recipe, **counts, "files": files})


def open_text(folder: str | os.PathLike[str], *, verify: bool = False) -> PreparedText:
    """The prepared text in a folder, its tokens mapped into memory.

    Files are checked by their size, the vocabulary in full, and tokens are read once, so that none
    is out of the vocabulary; they take no memory.

    `verify`: whether to check every byte of the tokens too (default False)

    Raises DataError naming the file if one is missing, cut, damaged, foreign or of a newer version.
    """
    path = Path(folder)
    manifest = TEXT.read(path)
    try:
        for name in (TOKENS, WORDS):
            contents = Contents(**manifest["files"][name])
            TEXT.check(path / name, contents, verify=verify or name == WORDS)
        tokens = np.asarray(np.load(path / TOKENS, mmap_mode="r"))
        vocabulary = Vocabulary.read_json(path / WORDS)
        counts = [int(manifest[name]) for name in ("n_tokens", "forgotten")]
        if tokens.dtype != np.int32 or tokens.ndim != 1:
            raise ValueError(f"tokens of type {tokens.dtype} and shape {tokens.shape}")
        # Compiled loops use the codes as indices, unchecked.
        for start in range(0, len(tokens), _BLOCK):
            block = tokens[start : start + _BLOCK]
            for code in (int(block.min()), int(block.max())):
                if not -1 <= code < len(vocabulary):
                    raise DataError(
                        f"{path / TOKENS} must hold codes of {len(vocabulary)} words, and -1 at "
                        f"the ends of sentences, got {code}: a damaged or changed file. "
                        f"{TEXT.again}"
                    )
    except DataError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise TEXT.foreign(path, "hold a text as it was prepared", error) from error
    return PreparedText(tokens, vocabulary, *counts)


def is_prepared_text(path: Any) -> bool:
    """Whether there is a prepared text at `path`, be it whole or damaged."""
    return isinstance(path, str | os.PathLike) and TEXT.is_at(Path(path))
