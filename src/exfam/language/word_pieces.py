"""Words and the tokens of encoders that stand for them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.vectors import WordVectors

# What marks tokens that begin a word, in vocabularies of byte-level BPE and of SentencePiece.
_SPACE = "\u0120"
_WORD_MARKS = (_SPACE, "\u2581")
# What marks tokens that go on with one, in vocabularies of WordPiece.
_PIECE_MARK = "##"


def probe_words(vocabulary: Iterable[str]) -> list[str]:
    """Words of one token, of at least two letters a-z, sorted; none that only go on with a word."""
    tokens = list(vocabulary)
    marks = _marks(tokens)
    words = {_word(token, marks) for token in tokens}
    return sorted(word for word in words if word.isascii() and word.isalpha() and len(word) > 1)


def word_codes(words: Sequence[str], vocabulary: Mapping[str, int]) -> list[int]:
    """The token that each word is. Raises UnknownItemError for a word that is not one token."""
    codes, marks = [], (*_marks(vocabulary), "")
    for word in words:
        token = next((mark + word for mark in marks if mark + word in vocabulary), None)
        if token is None:
            raise UnknownItemError(f"`words` must be tokens that the encoder has, got {word!r}.")
        codes.append(int(vocabulary[token]))
    return codes


def begins_with_space(vocabulary: Iterable[str]) -> bool:
    """Whether a word is known by the space before it, as in byte-level BPE."""
    return _SPACE in _marks(vocabulary)


def token_vectors(
    vocabulary: Mapping[str, int],
    matrix: Float32[np.ndarray, "tokens dim"],
    *,
    special: Collection[str] = (),
) -> WordVectors:
    """The rows of all words that are one token, in order of the codes.

    `vocabulary`: token -> row
    `special`: tokens that are no words, such as "[MASK]"; pieces that go on with a word are none
        either

    Raises DataError where there is no such word, or for a row that is not finite.
    """
    marks = _marks(vocabulary)
    rows: dict[str, int] = {}
    for token, row in sorted(vocabulary.items(), key=lambda pair: pair[1]):
        word = _word(token, marks)
        if word and token not in special:
            rows.setdefault(word, row)
    return WordVectors(tuple(rows), matrix[np.array(list(rows.values()), dtype=np.int64)])


def attention_of_words(
    weights: Float[Tensor, "layers heads tokens tokens"],
    word: Sequence[int | None],
    *,
    n_words: int,
) -> Float[Tensor, "layers heads words words"]:
    """Columns summed and rows averaged over the tokens of each word.

    `word`: the index of the word that each token is of, None for special tokens
    """
    index = torch.tensor([n_words if of is None else of for of in word])
    member = torch.nn.functional.one_hot(index, n_words + 1)[:, :n_words].to(weights)
    from_words = (member / member.sum(0).clamp_min(1)).T @ weights
    return from_words @ member


def check_tokens(n_tokens: int, *, most: int, index: int) -> None:
    """Raise DataError if the sentence at `index` is longer than its encoder takes."""
    if n_tokens > most:
        raise DataError(
            f"Sentence {index} must have at most {most} tokens for this encoder, got {n_tokens}. "
            "Leave it out, or shorten it."
        )


def check_repeats(length: int, *, most: int) -> None:
    """Raise ExfamError if a probe's sentences would be longer than its encoder takes."""
    if length > most:
        raise ExfamError(f"`length` must be at most {most} for this encoder, got {length}.")


def _marks(vocabulary: Iterable[str]) -> tuple[str, ...]:
    """Those marks of words that the vocabulary uses."""
    return tuple(
        mark for mark in _WORD_MARKS if any(token.startswith(mark) for token in vocabulary)
    )


def _word(token: str, marks: tuple[str, ...]) -> str:
    """The word that a token is, or nothing."""
    if not marks:
        return "" if token.startswith(_PIECE_MARK) else token
    return token[1:] if token.startswith(marks) else ""
