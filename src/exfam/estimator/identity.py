"""What makes a fit this fit and no other: the parameters of its estimator."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from exfam.estimator.parameters import to_plain
from exfam.estimator.rules import python_number
from exfam.training.checkpoints import Checkpoint

__all__ = ["identified"]


def identified(
    given: Checkpoint | str | Path | None, estimator: Any, *, irrelevant: Collection[str]
) -> Checkpoint | None:
    """A checkpoint that belongs to fits of an estimator with these parameters alone.

    `irrelevant`: names of parameters that fits may differ in

    >>> identified(None, None, irrelevant=()) is None
    True
    """
    if given is None:
        return None
    checkpoint = given if isinstance(given, Checkpoint) else Checkpoint(given)
    parameters = {
        name: to_plain(name, python_number(value))
        for name, value in estimator.get_params(deep=False).items()
        if name not in irrelevant
    }
    identity = {"kind": estimator.kind, **parameters, **checkpoint.identity}
    return replace(checkpoint, identity=identity)
