"""Tasks made of sentences alone: how many words, which words, and whether some were changed.

In the source of SOMO, "Semantic odd man out", parts of speech are those of a tagger. Here a word
form has one where a treebank gives it the same nearly always, and others are never replaced.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam_studies.positions.linguistic.balancing import (
    Example,
    ProbingTask,
    balanced_task,
    distinct,
)
from exfam_studies.positions.parses import DependencyParse

# Shortest and longest sentence of each class.
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
# Features in which a replacement must agree, by part of speech.
_FEATURES = {"NOUN": ("Number",), "VERB": ("VerbForm", "Tense")}
# Of a form's occurrences that must be of its part of speech.
_SHARE = 0.9
# How much more or less frequent a replacement and its pairs may be.
_FACTOR = 2.0
Sentences = Sequence[Sequence[str]]


def sentence_length_task(
    sentences: Sentences, *, bins: Sequence[tuple[int, int]] = BINS, **drawing: Any
) -> ProbingTask:
    """SentLen: which of some ranges the number of words is in; other sentences are left out."""
    names = {length: f"{low}-{high}" for low, high in bins for length in range(low, high + 1)}
    examples = [
        Example(words, names[len(words)], group=" ".join(words))
        for words in distinct(sentences)
        if len(words) in names
    ]
    return balanced_task("SentLen", tuple(dict.fromkeys(names.values())), examples, **drawing)


def word_content_task(
    sentences: Sentences, *, n_words: int, skip: int, least: int, **drawing: Any
) -> ProbingTask:
    """WC: which of some words, neither frequent nor rare, is in the sentence; exactly one is.

    `n_words`: how many words at most, by the number of sentences that have them; `skip`: of the
        most frequent; `least`: sentences of each
    """
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
            f"{len(kept)} after the {skip} most frequent. Give more sentences."
        )
    classes = tuple(word for word in ordered if word in kept)
    return balanced_task("WC", classes, _with_one(unlike, kept), **drawing)


def _kinds(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words if word.isalpha()}


def _with_one(sentences: Sequence[tuple[str, ...]], targets: set[str]) -> list[Example]:
    """The sentences with exactly one of the targets, which is their label."""
    inside = [(words, _kinds(words) & targets) for words in sentences]
    return [Example(words, own.pop(), " ".join(words)) for words, own in inside if len(own) == 1]


def bigram_shift_task(sentences: Sentences, *, seed: int = 0, **drawing: Any) -> ProbingTask:
    """BShift: whether two neighboring words have changed places, as in half of the sentences.

    Each sentence is there once. The words are unlike, made of letters, and not the first one, whose
    capital would show; sentences without such a pair are left out.
    """
    random = np.random.default_rng(seed)
    candidates = [(words, pairs) for words in distinct(sentences) if (pairs := _swappable(words))]
    shifted = random.permutation(len(candidates)) < len(candidates) // 2
    examples = []
    for (words, pairs), is_shifted in zip(candidates, shifted, strict=True):
        at = pairs[random.integers(len(pairs))]
        label, group = "original", " ".join(words)
        if is_shifted:
            label, words = "shifted", (*words[:at], words[at + 1], words[at], *words[at + 2 :])
        examples.append(Example(words, label, group))
    return balanced_task("BShift", ("original", "shifted"), examples, seed=seed, **drawing)


def _swappable(words: Sequence[str]) -> list[int]:
    """Indices of the first of two words that can change places."""
    return [
        at
        for at in range(1, len(words) - 1)
        if words[at].isalpha() and words[at + 1].isalpha()
        if words[at].lower() != words[at + 1].lower()
    ]


@dataclass(frozen=True, eq=False)
class BigramCounts:
    """How often words and pairs of neighbors are in a text, all in lower case.

    `after`: word -> what comes after it; `before`: word -> what comes before it
    """

    words: Mapping[str, int]
    after: Mapping[str, Mapping[str, int]]
    before: Mapping[str, Mapping[str, int]]


def count_bigrams(sentences: Iterable[Sequence[str]]) -> BigramCounts:
    """Count the words of sentences and their neighbors."""
    words: Counter[str] = Counter()
    after: defaultdict[str, Counter[str]] = defaultdict(Counter)
    before: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        lower = [word.lower() for word in sentence]
        words.update(lower)
        for one, other in itertools.pairwise(lower):
            after[one][other] += 1
            before[other][one] += 1
    return BigramCounts(words, dict(after), dict(before))


def kinds_of_words(parses: Iterable[DependencyParse]) -> dict[str, str]:
    """Word form in lower case -> its kind, such as "NOUN Plur", of nouns and verbs alone."""
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for parse in parses:
        for word, tag, features in zip(parse.words, parse.tags, parse.features, strict=True):
            own = filter(None, map(features.get, _FEATURES.get(tag, ())))
            tags[word.lower()][tag] += 1
            kinds[word.lower(), tag][" ".join([tag, *own])] += 1
    chosen = {}
    for word, counted in tags.items():
        tag, n = counted.most_common(1)[0]
        if tag in _FEATURES and n >= _SHARE * counted.total():
            counts = kinds[word, tag]
            chosen[word] = min(counts, key=lambda kind: (-counts[kind], kind))
    return chosen


def odd_word_task(
    sentences: Sentences,
    *,
    counts: BigramCounts,
    kinds: Mapping[str, str],
    seed: int = 0,
    **drawing: Any,
) -> ProbingTask:
    """SOMO: whether a noun or verb was replaced by another, as in half of the sentences.

    The replacement is of the same kind; it is as frequent within a factor of 2, and so are the
    pairs that it makes with its neighbors. Each sentence is there once, and all could have had a
    replacement; a word that replaces one does so in one part alone.

    `counts`: of other text than `sentences`, in which their own pairs would count
    """
    random = np.random.default_rng(seed)
    candidates = []
    for words in distinct(sentences):
        for at in random.permutation(np.arange(1, max(len(words) - 1, 1))):
            if others := _replacements(words, int(at), counts, kinds):
                candidates.append((words, int(at), others[random.integers(len(others))]))
                break
    replaced = random.permutation(len(candidates)) < len(candidates) // 2
    examples = []
    for (words, at, other), is_replaced in zip(candidates, replaced, strict=True):
        if is_replaced:
            changed = (*words[:at], other, *words[at + 1 :])
            examples.append(Example(changed, "odd", group=f"replaced by {other}"))
        else:
            examples.append(Example(words, "original", group=" ".join(words)))
    return balanced_task("SOMO", ("original", "odd"), examples, seed=seed, **drawing)


def _replacements(
    words: Sequence[str], at: int, counts: BigramCounts, kinds: Mapping[str, str]
) -> list[str]:
    """The words that can replace the one at an index, in alphabetical order."""
    own = words[at]
    if not own.islower() or own not in kinds:
        return []
    # Absent where a neighbor, or the word itself, is not in the text counted.
    after = counts.after.get(words[at - 1].lower(), {})
    before = counts.before.get(words[at + 1].lower(), {})
    if own not in after or own not in before:
        return []
    # The smaller set first: what comes after "the" is half of all words.
    tables = (*sorted((after, before), key=len), counts.words)
    alike = {word for word in tables[0] if word != own and kinds.get(word) == kinds[own]}
    for table in tables:
        low, high = table[own] / _FACTOR, table[own] * _FACTOR
        alike = {word for word in alike if low <= table.get(word, 0) <= high}
    return sorted(alike)
