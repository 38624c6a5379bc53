"""Pairs of sentences whose words changed places: with the same meaning, or with the opposite one.

A sentence that is asked for twice is changed in the same way, and whatever else is asked for
changes nothing about that: of each change the randomness comes from the seed and the sentence.
Source: Chen, Varoquaux & Suchanek (2023), sections 3.5 and A.3.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from exfam.checks import check_whole
from exfam_studies.positions.parses import Tree
from exfam_studies.positions.snli import SentencePair
from exfam_studies.positions.swaps.roles import swap_roles
from exfam_studies.positions.swaps.sentences import Sentence, tree_sentence
from exfam_studies.positions.swaps.shuffles import phrases_of_length, shuffle_phrases, shuffle_words
from exfam_studies.positions.swaps.tree_roles import tree_roles

# Of all rules by which pairs are made; another one where they would make other pairs.
VERSION = "swaps-1"
# Of the phrases that are shuffled; of those that a premise must have to be shuffled as a whole.
LENGTHS = (3, 4, 5)
_ANY_LENGTH = (2, 3, 4, 5)
_SIDES = ("premise", "hypothesis")


@dataclass(frozen=True)
class SwappedPair:
    """A pair with the words of one sentence in another order.

    `label`: what the premise now says of the hypothesis
    `before`: the pair as it was
    """

    premise: str
    hypothesis: str
    label: str
    before: SentencePair

    @property
    def side(self) -> str:
        """The sentence that changed: "premise" or "hypothesis"."""
        return _SIDES[self.premise == self.before.premise]


@dataclass(frozen=True)
class SwapSet:
    """Pairs that were changed in one way.

    `name`: such as "shuffle-3"; `version`: of the rules
    `n_tried`: how many pairs have what such a change needs: a label, an entailment's if roles are
        swapped, and constituents of the very words that are written
    """

    name: str
    pairs: tuple[SwappedPair, ...]
    n_tried: int
    version: str = VERSION

    def __len__(self) -> int:
        return len(self.pairs)


def swap_sets(pairs: Iterable[SentencePair], *, seed: int = 0) -> list[SwapSet]:
    """The sets of the paper: phrases of 3, 4 and 5 words shuffled, whole premises, roles swapped.

    Raises ExfamError for a seed that is not an integer >= 0.
    """
    pairs = list(pairs)  # each set goes through all of them
    shuffled = [phrase_shuffles(pairs, length=length, seed=seed) for length in LENGTHS]
    return [*shuffled, word_shuffles(pairs, seed=seed), role_swaps(pairs)]


def phrase_shuffles(pairs: Iterable[SentencePair], *, length: int, seed: int = 0) -> SwapSet:
    """Premises with all their phrases of so many words shuffled inside; labels stay.

    Pairs whose premise has no such phrase are left out. Raises ExfamError for a length that is not
    an integer above 1, or a seed that is not an integer >= 0.
    """
    check_whole("length", length, least=2)

    def change(sentence: Sentence, tree: Tree, rng: np.random.Generator) -> str | None:
        return shuffle_phrases(sentence, tree, length=length, rng=rng)

    return _premises_changed(f"shuffle-{length}", pairs, change, seed=seed, stream=length)


def word_shuffles(pairs: Iterable[SentencePair], *, seed: int = 0) -> SwapSet:
    """Premises with all their words shuffled, of those with a phrase of 2 to 5 words; labels stay.

    Raises ExfamError for a seed that is not an integer >= 0.
    """

    def change(sentence: Sentence, tree: Tree, rng: np.random.Generator) -> str | None:
        phrases = (phrases_of_length(sentence, tree, length=length) for length in _ANY_LENGTH)
        return shuffle_words(sentence, rng=rng) if any(phrases) else None

    return _premises_changed("shuffle-all", pairs, change, seed=seed, stream=0)


def role_swaps(pairs: Iterable[SentencePair]) -> SwapSet:
    """Entailments with agent and patient swapped, which makes contradictions of them.

    The premise's are swapped, or else the hypothesis's, by their constituents (`tree_roles`). That
    the meaning is the opposite is a rule with exceptions: who hugs whom may not matter. Nothing is
    random.
    """
    tried, found = 0, []
    for pair in pairs:
        sides = ((pair.premise, pair.premise_parse), (pair.hypothesis, pair.hypothesis_parse))
        sentences = [(text, _parsed(text, tree)) for text, tree in sides]
        if pair.label != "entailment" or not any(parsed for _, parsed in sentences):
            continue
        tried += 1
        for side, (_, parsed) in enumerate(sentences):
            swap = swap_roles(parsed[0], tree_roles(parsed[1])) if parsed else None
            if swap is not None:
                texts = [text for text, _ in sentences]
                texts[side] = str(swap.sentence)
                found.append(SwappedPair(texts[0], texts[1], "contradiction", pair))
                break
    return SwapSet("swap-roles", tuple(found), tried)


_Change = Callable[[Sentence, Tree, np.random.Generator], str | None]


def _premises_changed(
    name: str, pairs: Iterable[SentencePair], change: _Change, *, seed: int, stream: int
) -> SwapSet:
    check_whole("seed", seed, least=0)
    tried, found = 0, []
    for pair in pairs:
        parsed = _parsed(pair.premise, pair.premise_parse)
        if pair.label is None or parsed is None:
            continue
        tried += 1
        own = zlib.crc32(pair.premise.encode())
        premise = change(*parsed, np.random.default_rng([seed, stream, own]))
        if premise is not None:
            found.append(SwappedPair(premise, pair.hypothesis, pair.label, pair))
    return SwapSet(name, tuple(found), tried)


def _parsed(text: str, tree: Tree | None) -> tuple[Sentence, Tree] | None:
    """A sentence and its constituents; None without them, or if they are of other words."""
    if tree is None:
        return None
    sentence = tree_sentence(tree, text=text)
    return None if sentence is None else (sentence, tree)
