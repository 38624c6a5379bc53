"""Lines for the reader, beside the results."""

import sys


def note(*lines: str) -> None:
    """Print lines on stderr, once under torchrun; results alone are on stdout."""
    from exfam.training.ranks import is_main_rank

    if is_main_rank():
        for line in lines:
            print(line.encode(errors="backslashreplace").decode(), file=sys.stderr, flush=True)
