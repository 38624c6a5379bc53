"""Examples divided into parts: classes alike in each, groups never in two."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exfam.checks import DataError, ExfamError, check_fraction, check_whole
from exfam_studies.positions.linguistic.tasks import PARTS, Example, ProbingTask

__all__ = ["ALL", "Rule", "Sizes", "balanced_task", "distinct"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many examples a task has.

    `per_class`: examples of each class in all parts together; None: as many as the rarest class has
    `validation`, `test`: shares of these parts

    Raises ExfamError unless `per_class` is at least 3 and all parts have a share, and at least one
    of `per_class`.

    >>> Sizes(per_class=100).shares
    (0.7, 0.15, 0.15)
    """

    per_class: int | None = None
    validation: float = 0.15
    test: float = 0.15

    def __post_init__(self) -> None:
        if self.per_class is not None:
            check_whole("per_class", self.per_class, least=3)
        check_fraction("validation", self.validation)
        check_fraction("test", self.test)
        if not self.validation or not self.test or self.validation + self.test >= 1:
            raise ExfamError(
                "`validation` and `test` must be shares > 0 that leave some to train, got "
                f"{self.validation:g} and {self.test:g}."
            )
        if self.per_class is not None and _rounded(self.per_class, PARTS[0], self) < 1:
            raise ExfamError(
                f"`per_class` must leave some to train beside the shares {self.validation:g} and "
                f"{self.test:g}, got {self.per_class}. Ask for more, or for smaller shares."
            )

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of the parts to learn from, to choose by and to report on."""
        return 1 - self.validation - self.test, self.validation, self.test


# As many as the rarest class has.
ALL = Sizes()


@dataclass(frozen=True)
class Rule:
    """The name of a task, the number of the rule that makes it, and its classes."""

    name: str
    number: str
    classes: tuple[str, ...]


def distinct(sentences: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sentences without those that came before, in upper or lower case.

    >>> distinct([["It", "rains"], ["it", "rains"], ["It", "snows"]])
    [('It', 'rains'), ('It', 'snows')]
    """
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for words in sentences:
        first.setdefault(_folded(words), tuple(words))
    return list(first.values())


def balanced_task(
    rule: Rule, examples: Sequence[Example], *, seed: int, sizes: Sizes
) -> ProbingTask:
    """A task of some of the examples: equally many of each class in each part.

    Groups are put into parts in a random order, each into the part that lacks most of its classes;
    what a class has too many of in a part is left out. A sentence that comes again is left out.
    Raises DataError, naming the class, where examples are too few; ExfamError for a seed that is
    not an integer >= 0.
    """
    check_whole("seed", seed, least=0)
    examples = _first_of_each(examples)
    if len(rule.classes) < 2:
        raise DataError(
            f"`{rule.name}` must have sentences of at least two classes, got {len(rule.classes)}. "
            "Give more sentences."
        )
    _check_enough(rule, Counter(example.label for example in examples), sizes)
    random = np.random.default_rng(seed)
    divided = _divided(rule, examples, random, sizes)
    parts = {}
    for part in PARTS:
        wanted = None if sizes.per_class is None else _rounded(sizes.per_class, part, sizes)
        parts[part] = _balanced(rule, part, divided[part], wanted, random)
    return ProbingTask(rule.name, rule.number, rule.classes, **parts)


def _folded(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.casefold() for word in words)


def _first_of_each(examples: Sequence[Example]) -> list[Example]:
    first: dict[tuple[str, ...], Example] = {}
    for example in examples:
        first.setdefault(_folded(example.words), example)
    return list(first.values())


def _check_enough(rule: Rule, counts: Mapping[str, int], sizes: Sizes) -> None:
    least = sizes.per_class or len(PARTS)
    for label in rule.classes:
        if counts.get(label, 0) < least:
            raise DataError(
                f"`{rule.name}` must have at least {least} sentences of each class, got "
                f"{counts.get(label, 0)} of {label!r}. Give more sentences, or ask for fewer."
            )


def _rounded(per_class: int, part: str, sizes: Sizes) -> int:
    """Of each class in the part; what rounding leaves is to learn from."""
    held_out = {name: max(1, round(per_class * getattr(sizes, name))) for name in PARTS[1:]}
    return held_out.get(part, per_class - sum(held_out.values()))


def _divided(
    rule: Rule, examples: Sequence[Example], random: np.random.Generator, sizes: Sizes
) -> dict[str, list[Example]]:
    groups: defaultdict[str, list[Example]] = defaultdict(list)
    for example in examples:
        groups[example.group].append(example)
    place = {label: code for code, label in enumerate(rule.classes)}
    total = np.bincount([place[example.label] for example in examples], minlength=len(place))
    lacking = np.outer(sizes.shares, total)
    divided: dict[str, list[Example]] = {part: [] for part in PARTS}
    names = list(groups)
    for which in random.permutation(len(names)):
        members = groups[names[which]]
        codes = [place[example.label] for example in members]
        part = int(lacking[:, codes].sum(1).argmax())
        np.subtract.at(lacking[part], codes, 1)
        divided[PARTS[part]] += members
    return divided


def _balanced(
    rule: Rule,
    part: str,
    examples: Sequence[Example],
    wanted: int | None,
    random: np.random.Generator,
) -> tuple[Example, ...]:
    """So many of each class, or as many as the rarest has, in a random order."""
    by_class: dict[str, list[Example]] = {label: [] for label in rule.classes}
    for example in examples:
        by_class[example.label].append(example)
    rarest = min(by_class, key=lambda label: len(by_class[label]))
    most = len(by_class[rarest])
    n_each = most if wanted is None else wanted
    if most < max(n_each, 1):
        raise DataError(
            f"`{rule.name}` must have at least {max(n_each, 1)} sentences of each class to put "
            f"into {part}, got {most} of {rarest!r}. Give more sentences, or ask for fewer."
        )
    kept = [each[at] for each in by_class.values() for at in random.permutation(len(each))[:n_each]]
    return tuple(kept[at] for at in random.permutation(len(kept)))
