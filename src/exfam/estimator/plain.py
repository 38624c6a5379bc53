"""Parameters as plain JSON, for saved folders and for what a checkpoint belongs to."""

from collections.abc import Collection
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.estimator.rules import python_number
from exfam.training.checkpoints import Checkpoint

_FAMILY_KEY = "family_instance"


def to_plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON. Raises ExfamError for what JSON cannot hold."""
    if isinstance(value, dict):
        if other := [key for key in value if not isinstance(key, str)]:
            raise ExfamError(
                f"`{name}` must have texts as keys to be saved, got {other[0]!r}, which JSON turns "
                "into a text."
            )
        return {key: to_plain(name, part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain(name, part) for part in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    # Not before: models of words are saved without torch.
    from exfam.families import Family, family_to_config

    if isinstance(value, Family):
        return {_FAMILY_KEY: family_to_config(value)}
    raise ExfamError(
        f"`{name}` must be plain data or a family to be saved, got {type(value).__name__}."
    )


def from_plain(value: Any) -> Any:
    """The parameter that `to_plain` wrote; lists come back as tuples."""
    if isinstance(value, dict) and _FAMILY_KEY in value:
        from exfam.families import family_from_config

        return family_from_config(value[_FAMILY_KEY])
    if isinstance(value, dict):
        return {key: from_plain(part) for key, part in value.items()}
    return tuple(from_plain(part) for part in value) if isinstance(value, list) else value


def identified(
    given: Checkpoint | str | PathLike[str] | None, estimator: Any, *, irrelevant: Collection[str]
) -> Checkpoint | None:
    """A checkpoint that belongs to fits of an estimator with these parameters alone.

    `irrelevant`: names of parameters that fits may differ in
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
