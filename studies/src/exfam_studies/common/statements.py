"""Lemmas and theorems as checks: what was measured, and what of a statement fails, in words."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Standard errors that chance may be off: one check in a million.
ERRORS = 5.0


@dataclass(frozen=True)
class Check:
    """One statement: what was measured beside what it expects, and what failed, in words."""

    statement: str
    measured: Mapping[str, float]
    expected: Mapping[str, float]
    failed_assumptions: tuple[str, ...]
    failed_conclusions: tuple[str, ...]

    @property
    def applies(self) -> bool:
        return not self.failed_assumptions

    @property
    def holds(self) -> bool:
        return not self.failed_conclusions


def unmet(*requirements: tuple[bool | np.bool_, str]) -> tuple[str, ...]:
    """The words of those requirements that are not met."""
    return tuple(words for is_met, words in requirements if not is_met)
