"""A probing task: labeled sentences, divided into parts with classes alike and groups never in two.

Sentences are for learning from, for choosing by and for reporting on.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from exfam.checks import DataError, ExfamError, check_fraction, check_whole

PARTS = ("train", "validation", "test")
# Number of the rules by which tasks are made; another one where they would make other tasks.
RULES = "1"


class Example(NamedTuple):
    """A sentence with its label; examples of one `group` are never in two parts."""

    words: tuple[str, ...]
    label: str
    group: str


@dataclass(frozen=True)
class ProbingTask:
    """Sentences whose labels are to be found from vectors of them, equally many of each class."""

    name: str
    classes: tuple[str, ...]
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    @property
    def parts(self) -> Mapping[str, tuple[Example, ...]]:
        """The examples by the name of their part."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def sizes(self) -> dict[str, int]:
        """Part -> number of examples."""
        return {part: len(examples) for part, examples in self.parts.items()}

    @property
    def version(self) -> str:
        """Number of the rules, and a digest of all examples: equal for equal tasks alone."""
        content = repr((self.name, self.classes, self.train, self.validation, self.test))
        return f"{RULES}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


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
        if self.per_class is not None and self.of("train", self.per_class) < 1:
            raise ExfamError(
                f"`per_class` must leave some to train beside the shares {self.validation:g} and "
                f"{self.test:g}, got {self.per_class}. Ask for more, or for smaller shares."
            )

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of the parts to learn from, to choose by and to report on."""
        return 1 - self.validation - self.test, self.validation, self.test

    def of(self, part: str, per_class: int) -> int:
        """Examples of each class in a part; what rounding leaves is to learn from."""
        held_out = {name: max(1, round(per_class * getattr(self, name))) for name in PARTS[1:]}
        return held_out.get(part, per_class - sum(held_out.values()))


# As many as the rarest class has.
ALL = Sizes()


def distinct(sentences: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sentences without those that came before, in upper or lower case.

    >>> distinct([["It", "rains"], ["it", "rains"], ["It", "snows"]])
    [('It', 'rains'), ('It', 'snows')]
    """
    return [words for words, *_ in first_of_each(Example(tuple(s), "", "") for s in sentences)]


def first_of_each(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose sentence came before, in upper or lower case."""
    first: dict[tuple[str, ...], Example] = {}
    for example in examples:
        first.setdefault(tuple(word.casefold() for word in example.words), example)
    return list(first.values())


def balanced_task(
    name: str, classes: tuple[str, ...], examples: Iterable[Example], *, seed: int, sizes: Sizes
) -> ProbingTask:
    """A task of some of the examples: equally many of each class in each part.

    Groups are put into parts in a random order, each into the part that lacks most of its classes;
    what a class has too many of in a part is left out. A sentence that comes again is left out.
    Raises DataError, naming the class, where examples are too few; ExfamError for a seed that is
    not an integer >= 0.
    """
    check_whole("seed", seed, least=0)
    examples = first_of_each(examples)
    if len(classes) < 2:
        raise DataError(
            f"`{name}` must have sentences of at least two classes, got {len(classes)}. "
            "Give more sentences."
        )
    counts, least = Counter(example.label for example in examples), sizes.per_class or len(PARTS)
    for label in classes:
        if counts[label] < least:
            raise DataError(
                f"`{name}` must have at least {least} sentences of each class, got "
                f"{counts[label]} of {label!r}. Give more sentences, or ask for fewer."
            )
    random = np.random.default_rng(seed)
    divided = _divided(classes, examples, random, sizes)
    parts = {part: _balanced(name, part, classes, divided[part], sizes, random) for part in PARTS}
    return ProbingTask(name, classes, **parts)


def _divided(
    classes: Sequence[str], examples: Sequence[Example], random: np.random.Generator, sizes: Sizes
) -> dict[str, list[Example]]:
    groups: defaultdict[str, list[Example]] = defaultdict(list)
    for example in examples:
        groups[example.group].append(example)
    code = {label: number for number, label in enumerate(classes)}
    total = np.bincount([code[example.label] for example in examples], minlength=len(code))
    lacking = np.outer(sizes.shares, total)
    divided: dict[str, list[Example]] = {part: [] for part in PARTS}
    names = list(groups)
    for which in random.permutation(len(names)):
        members = groups[names[which]]
        codes = [code[example.label] for example in members]
        part = int(lacking[:, codes].sum(1).argmax())
        np.subtract.at(lacking[part], codes, 1)
        divided[PARTS[part]] += members
    return divided


def _balanced(
    name: str,
    part: str,
    classes: Sequence[str],
    examples: Sequence[Example],
    sizes: Sizes,
    random: np.random.Generator,
) -> tuple[Example, ...]:
    """So many of each class, or as many as the rarest has, in a random order."""
    by_class: dict[str, list[Example]] = {label: [] for label in classes}
    for example in examples:
        by_class[example.label].append(example)
    rarest = min(by_class, key=lambda label: len(by_class[label]))
    most = len(by_class[rarest])
    wanted = most if sizes.per_class is None else sizes.of(part, sizes.per_class)
    if most < max(wanted, 1):
        raise DataError(
            f"`{name}` must have at least {max(wanted, 1)} sentences of each class to put "
            f"into {part}, got {most} of {rarest!r}. Give more sentences, or ask for fewer."
        )
    kept = [own[at] for own in by_class.values() for at in random.permutation(len(own))[:wanted]]
    return tuple(kept[at] for at in random.permutation(len(kept)))
