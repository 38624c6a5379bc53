"""Fitted estimators of every kind: all public methods, with frames and arguments that are wrong."""

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np

from exfam.estimator.registry import REGISTRY as KINDS
from fuzz.attacks.parameters import is_affordable
from fuzz.samples import fitted, sample_of
from fuzz.spoiling import spoiled_data
from fuzz.values import odd_value, pick
from fuzz.verdicts import check_finite

# Of scikit-learn, of files, and those that fit again.
_NOT_TRIED = ("get_", "set_", "fit", "partial_fit", "save", "load", "network")
# What these give is finite, whatever was given.
_FINITE = ("score", "predict", "predict_proba", "perplexity", "recommend")


def prepare(folder: Path) -> dict[str, Any]:
    """A fitted estimator of every kind."""
    return {kind: fitted(kind) for kind in KINDS}


def attack(random: np.random.Generator, shared: dict[str, Any], folder: Path) -> None:
    """Call one public method with data and arguments of which some are wrong."""
    kind = pick(random, [*shared])
    estimator, sample = copy.deepcopy(shared[kind]), sample_of(kind)
    names = [name for name in dir(type(estimator)) if _is_tried(type(estimator), name)]
    name = pick(random, names)
    method = getattr(estimator, name)
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(method).parameters.values():
        data = {"X": sample.X, "y": sample.y, "frame": sample.X, "train": sample.X, "new": sample.X}
        if parameter.name in data:
            given = data[parameter.name]
            is_spoiled = random.random() < 0.8 and given is not None
            arguments[parameter.name] = spoiled_data(random, given) if is_spoiled else given
        elif parameter.default is parameter.empty or random.random() < 0.3:
            arguments[parameter.name] = _argument(random)
    result = method(**arguments)
    if name in _FINITE and isinstance(result, float | np.ndarray):
        check_finite(name, result)


def _argument(random: np.random.Generator) -> Any:
    value = odd_value(random)
    return value if is_affordable(value) else 2


def _is_tried(estimator: type, name: str) -> bool:
    method = inspect.getattr_static(estimator, name)
    return inspect.isfunction(method) and not name.startswith(("_", *_NOT_TRIED))
