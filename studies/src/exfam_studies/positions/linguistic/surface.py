"""What can be told from the words alone: how many there are, and which.

Source: Conneau, Kruszewski, Lample, Barrault & Baroni (2018), "What you can cram into a single
vector", section 2, after Adi et al. (2017).
"""

import itertools
from collections import Counter
from collections.abc import Sequence

from exfam.checks import DataError, check_whole
from exfam_studies.positions.linguistic.splitting import ALL, Rule, Sizes, balanced_task, distinct
from exfam_studies.positions.linguistic.tasks import Example, ProbingTask

__all__ = ["BINS", "sentence_length_task", "word_content_task"]

# Shortest and longest sentence of each class.
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))


def sentence_length_task(
    sentences: Sequence[Sequence[str]],
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
    rule = Rule("SentLen", "1", tuple(f"{low}-{high}" for low, high in bins))
    return balanced_task(rule, examples, seed=seed, sizes=sizes)


def word_content_task(
    sentences: Sequence[Sequence[str]],
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
    examples = _with_one(unlike, targets)
    # Fewer targets make more sentences have one of them alone: what stays has no fewer than now.
    alone = Counter(example.label for example in examples)
    kept = {word for word in targets if alone[word] >= least}
    if len(kept) < 2:
        raise DataError(
            f"`sentences` must have at least two words that are alone in {least} of them, got "
            f"{len(kept)} after the {skip} most frequent. Give more sentences, or lower `skip` or "
            "`least`."
        )
    rule = Rule("WC", "1", tuple(word for word in ordered if word in kept))
    return balanced_task(rule, _with_one(unlike, kept), seed=seed, sizes=sizes)


def _kinds(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if word.isalpha()}


def _with_one(sentences: Sequence[tuple[str, ...]], targets: set[str]) -> list[Example]:
    found = ((words, _kinds(words) & targets) for words in sentences)
    return [
        Example(words, min(of_them), group=" ".join(words))
        for words, of_them in found
        if len(of_them) == 1
    ]
