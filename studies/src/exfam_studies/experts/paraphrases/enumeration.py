"""Probabilities of word sets by going through every sentence, place and order: the slow way.

Plain loops over words, which share nothing with `WordLaw`, to check it and the lemmas with.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

# tau of each word, and that of MASK.
Tau = tuple[Mapping[str, float], float]
WordSet = frozenset[str]


@dataclass(frozen=True, eq=False)
class Enumerated:
    """p(W, c) of every word set W that occurs around c."""

    joint: Mapping[tuple[WordSet, str], float]

    def probability(self, words: WordSet) -> float:
        """p(W); 0 for a set that does not occur."""
        return self._totals.get(words, 0.0)

    def context_given(self, words: WordSet, context: str) -> float:
        """p(c | W): of all that W occurs around, the share of c."""
        return self.joint.get((words, context), 0.0) / self.probability(words)

    @cached_property
    def _totals(self) -> dict[WordSet, float]:
        parts: dict[WordSet, list[float]] = defaultdict(list)
        for (words, _), p in self.joint.items():
            parts[words].append(p)
        return {words: math.fsum(p) for words, p in parts.items()}

    def context(self, context: str) -> float:
        """p(c), of an enumeration of single words."""
        return math.fsum(p for (_, each), p in self.joint.items() if each == context)


def enumerate_law(
    sentences: Sequence[Sequence[str]],
    probability: Sequence[float],
    *,
    size: int,
    tau: Tau | None = None,
    window: int | None = None,
) -> Enumerated:
    """The joint law of a context word and the set of `size` words drawn around it.

    `tau`: of each word, and of MASK, for attention; None for CBOW (default None)
    `window`: the largest distance; None for whole sentences (default None)

    Time grows with the number of sentences times the power size + 1 of their length.

    >>> law = enumerate_law([["a", "b", "c"]], [1.0], size=2)
    >>> law.probability(frozenset("bc")), law.context_given(frozenset("bc"), "a")
    (0.16..., 1.0)
    """
    gathered: dict[tuple[WordSet, str], list[float]] = defaultdict(list)
    total: list[float] = []
    for sentence, p in zip(sentences, probability, strict=True):
        for place, context in enumerate(sentence):
            centers = {
                m: p * _weight(sentence, m, place, tau, window) for m in range(len(sentence))
            }
            del centers[place]
            centers = {m: weight for m, weight in centers.items() if weight}
            total.extend(centers.values())
            for words, chance in _drawn_sets(sentence, centers, size):
                gathered[words, context].append(chance)
    whole = math.fsum(total)
    return Enumerated({key: math.fsum(chances) / whole for key, chances in gathered.items()})


def _weight(
    sentence: Sequence[str], center: int, context: int, tau: Tau | None, window: int | None
) -> float:
    """1, or the attention of the masked `center` to `context`; 0 beyond the window."""
    if window is not None and abs(center - context) > window:
        return 0.0
    if tau is None:
        return 1.0
    of_word, of_mask = tau
    others = [
        of_word[word]
        for m, word in enumerate(sentence)
        if m != center and (window is None or abs(m - center) <= window)
    ]
    return of_word[sentence[context]] / (of_mask + math.fsum(others))


def _drawn_sets(
    sentence: Sequence[str], centers: Mapping[int, float], size: int
) -> Iterator[tuple[WordSet, float]]:
    """Sets of different words, with their chances in each order, as a share of one order."""
    for drawn in itertools.permutations(centers, size):
        words = frozenset(sentence[m] for m in drawn)
        if len(words) < size:
            continue
        left = math.fsum(centers.values())
        chance = left
        for m in drawn:
            chance *= centers[m] / left
            left -= centers[m]
        yield words, chance / math.factorial(size)
