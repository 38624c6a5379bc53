"""Rules of parameters: each says what the values must be; `fit` checks all before data are read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_choice, is_utf8, shown

__all__ = [
    "ANY_NUMBER",
    "SEED",
    "ByColumn",
    "Choice",
    "ColumnName",
    "ColumnNames",
    "Flag",
    "Fraction",
    "Number",
    "Numbers",
    "OrNone",
    "OrWord",
    "Positive",
    "Rule",
    "Share",
    "Text",
    "TextByColumn",
    "Whole",
    "python_number",
]

# Sizes that no machine has room for; torch and NumPy overflow above it.
_MOST = 2**31 - 1


class Rule(ABC):
    """What the values of a parameter must be."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The rule in words, after "must be"."""

    @property
    def limits(self) -> str:
        """The range, for documentation; nothing where the parameter's own line gives it."""
        return ""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Whether `value` obeys the rule."""

    def check(self, name: str, value: Any) -> None:
        """Raise ExfamError, naming the parameter, unless `value` obeys the rule."""
        if not self.allows(value):
            raise ExfamError(f"`{name}` must be {self.words}, got {shown(value)}.")


def python_number(value: Any) -> Any:
    """Python's own number for one of numpy's, as grids of parameters hold; all else as it is.

    >>> python_number(np.int64(8))
    8
    """
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Whole(Rule):
    """Integers from `least` to `most`.

    >>> Whole().allows(3), Whole(least=2).allows(1), Whole().allows(3.0)
    (True, False, False)
    """

    least: int = 1
    most: int = _MOST

    @property
    def words(self) -> str:
        return f"an integer >= {self.least}"

    @property
    def limits(self) -> str:
        return self.words

    def allows(self, value: Any) -> bool:
        return _is_whole(value) and bool(self.least <= value <= self.most)

    def check(self, name: str, value: Any) -> None:
        if _is_whole(value) and value > self.most:
            raise ExfamError(f"`{name}` must be an integer <= {self.most}, got {shown(value)}.")
        super().check(name, value)


@dataclass(frozen=True)
class Number(Rule):
    """Finite numbers.

    >>> Number().allows(-0.5), Number().allows(float("nan")), Number().allows(True)
    (True, False, False)
    """

    @property
    def words(self) -> str:
        return "a finite number"

    def allows(self, value: Any) -> bool:
        return not math.isnan(_finite(value))


@dataclass(frozen=True)
class Positive(Rule):
    """Finite numbers above 0, or from 0 with `zero`.

    >>> Positive().allows(0), Positive(zero=True).allows(0)
    (False, True)
    """

    zero: bool = False

    @property
    def words(self) -> str:
        return "a number >= 0" if self.zero else "a number > 0"

    @property
    def limits(self) -> str:
        return self.words

    def allows(self, value: Any) -> bool:
        number = _finite(value)
        return number > 0 or (self.zero and number == 0)


@dataclass(frozen=True)
class Fraction(Rule):
    """Numbers from 0, and below 1.

    >>> Fraction().allows(0), Fraction().allows(1)
    (True, False)
    """

    @property
    def words(self) -> str:
        return "a number in [0, 1)"

    @property
    def limits(self) -> str:
        return self.words

    def allows(self, value: Any) -> bool:
        return 0 <= _finite(value) < 1


@dataclass(frozen=True)
class Share(Rule):
    """Numbers from 0 to 1.

    >>> Share().allows(1), Share().allows(1.5)
    (True, False)
    """

    @property
    def words(self) -> str:
        return "a number from 0 to 1"

    @property
    def limits(self) -> str:
        return self.words

    def allows(self, value: Any) -> bool:
        return 0 <= _finite(value) <= 1


@dataclass(frozen=True)
class Choice(Rule):
    """One of some words, or None if it is among them.

    >>> Choice(("tied", None)).allows(None)
    True
    """

    choices: Sequence[Any]

    @property
    def words(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}"

    def allows(self, value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in self.choices

    def check(self, name: str, value: Any) -> None:
        check_choice(name, value, self.choices)


@dataclass(frozen=True)
class Flag(Rule):
    """True or False.

    >>> Flag().allows(np.True_), Flag().allows(1)
    (True, False)
    """

    @property
    def words(self) -> str:
        return "one of False, True"

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)


@dataclass(frozen=True)
class Text(Rule):
    """Any text, such as a device's name."""

    @property
    def words(self) -> str:
        return "text"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str)


