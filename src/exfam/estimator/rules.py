"""Rules of parameters: each says what the values must be; `fit` checks all before data are read.

>>> Whole().allows(3), Whole(least=2).allows(1), Whole().allows(3.0)
(True, False, False)
>>> OrNone(Positive()).check("clip", 0)
Traceback (most recent call last):
exfam.checks.ExfamError: `clip` must be a number > 0, got 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_choice, check_path, is_utf8, shown
from exfam.columns.dialect import as_marks, check_encoding
from exfam.files import as_path

# Sizes that no machine has room for; torch and NumPy overflow above it.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Rule:
    """What the values of a parameter must be.

    `words`: the rule, after "must be"; `allows`: whether a value obeys it
    `limits`: the range, for documentation; empty where the parameter's own line gives it
    `explain`: raises a better error than the words for some values, or nothing
    """

    words: str
    allows: Callable[[Any], bool]
    limits: str = ""
    explain: Callable[[str, Any], None] = lambda name, value: None

    def check(self, name: str, value: Any) -> None:
        """Raise ExfamError, naming the parameter, unless `value` obeys the rule."""
        self.explain(name, value)
        if not self.allows(value):
            raise ExfamError(f"`{name}` must be {self.words}, got {shown(value)}.")


def Whole(*, least: int = 1, most: int = _MOST) -> Rule:
    """Integers from `least` to `most`."""

    def explain(name: str, value: Any) -> None:
        if _is_whole(value) and value > most:
            raise ExfamError(f"`{name}` must be an integer <= {most}, got {shown(value)}.")

    words = f"an integer >= {least}"
    return Rule(
        words, lambda value: _is_whole(value) and bool(least <= value <= most), words, explain
    )


def _range(words: str, inside: Callable[[float], bool]) -> Rule:
    return Rule(words, lambda value: inside(_finite(value)), words)


def Number() -> Rule:
    """Finite numbers."""
    return Rule("a finite number", lambda value: not math.isnan(_finite(value)))


def Positive(*, zero: bool = False) -> Rule:
    """Finite numbers above 0, or from 0 with `zero`."""
    if zero:
        return _range("a number >= 0", lambda number: number >= 0)
    return _range("a number > 0", lambda number: number > 0)


def Fraction() -> Rule:
    """Numbers from 0, and below 1."""
    return _range("a number in [0, 1)", lambda number: 0 <= number < 1)


def Share() -> Rule:
    """Numbers from 0 to 1."""
    return _range("a number from 0 to 1", lambda number: 0 <= number <= 1)


def Choice(choices: Sequence[Any]) -> Rule:
    """One of some words, or None if it is among them; an error hints at what was meant."""

    def allows(value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in choices

    words = f"one of {', '.join(map(repr, choices))}"
    return Rule(words, allows, explain=lambda name, value: check_choice(name, value, choices))


def Flag() -> Rule:
    """True or False."""
    return Rule("one of False, True", lambda value: isinstance(value, bool | np.bool_))


def Text() -> Rule:
    """Any text, such as a device's name."""
    return Rule("text", lambda value: isinstance(value, str))


def ColumnName() -> Rule:
    """The name of a column: text that UTF-8 can write."""
    return Rule("the name of a column", _is_column)


def ColumnNames() -> Rule:
    """The name of a column, or a list of them, which may be empty."""
    words = "the name of a column or a list of them"
    return Rule(words, lambda value: all(map(_is_column, _as_list(value))))


def Numbers() -> Rule:
    """A number, or a list of them; none need be finite."""

    def allows(value: Any) -> bool:
        return all(_as_float(number) is not None for number in _as_list(value))

    return Rule("a number or a list of them", allows)


def TextEncoding() -> Rule:
    """An encoding of text that Python knows."""
    return _checked("the name of an encoding that Python knows", check_encoding)


def Mark(marks: Sequence[str]) -> Rule:
    """One of some marks in numbers, or None."""
    return Choice((None, *marks))


def Marks() -> Rule:
    """A number or a text, or several: what stands for a missing value."""
    return _checked("a number or a text, or several", as_marks)


def _checked(words: str, check: Callable[[str, Any], Any]) -> Rule:
    """What a check with an error of its own lets pass."""

    def allows(value: Any) -> bool:
        try:
            check("", value)
        except ExfamError:
            return False
        return True

    return Rule(words, allows, explain=check)


def ByColumn(what: str) -> Rule:
    """A mapping from names of columns to something, `what`, which is checked with the data."""

    def allows(value: Any) -> bool:
        return isinstance(value, Mapping) and all(map(_is_column, value))

    return Rule(f"a mapping of columns to {what}", allows)


def TextByColumn() -> Rule:
    """Text for all columns, or a mapping of their names to it."""

    def allows(value: Any) -> bool:
        texts = [*value, *value.values()] if isinstance(value, Mapping) else [value]
        return all(isinstance(text, str) for text in texts)

    return Rule("text or a mapping of columns to it", allows)


def Families() -> Rule:
    """A family, the name of one, or a mapping of columns to such."""

    def explain(name: str, value: Any) -> None:
        # Not before: models of words have no families, and train without torch.
        from exfam.families import choose_family

        for given in value.values() if isinstance(value, Mapping) else [value]:
            choose_family(given)

    def allows(value: Any) -> bool:
        try:
            explain("family", value)
        except ExfamError:
            return False
        return True

    words = "a family, the name of one, or a mapping of columns to these"
    return Rule(words, allows, explain=explain)


def OrNone(rule: Rule) -> Rule:
    """None, or what another rule allows."""

    def explain(name: str, value: Any) -> None:
        if value is not None:
            rule.check(name, value)

    return Rule(
        f"{rule.words}, or None",
        lambda value: value is None or rule.allows(value),
        rule.limits and f"{rule.limits}, or None",
        explain,
    )


def OrWord(word: str, rule: Rule) -> Rule:
    """A word such as "auto", or what another rule allows."""

    def explain(name: str, value: Any) -> None:
        if not isinstance(value, str):
            rule.check(name, value)
        elif value != word:
            rule.explain(name, value)

    return Rule(
        f"{word!r} or {rule.words}",
        lambda value: (isinstance(value, str) and value == word) or rule.allows(value),
        rule.limits and f"{word!r} or {rule.limits}",
        explain,
    )


def python_number(value: Any) -> Any:
    """Python's own number for one of numpy's, as grids of parameters hold; all else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def listed(names: Any) -> tuple[str, ...]:
    """Names of columns, from one name, several, or None."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def check_distinct(columns: Mapping[str, Sequence[str]]) -> None:
    """Raise ExfamError unless each argument names every column once."""
    for argument, names in columns.items():
        for name in names:
            if (times := names.count(name)) > 1:
                raise ExfamError(
                    f"`{argument}` must name every column once, got {name!r} {times} times."
                )


def checkpoint_path(given: str | PathLike[str] | None) -> Path | None:
    """The folder of checkpoints as a path; ExfamError if no folder can have that name."""
    if given is None:
        return None
    check_path("checkpoint", given)
    path = as_path(given)
    if path.is_file():
        raise ExfamError(f"`checkpoint` must be a folder, got the file {path}. Name a new folder.")
    return path


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _is_column(value: Any) -> bool:
    return isinstance(value, str) and value != "" and is_utf8(value)


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
