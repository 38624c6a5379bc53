"""Lines for the reader, beside the results."""

import sys

__all__ = ["tell"]


def tell(line: str) -> None:
    """A line on stderr; results alone are on stdout.

    >>> tell("saved in vectors")
    """
    print(line.encode(errors="backslashreplace").decode(), file=sys.stderr)
