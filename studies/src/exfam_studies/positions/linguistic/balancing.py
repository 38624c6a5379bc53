"""A probing task: labeled sentences, divided into parts with classes alike and groups in one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from exfam.checks import DataError

# Part -> share of a class's examples.
SHARES = {"train": 0.7, "validation": 0.15, "test": 0.15}
PARTS = tuple(SHARES)


class Example(NamedTuple):
    """A sentence with its label; examples of one `group` are in one part."""

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
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def sizes(self) -> dict[str, int]:
        return {part: len(examples) for part, examples in self.parts.items()}


def distinct(sentences: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sentences without those that came before, in upper or lower case."""
    return [words for words, *_ in first_of_each(Example(tuple(s), "", "") for s in sentences)]


def first_of_each(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose sentence came before, in upper or lower case."""
    first: dict[tuple[str, ...], Example] = {}
    for example in examples:
        first.setdefault(tuple(word.casefold() for word in example.words), example)
    return list(first.values())


def balanced_task(
    name: str,
    classes: tuple[str, ...],
    examples: Iterable[Example],
    *,
    seed: int = 0,
    per_class: int | None = None,
) -> ProbingTask:
    """A task of some of the examples: equally many of each class in each part.

    `per_class`: examples of each class in all parts together; None: as many as the rarest class has

    Groups are put into parts in a random order, each into the part that lacks most of its classes.
    Raises DataError, naming the class, where examples are too few.
    """
    if len(classes) < 2:
        raise DataError(
            f"`{name}` must have sentences of at least two classes, got {len(classes)}. "
            "Give more sentences."
        )
    random = np.random.default_rng(seed)
    divided = _divided(classes, first_of_each(examples), random)
    sizes = {part: max(1, round((per_class or 0) * SHARES[part])) for part in PARTS[1:]}
    sizes["train"] = (per_class or 0) - sum(sizes.values())
    parts = {}
    for part in PARTS:
        by_class: dict[str, list[Example]] = {label: [] for label in classes}
        for example in divided[part]:
            by_class[example.label].append(example)
        rarest = min(classes, key=lambda label: len(by_class[label]))
        most = len(by_class[rarest])
        wanted = most if per_class is None else sizes[part]
        if most < max(wanted, 1):
            raise DataError(
                f"`{name}` must have at least {max(wanted, 1)} sentences of each class to put "
                f"into {part}, got {most} of {rarest!r}. Give more sentences."
            )
        kept = [own[i] for own in by_class.values() for i in random.permutation(len(own))[:wanted]]
        parts[part] = tuple(kept[i] for i in random.permutation(len(kept)))
    return ProbingTask(name, classes, **parts)


def _divided(
    classes: Sequence[str], examples: Sequence[Example], random: np.random.Generator
) -> dict[str, list[Example]]:
    groups: defaultdict[str, list[Example]] = defaultdict(list)
    for example in examples:
        groups[example.group].append(example)
    code = {label: number for number, label in enumerate(classes)}
    total = np.bincount([code[example.label] for example in examples], minlength=len(code))
    lacking = np.outer(list(SHARES.values()), total)
    divided: dict[str, list[Example]] = {part: [] for part in PARTS}
    names = list(groups)
    for which in random.permutation(len(names)):
        members = groups[names[which]]
        codes = [code[example.label] for example in members]
        part = int(lacking[:, codes].sum(1).argmax())
        np.subtract.at(lacking[part], codes, 1)
        divided[PARTS[part]] += members
    return divided
