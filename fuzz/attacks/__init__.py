"""The attacks by name: a module each, with `prepare`, done once, and `attack`, one input."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ATTACKS", "Attack", "load_attack"]

# What is attacked -> the module that does it.
ATTACKS = {
    "parameters": "fuzz.attacks.parameters",
    "frames": "fuzz.attacks.frames",
    "predictions": "fuzz.attacks.predictions",
    "csv": "fuzz.attacks.delimited",
    "json-lines": "fuzz.attacks.json_lines",
    "parquet": "fuzz.attacks.parquet",
    "manifests": "fuzz.attacks.manifests",
    "configs": "fuzz.attacks.configs",
    "commands": "fuzz.attacks.commands",
}


class Attack(NamedTuple):
    """One way in. `prepare(folder)` makes what all inputs share, before processes are forked.

    `attack(random, shared, folder)` makes one input of the random numbers, and tries it; `folder`
    is empty, and its own. It may return False to say that the input was refused in words.
    """

    name: str
    prepare: Callable[[Path], Any]
    attack: Callable[[np.random.Generator, Any, Path], bool | None]


def load_attack(name: str) -> Attack:
    """An attack by its name.

    >>> load_attack("csv").name
    'csv'
    """
    module = importlib.import_module(ATTACKS[name])
    return Attack(name, module.prepare, module.attack)
