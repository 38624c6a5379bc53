"""Constructor parameters: checks shared by estimators, and the parameters as plain JSON."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.estimator.rules import python_number
from exfam.families import Family, family_from_config, family_to_config
from exfam.training.checkpoints import Checkpoint

__all__ = ["check_distinct", "from_plain", "identified", "listed", "to_plain"]

FAMILY_KEY = "family_instance"


def check_distinct(columns: Mapping[str, Sequence[str]]) -> None:
    """Raise ExfamError unless each argument names every column once.

    >>> check_distinct({"value": ["stars", "seen"]})
    """
    for argument, names in columns.items():
        for name in names:
            if (times := names.count(name)) > 1:
                raise ExfamError(
                    f"`{argument}` must name every column once, got {name!r} {times} times."
                )


def listed(names: Any) -> tuple[str, ...]:
    """Names of columns, from one name, several, or None.

    >>> listed("gap"), listed(None)
    (('gap',), ())
    """
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def to_plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON. Raises ExfamError for what JSON cannot hold.

    >>> to_plain("embed_dim", np.int64(8))
    8
    """
    if isinstance(value, Family):
        return {FAMILY_KEY: family_to_config(value)}
    if isinstance(value, dict):
        if other := [key for key in value if not isinstance(key, str)]:
            raise ExfamError(
                f"`{name}` must have texts as keys to be saved, got {other[0]!r}, which JSON turns "
                "into a text."
            )
        return {key: to_plain(name, each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain(name, each) for each in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ExfamError(
        f"`{name}` must be plain data or a family to be saved, got {type(value).__name__}."
    )


def from_plain(value: Any) -> Any:
    """The parameter that `to_plain` wrote; lists come back as tuples.

    >>> from_plain({"stars": to_plain("family", "poisson")})
    {'stars': 'poisson'}
    """
    if isinstance(value, dict) and FAMILY_KEY in value:
        return family_from_config(value[FAMILY_KEY])
    if isinstance(value, dict):
        return {key: from_plain(each) for key, each in value.items()}
    return tuple(from_plain(each) for each in value) if isinstance(value, list) else value


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
