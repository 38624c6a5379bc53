"""How many processor threads torch uses."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from exfam.checks import check_positive


@contextmanager
def processor_threads(n: int) -> Iterator[None]:
    """Within it, torch computes with `n` threads; after it, with as many as before.

    Networks of a few thousand parameters gain nothing from a second thread, and on a busy machine
    threads that wait for each other burn many times the processor time. The same number of threads
    also gives the same bits.

    >>> with processor_threads(1):
    ...     torch.get_num_threads()
    1
    """
    check_positive("n", n)
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
