"""A probing task: sentences with labels, in parts to learn from, to choose by and to report on."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PARTS", "Example", "ProbingTask"]

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Example:
    """A sentence with its label; examples of one `group` are never in two parts.

    >>> Example(("Cats", "sleep"), "plural", group="cats").label
    'plural'
    """

    words: tuple[str, ...]
    label: str
    group: str


@dataclass(frozen=True)
class ProbingTask:
    """Sentences whose labels are to be told from vectors of them, equally many of each class.

    `rule`: number of the rule that made it
    """

    name: str
    rule: str
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
        """Number of the rule, and a digest of all examples: equal for equal tasks alone.

        >>> one = ProbingTask("T", "1", ("a",), (Example(("x",), "a", group="x"),), (), ())
        >>> one.version
        '1-...'
        """
        told = repr((self.name, self.classes, self.train, self.validation, self.test))
        return f"{self.rule}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
