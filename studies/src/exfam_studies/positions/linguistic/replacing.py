"""Whether a noun or verb was replaced by another that is as frequent, there too.

In the source, "Semantic odd man out", parts of speech are those of a tagger. Here a word form has
one where a treebank gives it the same nearly always, and other words are never replaced.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exfam.checks import DataError, check_fraction, check_whole
from exfam_studies.positions.linguistic.balancing import (
    ALL,
    Example,
    ProbingTask,
    Sizes,
    balanced_task,
    distinct,
)
from exfam_studies.positions.parses import DependencyParse

# Features in which a replacement must agree, by part of speech.
_FEATURES = {"NOUN": ("Number",), "VERB": ("VerbForm", "Tense")}


@dataclass(frozen=True, eq=False)
class BigramCounts:
    """How often words and pairs of neighbors are in a text, all in lower case.

    `after`: word -> what comes after it; `before`: word -> what comes before it
    """

    words: Mapping[str, int]
    after: Mapping[str, Mapping[str, int]]
    before: Mapping[str, Mapping[str, int]]


def count_bigrams(sentences: Iterable[Sequence[str]]) -> BigramCounts:
    """Count the words of sentences and their neighbors.

    >>> counts = count_bigrams([["A", "cat"], ["a", "dog"]])
    >>> counts.words["a"], dict(counts.after["a"])
    (2, {'cat': 1, 'dog': 1})
    """
    words: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for sentence in sentences:
        lower = [word.lower() for word in sentence]
        words.update(lower)
        pairs.update(itertools.pairwise(lower))
    after: defaultdict[str, dict[str, int]] = defaultdict(dict)
    before: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (one, other), n in pairs.items():
        after[one][other] = before[other][one] = n
    return BigramCounts(words, dict(after), dict(before))


def kinds_of_words(parses: Iterable[DependencyParse], *, share: float = 0.9) -> dict[str, str]:
    """Word form in lower case -> its kind, such as "NOUN Plur", of nouns and verbs alone.

    `share`: of a form's occurrences that must be of its part of speech (default 0.9)

    >>> heads, features = np.array([-1]), ({"Number": "Plur"},)
    >>> kinds_of_words([DependencyParse(("Cats",), ("NOUN",), features, heads, ("root",))])
    {'cats': 'NOUN Plur'}
    """
    check_fraction("share", share)
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for parse in parses:
        for word, tag, features in zip(parse.words, parse.tags, parse.features, strict=True):
            tags[word.lower()][tag] += 1
            if tag in _FEATURES:
                own = filter(None, (features.get(name) for name in _FEATURES[tag]))
                kinds[word.lower()][" ".join([tag, *own])] += 1
    chosen = {}
    for word, counted in tags.items():
        tag, n = counted.most_common(1)[0]
        if tag in _FEATURES and n >= share * counted.total():
            counts = {kind: n for kind, n in kinds[word].items() if kind.split()[0] == tag}
            chosen[word] = min(counts, key=lambda kind: (-counts[kind], kind))
    return chosen


def odd_word_task(
    sentences: Sequence[Sequence[str]],
    *,
    counts: BigramCounts,
    kinds: Mapping[str, str],
    factor: float = 2.0,
    seed: int = 0,
    sizes: Sizes = ALL,
) -> ProbingTask:
    """SOMO: whether a noun or verb was replaced by another, as in half of the sentences.

    The replacement is of the same kind; it is as frequent within a factor, and so are the pairs
    that it makes with the words before and after. Each sentence is there once, and all could have
    had a replacement; a word that replaces one does so in one part alone.

    `counts`: of other text than `sentences`, in which their own pairs would count
    `factor`: how much more or less frequent a replacement and its pairs may be (default 2.0)
    Raises DataError if `factor` is below 1, or where sentences are too few.
    """
    if not factor >= 1:
        raise DataError(f"`factor` must be at least 1, got {factor!r}.")
    check_whole("seed", seed, least=0)
    random = np.random.default_rng(seed)
    candidates = []
    for words in distinct(sentences):
        for at in random.permutation(np.arange(1, max(len(words) - 1, 1))):
            if others := _replacements(words, int(at), counts, kinds, factor):
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
    return balanced_task("SOMO", ("original", "odd"), examples, seed=seed, sizes=sizes)


def _replacements(
    words: Sequence[str], at: int, counts: BigramCounts, kinds: Mapping[str, str], factor: float
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
    fewer, more = sorted((after, before), key=len)

    def is_alike(other: str) -> bool:
        return all(
            table[own] / factor <= table.get(other, 0) <= table[own] * factor
            for table in (fewer, more, counts.words)
        )

    return sorted(
        word for word in fewer if word != own and kinds.get(word) == kinds[own] and is_alike(word)
    )
