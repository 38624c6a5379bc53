"""The words of a command line, each with the option it belongs to."""

import difflib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import flag, marks, number_list
from exfam.cli.options import CONFIG, PRINT_CONFIG, Form, Option, convert
from exfam.literals import TRUTH

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_words(form: Form, words: Sequence[str]) -> dict[str, Any]:
    """The values of the options that are given, by name.

    Underscores are as good as dashes, options and files come in any order, the values of an
    option that takes several become one list.
    Raises ExfamError for an unknown option, naming the nearest, for a value that is missing or of
    another kind, and for a word too many.
    """
    return {
        option.name: values if option in (CONFIG, PRINT_CONFIG) else _value(option, values)
        for option, values in _Reader(form).read(words)
    }


def _value(option: Option, words: list[str]) -> Any:
    if len(words) > 1 and not option.many:
        raise ExfamError(f"`{option.long}` must be given once, got {len(words)} values.")
    values = [convert(option, word) for word in words]
    if len(values) == 1:
        return values[0]
    listed = [value if isinstance(value, list) else [value] for value in values]
    return convert(option, [value for part in listed for value in part])


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that is most like this one, or at the help."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]}?" if close else "--help lists all."


class _Reader:
    """Takes words off the left, one option with its values at a time."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.options = {option.long: option for option in form.options}
        self.options |= {option.short: option for option in form.options if option.short}
        if form.config:
            self.options |= {CONFIG.long: CONFIG, PRINT_CONFIG.long: PRINT_CONFIG}
        self.positional = deque(form.positional)
        self.queue: deque[str] = deque()

    def read(self, words: Sequence[str]) -> list[tuple[Option, list[str]]]:
        """Every option that was given, in the order in which it first was, and its values."""
        self.queue = deque(words)
        given: dict[str, tuple[Option, list[str]]] = {}
        while self.queue:
            word = self.queue.popleft()
            is_option = len(word) > 1 and word.startswith("-") and not _NUMBER.fullmatch(word)
            option, values = self._option(word) if is_option else self._positional(word)
            given.setdefault(option.name, (option, []))[1].extend(values)
        return list(given.values())

    def _positional(self, word: str) -> tuple[Option, list[str]]:
        if not self.positional:
            wanted = " ".join(option.metavar for option in self.form.positional) or "options only"
            raise ExfamError(
                f"`{self.form.spoken_name}` must be given {wanted}, got {word!r} besides. "
                "Name an option before it, or put a text with spaces in quotes."
            )
        # The last one may take several words.
        option = self.positional[0] if self.positional[0].many else self.positional.popleft()
        return option, [word]

    def _option(self, word: str) -> tuple[Option, list[str]]:
        name, equals, value = word.partition("=")
        option = self._find(name)
        if equals:
            return option, [value]
        following = self.queue[0] if self.queue else None
        if option is PRINT_CONFIG:
            return option, [""]
        if option.kind is flag:
            is_answer = following is not None and following.lower() in TRUTH
            return option, [self.queue.popleft() if is_answer else "true"]
        if following is None or following.partition("=")[0] in self.options:
            raise ExfamError(f"`{option.long}` must have a value, got none.")
        values = [self.queue.popleft()]
        of_numbers = option.kind in (number_list, marks)
        while of_numbers and self.queue and _NUMBER.fullmatch(self.queue[0]):
            values.append(self.queue.popleft())
        return option, values

    def _find(self, name: str) -> Option:
        long = name.replace("_", "-")
        for known in (name, long, "--print_" + long.removeprefix("--print-")):
            if known in self.options:
                return self.options[known]
        raise ExfamError(
            f"`{name}` must be an option of `{self.form.spoken_name}`. "
            f"{suggestion(long, self.options)}"
        )
