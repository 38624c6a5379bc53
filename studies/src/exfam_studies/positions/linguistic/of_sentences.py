"""Tasks made of sentences alone: how many words, which words, and whether two were swapped.

The first two are after Adi et al. (2017).
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from exfam.checks import DataError, check_whole
from exfam_studies.positions.linguistic.balancing import (
    ALL,
    Example,
    ProbingTask,
    Sizes,
    balanced_task,
    distinct,
)

# Shortest and longest sentence of each class.
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
Sentences = Sequence[Sequence[str]]


def sentence_length_task(
    sentences: Sentences,
    *,
    bins: Sequence[tuple[int, int]] = BINS,
    seed: int = 0,
    sizes: Sizes = ALL,
) -> ProbingTask:
    """SentLen: which of some ranges the number of words is in; other sentences are left out.

    `bins`: shortest and longest sentence of each class
    Raises DataError where sentences of a class are too few, or ranges are fewer than two, empty or
    overlap.
    """
    after = max(map(max, bins), default=0) + 1
    for (low, high), (following, _) in itertools.pairwise([*bins, (after, 0)]):
        if not low <= high < following:
            raise DataError(
                f"`bins` must be ranges that increase without overlap, got {(low, high)} before "
                f"one from {following}."
            )
    if len(bins) < 2:
        raise DataError(f"`bins` must hold at least two ranges, got {len(bins)}.")
    names = {length: f"{low}-{high}" for low, high in bins for length in range(low, high + 1)}
    examples = [
        Example(words, names[len(words)], group=" ".join(words))
        for words in distinct(sentences)
        if len(words) in names
    ]
    classes = tuple(dict.fromkeys(names.values()))
    return balanced_task("SentLen", classes, examples, seed=seed, sizes=sizes)


def word_content_task(
    sentences: Sentences,
    *,
    n_words: int = 1000,
    skip: int = 2000,
    least: int = 20,
    seed: int = 0,
    sizes: Sizes = ALL,
) -> ProbingTask:
    """WC: which of some words, neither frequent nor rare, is in the sentence; exactly one is.

    Words are ordered by the number of sentences that have them, and the first ones after the most
    frequent are taken, as long as enough sentences have one of them alone.

    `n_words`: how many words at most (default 1000); `skip`: of the most frequent (default 2000)
    `least`: sentences that each word needs (default 20)
    Raises DataError where fewer than two words are left.
    """
    check_whole("n_words", n_words, least=2)
    check_whole("skip", skip, least=0)
    check_whole("least", least, least=3)
    unlike = distinct(sentences)
    counts = Counter(word for words in unlike for word in _kinds(words))
    ordered = sorted(counts, key=lambda word: (-counts[word], word))[skip : skip + n_words]
    targets = {word for word in ordered if counts[word] >= least}
    # Fewer targets make more sentences have one of them alone: what stays has no fewer than now.
    alone = Counter(example.label for example in _with_one(unlike, targets))
    kept = {word for word in targets if alone[word] >= least}
    if len(kept) < 2:
        raise DataError(
            f"`sentences` must have at least two words that are alone in {least} of them, got "
            f"{len(kept)} after the {skip} most frequent. Give more sentences, or lower `skip` or "
            "`least`."
        )
    classes = tuple(word for word in ordered if word in kept)
    return balanced_task("WC", classes, _with_one(unlike, kept), seed=seed, sizes=sizes)


def bigram_shift_task(sentences: Sentences, *, seed: int = 0, sizes: Sizes = ALL) -> ProbingTask:
    """BShift: whether two neighboring words have changed places, as in half of the sentences.

    Each sentence is there once. The words are unlike, made of letters, and not the first one, whose
    capital would show; sentences without such a pair are left out.
    Raises DataError where sentences are too few.
    """
    check_whole("seed", seed, least=0)
    random = np.random.default_rng(seed)
    candidates = [(words, _swappable(words)) for words in distinct(sentences)]
    candidates = [(words, pairs) for words, pairs in candidates if pairs]
    shifted = random.permutation(len(candidates)) < len(candidates) // 2
    examples = []
    for (words, pairs), is_shifted in zip(candidates, shifted, strict=True):
        at = pairs[random.integers(len(pairs))]
        label, group = "original", " ".join(words)
        if is_shifted:
            label, words = "shifted", (*words[:at], words[at + 1], words[at], *words[at + 2 :])
        examples.append(Example(words, label, group))
    return balanced_task("BShift", ("original", "shifted"), examples, seed=seed, sizes=sizes)


def _kinds(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if word.isalpha()}


def _with_one(sentences: Sequence[tuple[str, ...]], targets: set[str]) -> list[Example]:
    """The sentences with exactly one of the targets, which is their label."""
    examples = []
    for words in sentences:
        inside = _kinds(words) & targets
        if len(inside) == 1:
            examples.append(Example(words, inside.pop(), group=" ".join(words)))
    return examples


def _swappable(words: Sequence[str]) -> list[int]:
    """Indices of the first of two words that can change places."""
    return [
        at
        for at in range(1, len(words) - 1)
        if words[at].isalpha() and words[at + 1].isalpha()
        if words[at].lower() != words[at + 1].lower()
    ]
