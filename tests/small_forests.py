"""Forests of tables that are fitted fast: laws hold of any number of trees."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_forests() -> Iterator[None]:
    from exfam.tables.base import fit_forest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_forest, "_MOST_ROUNDS", 60)
        yield
