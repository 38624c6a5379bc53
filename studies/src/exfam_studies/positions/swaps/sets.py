"""Pairs of sentences whose words changed places, with the same meaning or the opposite one.

A sentence that comes twice is changed in the same way, and whatever else is changed changes nothing
about that: of each change the randomness comes from the seed and the sentence.
Source: Chen, Varoquaux & Suchanek (2023), sections 3.5 and A.3.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from exfam.checks import check_whole
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.snli import SentencePair
from exfam_studies.positions.swaps import sentences
from exfam_studies.positions.swaps.roles import swap_roles, tree_roles
from exfam_studies.positions.swaps.sentences import Sentence
from exfam_studies.positions.trees import Tree

# Of all rules by which pairs are made; another one where they would make other pairs.
VERSION = "swaps-1"
# Pairs (premise, hypothesis) -> the label of each.
Predictor = Callable[[list[tuple[str, str]]], Iterable[object]]


@dataclass(frozen=True)
class SwappedPair:
    """A pair with the words of one sentence in another order.

    `label`: what the premise now says of the hypothesis; `before`: the pair as it was
    """

    premise: str
    hypothesis: str
    label: str
    before: SentencePair

    @property
    def side(self) -> str:
        """The sentence that changed: "premise" or "hypothesis"."""
        return "hypothesis" if self.premise == self.before.premise else "premise"


@dataclass(frozen=True)
class SwapSet:
    """Pairs that were changed in one way, such as "shuffle-3".

    `n_tried`: how many pairs have what such a change needs: a label, and constituents
    """

    name: str
    pairs: tuple[SwappedPair, ...]
    n_tried: int

    def __len__(self) -> int:
        return len(self.pairs)


def swap_sets(pairs: Sequence[SentencePair], *, seed: int = 0) -> list[SwapSet]:
    """The paper's sets: phrases of 3, 4 and 5 words shuffled, whole premises, roles swapped."""
    check_whole("seed", seed, least=0)
    shuffled = [phrase_shuffles(pairs, length=length, seed=seed) for length in (3, 4, 5)]
    return [*shuffled, word_shuffles(pairs, seed=seed), role_swaps(pairs)]


def phrase_shuffles(pairs: Sequence[SentencePair], *, length: int, seed: int = 0) -> SwapSet:
    """Premises with all their phrases of so many words shuffled inside; labels stay."""
    change = partial(sentences.shuffle_phrases, length=length)
    return _premises_changed(f"shuffle-{length}", pairs, change, [seed, length])


def word_shuffles(pairs: Sequence[SentencePair], *, seed: int = 0) -> SwapSet:
    """Premises that have a phrase of 2 to 5 words with all words shuffled; labels stay."""

    def change(sentence: Sentence, tree: Tree, *, rng: np.random.Generator) -> str | None:
        phrases = (sentences.phrases_of_length(sentence, tree, length=n) for n in range(2, 6))
        return sentences.shuffle_words(sentence, rng=rng) if any(phrases) else None

    return _premises_changed("shuffle-all", pairs, change, [seed, 0])


def role_swaps(pairs: Sequence[SentencePair]) -> SwapSet:
    """Entailments with agent and patient swapped, which makes contradictions of them.

    The premise's are swapped, or else the hypothesis's, by their constituents (`tree_roles`). That
    the meaning is the opposite is a rule with exceptions: who hugs whom may not matter.
    """
    tried, swapped = 0, []
    for pair in pairs:
        texts = [pair.premise, pair.hypothesis]
        parses = map(_parsed, texts, (pair.premise_parse, pair.hypothesis_parse))
        parsed = [(side, *parse) for side, parse in enumerate(parses) if parse is not None]
        if pair.label != "entailment" or not parsed:
            continue
        tried += 1
        for side, sentence, tree in parsed:
            if swap := swap_roles(sentence, tree_roles(tree)):
                texts[side] = str(swap.sentence)
                swapped.append(SwappedPair(texts[0], texts[1], "contradiction", pair))
                break
    return SwapSet("swap-roles", tuple(swapped), tried)


def _premises_changed(
    name: str, pairs: Sequence[SentencePair], change: Callable[..., str | None], stream: list[int]
) -> SwapSet:
    tried, changed = 0, []
    for pair in pairs:
        parsed = _parsed(pair.premise, pair.premise_parse)
        if pair.label is None or parsed is None:
            continue
        tried += 1
        rng = np.random.default_rng([*stream, zlib.crc32(pair.premise.encode())])
        if (premise := change(*parsed, rng=rng)) is not None:
            changed.append(SwappedPair(premise, pair.hypothesis, pair.label, pair))
    return SwapSet(name, tuple(changed), tried)


def _parsed(text: str, tree: Tree | None) -> tuple[Sentence, Tree] | None:
    """A sentence and its constituents; None without them, or if they are of other words."""
    sentence = None if tree is None else sentences.tree_sentence(tree, text=text)
    return None if sentence is None else (sentence, tree)


class SwapScore(NamedTuple):
    """Accuracies of a set's pairs as they were and as they are, and the difference, in [-1, 1].

    Intervals hold 95 % of what is found when premises are redrawn, each with all its pairs.
    """

    before: Interval
    after: Interval
    change: Interval


def swap_accuracy(predictors: Sequence[Predictor], swaps: SwapSet, *, seed: int = 0) -> SwapScore:
    """How often the labels are right before and after the swap, on the same pairs.

    Of several predictors, such as fits of other seeds, the mean accuracy is taken.
    """
    old = [(pair.before.premise, pair.before.hypothesis) for pair in swaps.pairs]
    new = [(pair.premise, pair.hypothesis) for pair in swaps.pairs]

    def right(pairs: list[tuple[str, str]], labels: list[str]) -> np.ndarray:
        given = np.array([[str(label) for label in predict(pairs)] for predict in predictors])
        return (given == np.array(labels)).mean(axis=0)

    before = right(old, [str(pair.before.label) for pair in swaps.pairs])
    after = right(new, [pair.label for pair in swaps.pairs])
    number: dict[str, int] = {}
    premise = np.array([number.setdefault(premise, len(number)) for premise, _ in old], np.int64)
    figures = (before, after, after - before)
    return SwapScore(*(paired_bootstrap(own, premise, seed=seed) for own in figures))
