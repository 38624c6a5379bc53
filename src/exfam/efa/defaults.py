"""Defaults of `EFA` that depend on the data: sets or sequences with a base of items, or neither.

Such a parameter is None unless it is given. Attention over the items of a sequence corrects the
transitions of its base as a transformer with tied vectors, where earlier items alone are seen; the
others are the model of the paper.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from exfam.estimator.rules import python_number


class ByKind(NamedTuple):
    """What None means, with a base: for sets of items, for sequences of which earlier items are
    seen, or those on both sides, and for values; and otherwise.
    """

    otherwise: Any
    sets: Any
    sequences: Any
    values: Any
    both_sides: Any


DEFAULTS = {
    "embed_dim": ByKind(32, 64, 64, 32, 32),
    "n_layers": ByKind(2, 1, 2, 2, 2),
    "head_dim": ByKind(16, 16, 32, 16, 16),
    "feed_forward_dim": ByKind(0, 0, 128, 0, 0),
    "context_hidden_dim": ByKind(0, 128, 0, 0, 0),
    "tie": ByKind("none", "none", "same", "none", "none"),
    "learning_rate": ByKind(0.005, 0.005, 0.003, 0.003, 0.005),
    "weight_decay": ByKind(0.1, 0.1, 1.0, 0.1, 0.1),
    "max_epochs": ByKind(60, 60, 60, 60, 60),
    "batch_tokens": ByKind(None, 1_024, 1_024, 3_000, 1_024),
    "n_sampled_items": ByKind(0, 0, 0, 0, 0),
    "ensemble": ByKind(1, 1, 1, 1, 1),
}

# With a base, about as many elements are gone through in a fit, in at least as many epochs: then
# the learning rate falls to 0 when little more is to be learned, of few data and of many.
ELEMENTS_IN_ALL, LEAST_EPOCHS = 1_600_000, 20
# The same of values, whose base leaves little to learn.
ELEMENTS_OF_VALUES, LEAST_OF_VALUES, MOST_OF_VALUES = 300_000, 3, 30
# With a base, steps sum over some of a catalog of more items, in fewer epochs at least.
MOST_ITEMS, N_SAMPLED_ITEMS, LEAST_SAMPLED_EPOCHS = 2_000, 1_000, 12
# With a base, fewer data are gone through by several members, each of which holds out other groups,
# if these are not too few to weigh it by.
MANY_ELEMENTS, MOST_MEMBERS, LEAST_HELD_OUT = 75_000, 5, 20
# Of sets whose steps sum over samples, longer vectors cost more than they gain, fewer samples do as
# well, and very many are learned in fewer epochs.
EMBED_DIM_OF_SAMPLED, N_SAMPLED_OF_SETS, LEAST_EPOCHS_OF_SETS = 32, 700, 10
# Very many sets; those of few items, whose outputs cost little, have two members, in fewer epochs.
VERY_MANY_ELEMENTS, FEW_ITEMS, EPOCHS_OF_TWO = 150_000, 100, 14
# Of many sets with a base: a faster rate, if all items are summed over, and a decay of this times
# sqrt(items) / elements.
RATE_OF_MANY, DECAY_OF_MANY = 0.01, 1_200.0


def by_kind(name: str) -> str:
    """What None means, for the line that documents the parameter."""
    otherwise, sets, sequences, values, both_sides = DEFAULTS[name]
    kinds = "causal sequences" if sets == otherwise else "sets"
    if sequences == sets:
        kinds = "sets and causal sequences" if both_sides == otherwise else "groups"
    of_values = "" if values == otherwise else f" and {values!r} for values with one"
    default = sequences if sets == otherwise else sets
    return f"None is {otherwise!r}, or {default!r} for {kinds} of items with a base{of_values}"


class DataSize(NamedTuple):
    """Of the data of a fit: training elements, items, and groups that the fit holds out."""

    n_elements: int = 0
    n_items: int = 0
    n_held_out: int = 0


_SMALL = DataSize()


def resolved(estimator: Any, *, kind: str, size: DataSize = _SMALL) -> dict[str, Any]:
    """The parameters of the table: as given, or what None means for data of this kind and size."""
    given = {name: getattr(estimator, name) for name in DEFAULTS}
    default = {name: getattr(by_kind, kind) for name, by_kind in DEFAULTS.items()}
    if estimator.join == "concatenate":  # tokens are longer than the items' vectors
        default["tie"] = "none"
    if kind == "values":
        enough = ELEMENTS_OF_VALUES // max(1, size.n_elements)
        default["max_epochs"] = min(MOST_OF_VALUES, max(LEAST_OF_VALUES, enough))
    elif kind != "otherwise":
        default |= _of_size(kind, size, most_epochs=default["max_epochs"])
    if estimator.batch_size is not None:
        default["batch_tokens"] = None
    return {
        name: default[name] if value is None else python_number(value)
        for name, value in given.items()
    }


def _of_size(kind: str, size: DataSize, *, most_epochs: int) -> dict[str, Any]:
    """What depends on how many data there are, with a base."""
    n_elements, samples = max(1, size.n_elements), size.n_items > MOST_ITEMS
    is_large = kind == "sets" and n_elements >= VERY_MANY_ELEMENTS
    least = LEAST_SAMPLED_EPOCHS if samples else LEAST_EPOCHS
    least = LEAST_EPOCHS_OF_SETS if samples and is_large else least
    enough = max(least, ELEMENTS_IN_ALL // n_elements)
    chosen: dict[str, Any] = {"max_epochs": min(most_epochs, enough)}
    if samples:
        chosen["n_sampled_items"] = N_SAMPLED_ITEMS
        if kind == "sets":
            chosen |= {"embed_dim": EMBED_DIM_OF_SAMPLED, "n_sampled_items": N_SAMPLED_OF_SETS}
    if size.n_held_out >= LEAST_HELD_OUT:
        chosen["ensemble"] = min(MOST_MEMBERS, max(1, MANY_ELEMENTS // n_elements))
    if is_large and size.n_items <= FEW_ITEMS:
        chosen |= {"ensemble": 2, "max_epochs": min(most_epochs, EPOCHS_OF_TWO)}
    if kind == "sets" and n_elements >= MANY_ELEMENTS:
        chosen["weight_decay"] = DECAY_OF_MANY * math.sqrt(size.n_items) / n_elements
        if not samples:
            chosen["learning_rate"] = RATE_OF_MANY
    return chosen


def schedule_of(kind: str, size: DataSize) -> str:
    """The schedule of the learning rate: of few sets with a base, down as validation says."""
    is_few = kind == "sets" and size.n_elements < MANY_ELEMENTS
    return "descending" if is_few else "cosine"


def chosen_of(values: Mapping[str, Any], settings: type) -> dict[str, Any]:
    """Those that are fields of a dataclass of settings."""
    names = {field.name for field in fields(settings)}
    return {name: value for name, value in values.items() if name in names}
