"""Vocabularies of pieces of words, or of whole words. Extra: exfam[hf], for its tokenizers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError, ExfamError, check_choice, check_whole
from exfam.reading.text.corpus import check_utf8

PAD, UNKNOWN, START, END, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# How texts that have rare words replaced, such as WikiText, write them.
_REPLACED = "<unk>"
_CONTINUES = "##"
# Characters that words are spelled of; others are unknown. Byte-level BPE spells with bytes.
_MOST_CHARACTERS = 1000
_N_BYTES = 256
# Sentences cut at a time.
_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Coded:
    """A sentence in pieces: the code of each, and the index of its word."""

    codes: Int32[np.ndarray, "pieces"]
    words: Int32[np.ndarray, "pieces"]


class Subwords:
    """A vocabulary of pieces of words, the special ones first, and how words are cut.

    `text`: as `tokenizers` writes a tokenizer. Raises ExfamError without the package tokenizers;
    DataError for another text.
    """

    def __init__(self, text: str) -> None:
        try:
            self._tokenizer = _tokenizers().Tokenizer.from_str(text)
        except ExfamError:
            raise
        except Exception as error:  # tokenizers raises nothing more specific
            raise DataError(
                f"`text` must be a tokenizer as JSON, got another ({error})."
            ) from error
        self.text = text

    @cached_property
    def labels(self) -> np.ndarray:
        """The pieces, in order of their codes."""
        known = self._tokenizer.get_vocab()
        return np.array(sorted(known, key=known.__getitem__), dtype=object)

    @cached_property
    def index(self) -> dict[str, int]:
        """Piece -> code."""
        return dict(self._tokenizer.get_vocab())

    def __len__(self) -> int:
        return len(self.labels)

    def encode(
        self, sentences: Sequence[Any], *, numbers: Sequence[int] | None = None
    ) -> list[Coded]:
        """Sentences, each a text or a list of words, in pieces.

        A text's words are what stands between white space. "<unk>" is unknown, and special pieces
        that are written out, such as "[MASK]", are these. `numbers`: what errors call each sentence
        by (default: its index)

        Raises DataError for what is no sentence.
        """
        coded: list[Coded] = []
        # What the tokenizer returns for a sentence takes more memory than its codes do.
        for first in range(0, len(sentences), _AT_ONCE):
            some = [
                sentence_words(sentences[row], row if numbers is None else numbers[row])
                for row in range(first, min(first + _AT_ONCE, len(sentences)))
            ]
            encodings = self._tokenizer.encode_batch(
                [[UNKNOWN if word == _REPLACED else word for word in words] for words in some],
                is_pretokenized=True,
                add_special_tokens=False,
            )
            coded += [
                Coded(np.array(encoding.ids, np.int32), np.array(encoding.word_ids, np.int32))
                for encoding in encodings
            ]
        return coded


def learn_subwords(
    lines: Iterable[str],
    *,
    kind: str = "wordpiece",
    size: int = 8000,
    lower: bool = True,
    min_count: int = 2,
) -> Subwords:
    """A vocabulary of at most `size` pieces, special ones included; the same text, the same pieces.

    `kind`: "wordpiece", pieces within words marked by "##"; "bpe", of bytes; or "word", whole words
        between white space, the most frequent first, all others unknown (default "wordpiece")
    `lower`: whether letters are made small, and accents taken off, first (default True)
    `min_count`: how often a word of "word", or two pieces side by side that become one, must be
        read (default 2)

    Raises DataError for a text without words, or without any read so often; ExfamError for a size
    that has no room for all characters, or for any word. Source: Wu et al. (2016); Sennrich,
    Haddow & Birch (2016).
    """
    check_choice("kind", kind, SUBWORDS)
    check_whole("size", size)
    check_whole("min_count", min_count)
    kept = [line.replace(_REPLACED, " ") for line in lines]
    if not any(line.strip() for line in kept):
        raise DataError(f"`lines` must have words to learn pieces of, got {len(kept)} lines alone.")
    learn = SUBWORDS[kind]
    return Subwords(learn(_tokenizers(), kept, size=size, lower=lower, min_count=min_count))


def _wordpiece(tokenizers: Any, lines: list[str], *, size: int, lower: bool, min_count: int) -> str:
    trained = _word_pieces(tokenizers, lower)
    counts = Counter[str]()
    for line in lines:
        counts.update(trained.normalizer.normalize_str(line))
    seen = [letter for letter in counts if not letter.isspace()]
    seen.sort(key=lambda letter: (-counts[letter], letter))
    letters = sorted(seen[:_MOST_CHARACTERS])
    # The trainer numbers the pieces that go on with a word in an order of chance, and breaks ties
    # by it: numbered here, the same text always has the same pieces.
    going_on = [_CONTINUES + letter for letter in letters]
    _check_size(size, len(SPECIAL) + len(letters) + len(going_on))
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=[*SPECIAL, *going_on],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        continuing_subword_prefix=_CONTINUES,
        show_progress=False,
    )
    trained.train_from_iterator(lines, trainer)
    plain = _word_pieces(tokenizers, lower, trained.get_vocab(with_added_tokens=True))
    plain.add_special_tokens(list(SPECIAL))
    return str(plain.to_str())


def _word_pieces(tokenizers: Any, lower: bool, known: dict[str, int] | None = None) -> Any:
    model = tokenizers.models.WordPiece(
        {} if known is None else known, unk_token=UNKNOWN, continuing_subword_prefix=_CONTINUES
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _byte_pair(tokenizers: Any, lines: list[str], *, size: int, lower: bool, min_count: int) -> str:
    _check_size(size, len(SPECIAL) + _N_BYTES)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    if lower:
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(SPECIAL),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return str(tokenizer.to_str())


def _words(tokenizers: Any, lines: list[str], *, size: int, lower: bool, min_count: int) -> str:
    _check_size(size, len(SPECIAL) + 1, what="a word")
    # Without a rule that cuts, words stay what stands between white space.
    normalizer = tokenizers.normalizers.BertNormalizer(handle_chinese_chars=False, lowercase=lower)
    counts = Counter[str]()
    for word, count in Counter(word for line in lines for word in line.split()).items():
        counts[normalizer.normalize_str(word)] += count
    # What is nothing but control characters or accents is no word once these are gone.
    often = [
        word
        for word, count in counts.items()
        if word and word not in SPECIAL and count >= min_count
    ]
    if not often:
        raise DataError(
            f"`lines` must have a word that is read at least {min_count} times, got none "
            f"of {len(counts)}. Lower `min_count`."
        )
    often.sort(key=lambda word: (-counts[word], word))
    pieces = [*SPECIAL, *often][:size]
    codes = {piece: code for code, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(codes, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(list(SPECIAL))
    return str(tokenizer.to_str())


SUBWORDS = {"bpe": _byte_pair, "word": _words, "wordpiece": _wordpiece}


def _check_size(size: int, least: int, *, what: str = "all characters") -> None:
    if size < least:
        raise ExfamError(
            f"`size` must be at least {least}, for special pieces and {what}, got {size}."
        )


def sentence_words(given: Any, index: int) -> list[str]:
    """The words of a sentence: a text, or a list of words.

    Raises DataError for anything else, and for characters that UTF-8 cannot write.
    """
    if isinstance(given, str):
        check_utf8(f"Sentence {index}", given)
        return given.split()
    is_list = isinstance(given, list | tuple) and all(isinstance(word, str) for word in given)
    odd = [word for word in given if len(word.split()) > 1] if is_list else []
    if not is_list or odd:
        got = f"{odd[0][:40]!r} as a word" if odd else type(given).__name__
        raise DataError(
            f"Sentence {index} must be a text or a list of words, got {got}. Give pairs of "
            "sentences as tuples."
        )
    check_utf8(f"Sentence {index}", " ".join(given))
    return list(given)


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ExfamError(
            "tokenizers must be installed to cut words into pieces. Install exfam[hf]."
        ) from error
    return tokenizers
