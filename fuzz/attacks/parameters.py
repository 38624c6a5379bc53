"""Constructor parameters of all classes: one to three odd ones, then fit, score and predict."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np

from exfam.estimator.registry import REGISTRY as KINDS
from fuzz.samples import class_of, fit, fitted, make, sample_of, use
from fuzz.values import odd_value, pick

# A million epochs are no mistake, and a network of a billion numbers may be meant: beyond these,
# only numbers that no machine can serve are tried.
_LARGEST = 7
_IMPOSSIBLE = 2**62


def prepare(folder: Path) -> dict[str, list[str]]:
    """Kind -> its parameters; every kind is fitted once, for all processes."""
    for kind in KINDS:
        use(fitted(kind), sample_of(kind))
    return {kind: [*inspect.signature(class_of(kind)).parameters] for kind in KINDS}


def attack(random: np.random.Generator, shared: dict[str, list[str]], folder: Path) -> None:
    """Fit an estimator with odd parameters to data that are right."""
    kind = pick(random, [*shared])
    changes: dict[str, Any] = {}
    for _ in range(int(random.integers(1, 4))):
        value = odd_value(random)
        if is_affordable(value):
            changes[pick(random, shared[kind])] = value
    use(fit(make(kind, **changes), sample_of(kind)), sample_of(kind))


def is_affordable(value: Any) -> bool:
    """Whether a number may be tried as a size: small, or impossible.

    >>> is_affordable(2), is_affordable(10**6), is_affordable(2**63)
    (True, False, True)
    """
    numbers = value if isinstance(value, list | tuple) else [value]
    return not any(
        isinstance(number, int | float) and _LARGEST < abs(number) < _IMPOSSIBLE
        for number in numbers
    )
