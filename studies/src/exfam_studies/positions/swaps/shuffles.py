"""Words in another order: inside phrases of a length, or in the whole sentence.

Marks of punctuation are no words: they keep their places and do not count to a phrase's length.
What is written without a blank, such as "man's", is one word, and a phrase that begins or ends
inside one is left alone. The sentence begins with a capital if it did before.
Source: Chen, Varoquaux & Suchanek (2023), sections 3.5 and A.3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from exfam.checks import check_whole
from exfam_studies.positions.parses import Tree, constituents
from exfam_studies.positions.swaps.sentences import Sentence, is_word, written_words

PHRASES = ("NP", "VP", "PP", "ADVP", "ADJP")


def phrases_of_length(sentence: Sentence, tree: Tree, *, length: int) -> list[tuple[int, ...]]:
    """Of each phrase of so many words, the places of these among the `written_words`.

    Phrases are constituents with a label of PHRASES; no two of a length overlap, and of two with
    the same words there is one. Raises ExfamError for a length that is not an integer above 1.
    """
    check_whole("length", length, least=2)
    whole, place = written_words(sentence)
    found: dict[tuple[int, ...], None] = {}
    for phrase, first, last in constituents(tree):
        if phrase.label() not in PHRASES or _cut(place, first) or _cut(place, last + 1):
            continue
        inside = range(place[first], place[last] + 1)
        words = tuple(each for each in inside if is_word(whole.words[each]))
        if len(words) == length:
            found[words] = None
    return list(found)


def shuffle_phrases(
    sentence: Sentence, tree: Tree, *, length: int, rng: np.random.Generator
) -> str | None:
    """The sentence with the words of each phrase of so many words in another order.

    All words outside such phrases stay where they are. None if no order differs: there is no such
    phrase, or its words are all the same.
    """
    return _shuffled(sentence, phrases_of_length(sentence, tree, length=length), rng)


def shuffle_words(sentence: Sentence, *, rng: np.random.Generator) -> str | None:
    """The sentence with all its words in another order; None if no order differs.

    >>> sentence = Sentence(("Men", "sing", "."), (True, False, True), (False,) * 3)
    >>> shuffle_words(sentence, rng=np.random.default_rng(0))
    'Sing men.'
    """
    whole, _ = written_words(sentence)
    places = [at for at, word in enumerate(whole.words) if is_word(word)]
    return _shuffled(sentence, [places], rng)


def _cut(place: Sequence[int], at: int) -> bool:
    """Whether a written word goes on from the part before `at`."""
    return 0 < at < len(place) and place[at] == place[at - 1]


def _shuffled(
    sentence: Sentence, phrases: Iterable[Sequence[int]], rng: np.random.Generator
) -> str | None:
    whole, _ = written_words(sentence.uncapitalized())
    words = list(whole.words)
    for places in phrases:
        before = [words[place] for place in places]
        after = _other_order(before, rng)
        for place, word in zip(places, after, strict=True):
            words[place] = word
    if tuple(words) == whole.words:
        return None
    shuffled = replace(whole, words=tuple(words))
    return str(shuffled.capitalized() if sentence.begins_with_capital else shuffled)


def _other_order(words: list[str], rng: np.random.Generator) -> list[str]:
    """All orders that differ are equally probable."""
    if len({word.lower() for word in words}) < 2:
        return words
    while True:
        order = [words[place] for place in rng.permutation(len(words))]
        if [word.lower() for word in order] != [word.lower() for word in words]:
            return order
