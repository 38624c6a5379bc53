"""Errors of the library in the words of the command line."""

import contextlib
from collections.abc import Iterator, Mapping

from exfam.checks import ExfamError


@contextlib.contextmanager
def reworded(words: Mapping[str, str]) -> Iterator[None]:
    """Within it, errors name options and files instead of the arguments that `words` maps."""
    try:
        yield
    except ExfamError as error:
        message = str(error)
        for argument, option in words.items():
            message = message.replace(argument, option)
        raise type(error)(message) from error
