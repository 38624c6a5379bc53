"""Sentences as they are written, and their words in another order, inside phrases or as a whole.

Marks of punctuation are no words: they keep their places and do not count to a phrase's length.
What is written without a blank, such as "man's", is one word, and a phrase that begins or ends
inside one is left alone. The sentence begins with a capital if it did before.
Source: Chen, Varoquaux & Suchanek (2023), sections 3.5 and A.3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from exfam_studies.positions.trees import Tree, constituents, plain_words

PHRASES = ("NP", "VP", "PP", "ADVP", "ADJP")
_NAMES = ("NNP", "NNPS")
_QUOTES = ('"', "''", "``", "\u201c", "\u201d")


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, marks of punctuation among them.

    `glued`: whether there is no blank before a word
    `names`: whether a word is a name, which keeps its capital inside a sentence
    """

    words: tuple[str, ...]
    glued: tuple[bool, ...]
    names: tuple[bool, ...]

    def __str__(self) -> str:
        pairs = zip(self.words, self.glued, strict=True)
        return "".join(word if glued else f" {word}" for word, glued in pairs).strip()

    def _first(self) -> int:
        """The index of the first word; -1 if there are marks alone."""
        return next((index for index, word in enumerate(self.words) if is_word(word)), -1)

    def uncapitalized(self) -> "Sentence":
        """With its first word as inside a sentence: names, I, and words such as TV stay."""
        first = self._first()
        word = self.words[first]
        if self.names[first] or word == "I" or word[1:] != word[1:].lower():
            return self
        return self._with(first, word.lower())

    def capitalized_like(self, other: "Sentence") -> "Sentence":
        """With a capital at the beginning of its first word if the other has one there."""
        first, is_capital = self._first(), other.words[other._first()][0].isupper()
        word = self.words[first]
        return self._with(first, word[0].upper() + word[1:]) if is_capital else self

    def _with(self, index: int, word: str) -> "Sentence":
        words = list(self.words)
        words[index] = word
        return replace(self, words=tuple(words))


def is_word(text: str) -> bool:
    """Whether there is a letter or a digit: no mark of punctuation."""
    return any(letter.isalnum() for letter in text)


def tree_sentence(tree: Tree, *, text: str) -> Sentence | None:
    """The sentence of a tree as the text writes it.

    None where the text is not made of the tree's words, with blanks at most between them: a parser
    may have rewritten some.
    """
    at, words, glued = 0, [], []
    for word in plain_words(tree):
        start = len(text) - len(text[at:].lstrip())
        # How a text may write what a parser calls so.
        plain = word.replace("\\/", "/").replace("\\*", "*")
        forms = _QUOTES if word in _QUOTES else (word, plain)
        form = next((form for form in forms if text.startswith(form, start)), None)
        if form is None:
            return None
        words.append(form)
        glued.append(start == at or not words[1:])
        at = start + len(form)
    if text[at:].strip():
        return None
    names = tuple(tag in _NAMES for _, tag in tree.pos())
    return Sentence(tuple(words), tuple(glued), names)


def written_words(sentence: Sentence) -> tuple[Sentence, tuple[int, ...]]:
    """The sentence by what stands between blanks and punctuation, and where each word went.

    What a parser takes apart, such as "man" and "'s", is one word again.
    """
    words, heads, index = list[str](), list[int](), list[int]()
    for at, (word, glued) in enumerate(zip(sentence.words, sentence.glued, strict=True)):
        if at and glued and is_word(word) and is_word(sentence.words[at - 1]):
            words[-1] += word
        else:
            words.append(word)
            heads.append(at)
        index.append(len(words) - 1)
    kept = (tuple(own[at] for at in heads) for own in (sentence.glued, sentence.names))
    return Sentence(tuple(words), *kept), tuple(index)


def phrases_of_length(sentence: Sentence, tree: Tree, *, length: int) -> list[tuple[int, ...]]:
    """Of each phrase of so many words, the indices of these among the `written_words`.

    Phrases are constituents with a label of PHRASES; of two with the same words there is one.
    """
    whole, index = written_words(sentence)
    # The parts of words that go on from the part before.
    cut = {at for at in range(1, len(index)) if index[at] == index[at - 1]}
    phrases: dict[tuple[int, ...], None] = {}
    for phrase, first, last in constituents(tree):
        if phrase.label() not in PHRASES or cut & {first, last + 1}:
            continue
        inside = range(index[first], index[last] + 1)
        words = tuple(at for at in inside if is_word(whole.words[at]))
        if len(words) == length:
            phrases[words] = None
    return list(phrases)


def shuffle_phrases(
    sentence: Sentence, tree: Tree, *, length: int, rng: np.random.Generator
) -> str | None:
    """The sentence with the words of each phrase of so many words in another order.

    None if no order differs: there is no such phrase, or its words are all the same.
    """
    return _shuffled(sentence, phrases_of_length(sentence, tree, length=length), rng)


def shuffle_words(sentence: Sentence, *, rng: np.random.Generator) -> str | None:
    """The sentence with all its words in another order; None if no order differs."""
    whole, _ = written_words(sentence)
    return _shuffled(sentence, [[at for at, word in enumerate(whole.words) if is_word(word)]], rng)


def _shuffled(
    sentence: Sentence, phrases: Iterable[Sequence[int]], rng: np.random.Generator
) -> str | None:
    whole, _ = written_words(sentence.uncapitalized())
    words = np.array(whole.words, dtype=object)
    for indices in map(list, phrases):
        words[indices] = _other_order(words[indices].tolist(), rng)
    if tuple(words) == whole.words:
        return None
    return str(replace(whole, words=tuple(words)).capitalized_like(sentence))


def _other_order(words: list[str], rng: np.random.Generator) -> list[str]:
    """All orders that differ are equally probable."""
    lower = [word.lower() for word in words]
    if len(set(lower)) < 2:
        return words
    while True:
        order = [words[index] for index in rng.permutation(len(words))]
        if [word.lower() for word in order] != lower:
            return order