@dataclass(frozen=True)
class ColumnName(Rule):
    """The name of a column: text.

    >>> ColumnName().allows("stars"), ColumnName().allows(3), ColumnName().allows("")
    (True, False, False)
    """

    @property
    def words(self) -> str:
        return "the name of a column"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value != "" and is_utf8(value)


@dataclass(frozen=True)
class ColumnNames(Rule):
    """The name of a column, or a list of them, which may be empty.

    >>> ColumnNames().allows(["x", "y"]), ColumnNames().allows([1])
    (True, False)
    """

    @property
    def words(self) -> str:
        return "the name of a column or a list of them"

    def allows(self, value: Any) -> bool:
        names = value if isinstance(value, list | tuple) else [value]
        return all(ColumnName().allows(name) for name in names)


@dataclass(frozen=True)
class Numbers(Rule):
    """A number, or a list of them; none need be finite.

    >>> Numbers().allows([-99, float("nan")]), Numbers().allows("x")
    (True, False)
    """

    @property
    def words(self) -> str:
        return "a number or a list of them"

    def allows(self, value: Any) -> bool:
        numbers = value if isinstance(value, list | tuple) else [value]
        return all(_as_float(number) is not None for number in numbers)


@dataclass(frozen=True)
class ByColumn(Rule):
    """A mapping from names of columns to something of each, which is checked with the data.

    `what`: what that is, in words

    >>> ByColumn("a family").allows({"height": "gamma"}), ByColumn("a family").allows("gamma")
    (True, False)
    """

    what: str

    @property
    def words(self) -> str:
        return f"a mapping of columns to {self.what}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(ColumnName().allows(name) for name in value)


@dataclass(frozen=True)
class TextByColumn(Rule):
    """Text for all columns, or a mapping of their names to it.

    >>> TextByColumn().allows({"day": "%d.%m.%Y"}), TextByColumn().allows(3)
    (True, False)
    """

    @property
    def words(self) -> str:
        return "text or a mapping of columns to it"

    def allows(self, value: Any) -> bool:
        texts = [*value, *value.values()] if isinstance(value, Mapping) else [value]
        return all(isinstance(text, str) for text in texts)


@dataclass(frozen=True)
class OrNone(Rule):
    """None, or what another rule allows.

    >>> OrNone(Whole()).allows(None), OrNone(Whole()).allows(0)
    (True, False)
    """

    rule: Rule

    @property
    def words(self) -> str:
        return f"{self.rule.words}, or None"

    @property
    def limits(self) -> str:
        return self.rule.limits and f"{self.rule.limits}, or None"

    def allows(self, value: Any) -> bool:
        return value is None or self.rule.allows(value)

    def check(self, name: str, value: Any) -> None:
        if value is not None:
            self.rule.check(name, value)


@dataclass(frozen=True)
class OrWord(Rule):
    """A word such as "auto", or what another rule allows.

    >>> OrWord("auto", Whole()).allows("auto"), OrWord("auto", Whole()).allows("x")
    (True, False)
    """

    word: str
    rule: Rule

    @property
    def words(self) -> str:
        return f"{self.word!r} or {self.rule.words}"

    @property
    def limits(self) -> str:
        return self.rule.limits and f"{self.word!r} or {self.rule.limits}"

    def allows(self, value: Any) -> bool:
        return (isinstance(value, str) and value == self.word) or self.rule.allows(value)

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            super().check(name, value)
        else:
            self.rule.check(name, value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_float(value: Any) -> float | None:
    """None for what is no number, or too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _finite(value: Any) -> float:
    """The number; NaN, which is in no range, for what is no finite one."""
    number = _as_float(value)
    return math.nan if number is None or math.isinf(number) else number


# Numbers that may exceed what there is: all of it then counts.
ANY_NUMBER = Whole(most=2**53)
# Seeds are also added to, one for each member of an ensemble.
SEED = Whole(least=0, most=2**63 - 1)
