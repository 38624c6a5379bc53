"""Test sets that a vocabulary holds by itself, and what spelling alone knows of words."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64

from exfam.reading.public_sets.word_questions import WordQuestions

# Letters of endings and of the words before them; pairs of words that make a category.
_LONGEST_ENDING, _SHORTEST_WORD = 3, 3
_FEWEST_PAIRS, _MOST_PAIRS, _MOST_ENDINGS = 6, 60, 6
_RUN = 3


def ending_questions(words: Sequence[str], *, among: int = 20_000) -> WordQuestions:
    """Analogies of words with and without an ending, such as cat : cats = dog : dogs.

    The most frequent endings of the vocabulary, of any language that has them; each pair asks the
    next one. `among`: the first words alone are looked at.

    >>> words = ["cat", "dog", "pen", "hat", "cup", "map", "sea"]
    >>> questions = ending_questions([*words, *(word + "s" for word in words)])
    >>> len(questions), questions.questions[0], questions.categories[0]
    (7, ('cat', 'cats', 'dog', 'dogs'), '-s')
    """
    some = list(words[:among])
    pairs = _pairs_by_ending(some)
    most = sorted(pairs, key=lambda ending: (-len(pairs[ending]), ending))[:_MOST_ENDINGS]
    questions, categories = [], []
    for ending in most:
        own = pairs[ending][:_MOST_PAIRS]
        if len(own) < _FEWEST_PAIRS:
            continue
        for (a, b), (c, d) in zip(own, [*own[1:], own[0]], strict=True):
            questions.append((a, b, c, d))
            categories.append(f"-{ending}")
    return WordQuestions("endings", tuple(questions), tuple(categories), {})


def _pairs_by_ending(words: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Words with and without each ending, in the order of the words."""
    known, pairs = set(words), defaultdict(list)
    for word in words:
        for length in range(1, _LONGEST_ENDING + 1):
            stem, ending = word[:-length], word[-length:]
            if len(stem) >= _SHORTEST_WORD and stem in known and ending.isalpha():
                pairs[ending].append((stem, word))
    return pairs


def letter_cosines(pairs: Sequence[tuple[str, str]]) -> Float64[np.ndarray, "pairs"]:
    """How alike two words are spelled: the cosine of their counts of runs of three letters.

    >>> letter_cosines([("walk", "walking"), ("walk", "tree")]).round(2).tolist()
    [0.57, 0.0]
    """
    return np.array([_cosine(*(Counter(_runs(word)) for word in pair)) for pair in pairs])


def _runs(word: str) -> Iterator[str]:
    marked = f"<{word.lower()}>"
    return (marked[start : start + _RUN] for start in range(len(marked) - _RUN + 1))


def _cosine(a: Counter[str], b: Counter[str]) -> float:
    lengths = [sum(count * count for count in counts.values()) for counts in (a, b)]
    shared = sum(count * b[run] for run, count in a.items())
    return shared / float(np.sqrt(lengths[0] * lengths[1])) if all(lengths) else 0.0
