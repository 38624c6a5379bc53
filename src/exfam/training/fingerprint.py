"""What makes a fit this fit: settings, shapes, initial weights and data, as plain JSON."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from exfam.groups import Groups
from exfam.training.optimizer import TrainingSettings

# Fields of Groups that training does not look at.
_UNUSED = ("source_row", "group_names", "ignored", "ordered")


def fit_fingerprint(
    initial: Mapping[str, np.ndarray],
    *,
    parts: Mapping[str, Mapping[str, str]],
    settings: TrainingSettings,
) -> dict[str, Any]:
    """Settings as they are; shape of every initial array; their digest; the data's fingerprints.

    >>> facts = fit_fingerprint({"bias": np.zeros(2)}, parts={}, settings=TrainingSettings())
    >>> facts["shape of bias"], facts["batch_size"]
    ([2], 64)
    """
    shapes = {f"shape of {name}": list(array.shape) for name, array in initial.items()}
    facts: dict[str, Any] = asdict(settings) | shapes
    # Fits that began when AdamW was the only optimizer go on.
    if settings.optimizer == "adamw":
        del facts["optimizer"]
    facts["initial weights"] = digest(initial.values())
    for name, part in parts.items():
        facts |= {f"{what} of {name}": text for what, text in part.items()}
    return facts


def digest(arrays: Iterable[np.ndarray | None]) -> str:
    """A short fingerprint of arrays: their bytes, shapes and dtypes, in order.

    >>> digest([np.zeros(2)]) == digest([np.zeros(2)]), digest([np.zeros(2)]) == digest([None])
    (True, False)
    """
    total = hashlib.sha256()
    for array in arrays:
        if array is None:
            total.update(b"none;")
            continue
        total.update(f"{array.dtype.str}{array.shape};".encode())
        plain = array.dtype.kind in "biufc"
        content = np.ascontiguousarray(array).data if plain else repr(array.tolist()).encode()
        total.update(content)
    return total.hexdigest()[:16]


def groups_digest(groups: Groups) -> str:
    """A short fingerprint of all that training sees of the groups.

    >>> groups = Groups(start=[0], stop=[2], item=[0, 1])
    >>> groups_digest(groups) == groups_digest(groups.with_(item=[1, 0]))
    False
    """
    arrays: list[np.ndarray | None] = []
    for each in fields(groups):
        value = getattr(groups, each.name)
        # Fits that began before there were ties go on.
        if each.name in _UNUSED or (each.name == "tied" and value is None):
            continue
        if isinstance(value, Mapping):
            for name, column in value.items():
                arrays += [np.array(f"{each.name} {name}"), column]
        else:
            arrays.append(value)
    return digest(arrays)
