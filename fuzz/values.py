"""Values that a caller may give by mistake, and documents of JSON changed at random."""

import copy
import datetime
import decimal
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import torch

from exfam.families import FAMILIES, DirichletMultinomial, Gaussian, PerItem, Poisson

# Words that some parameter of some class takes, and some that none does.
WORDS = (
    "auto", "none", "bidirectional", "causal", "hard", "penalty", "both", "items", "values",
    "relative", "rotary", "learned", "distance", "tupe", "softmax", "linear", "mean", "sum",
    "gaussian", "poisson", "ordinal", "bernoulli", "student-t", "gamma", "error", "ignore", "unk",
    "site", "seasonal", "global", "matern", "spherical", "exact", "copies", "two_stream", "tied",
    "reflection", "random", "wordpiece", "bpe", "word", "svd", "eigen", "flat", "cut", "zeroed",
    "cpu", "cuda", "cuda:7", "meta", "bfloat16", "float64", "pre-norm", "post-norm", "median",
    "argmax", "last", "cls", "max", "nothing", "user", "movie", "stars", "",
)  # fmt: skip
_NUMBERS = (
    0, 1, 2, 3, 7, -1, -5, 0.5, 1.5, 0.1, 0.999999, 1.0, 0.0, -0.0, -0.1, 1e-3, 1e-30, 1e-320,
    1e6, 1e30, 1e308, float("nan"), float("inf"), float("-inf"), 2**31, 2**63, 2**64, 10**30,
    10**400, -(2**63),
)  # fmt: skip
_TEXTS = (
    "a", " ", "\x00", "\ud800", "é", "数" * 50, "x" * 300, "1", "1e5", "nan", "None", "a b", "\n",
    "`x`", "{}", "%s", "../x", "=1+1",
)  # fmt: skip


def pick(random: np.random.Generator, options: Any) -> Any:
    """One of a sequence, as it is."""
    return options[int(random.integers(len(options)))]


def odd_text(random: np.random.Generator) -> str:
    """A text, strange or one of the words that parameters take."""
    return pick(random, WORDS if random.random() < 0.5 else _TEXTS)


def odd_value(random: np.random.Generator, *, depth: int = 2) -> Any:
    """Any Python value: numbers, texts, containers of such, arrays, dates, families, objects."""
    kind = random.random()
    if kind < 0.35:
        return pick(random, _NUMBERS)
    if kind < 0.6:
        return odd_text(random)
    if kind < 0.75 and depth:
        return _container(random, depth - 1)
    if kind < 0.85:
        return pick(random, (None, True, False))
    return pick(random, _objects())


def _container(random: np.random.Generator, depth: int) -> Any:
    entries = [odd_value(random, depth=depth) for _ in range(int(random.integers(0, 4)))]
    keys = [pick(random, ("stars", "movie", "height", 1, None, "name")) for _ in entries]
    forms = (list, tuple, iter, lambda given: dict(zip(keys, given, strict=True)), _as_array)
    return pick(random, forms)(entries)


def _as_array(entries: list[Any]) -> np.ndarray:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def _objects() -> tuple[Any, ...]:
    return (
        object(), int, len, ..., NotImplemented, 1 + 2j, b"bytes", bytearray(b"x"), range(3),
        decimal.Decimal("0.5"), datetime.date(2024, 1, 2), datetime.timedelta(1), pd.NaT, pd.NA,
        pathlib.Path("nowhere"), np.int64(3), np.float32(0.5), np.float64("nan"), np.bool_(True),
        np.str_("auto"), np.datetime64("NaT"), np.zeros(0), np.arange(3), np.eye(2), np.array(4),
        np.array("auto"), frozenset({"movie"}), {"stars"}, torch.tensor(2), torch.ones(2),
        torch.nn.Linear(1, 1), torch.device("cpu"), torch.float32, pd.Series([1.0]),
        pd.DataFrame({"a": [1]}), Gaussian(), Gaussian, Poisson(shift=1),
        PerItem({"Alien": Gaussian()}, default=Poisson()), DirichletMultinomial(2),
        *FAMILIES.values(),
    )  # fmt: skip


def odd_cell(random: np.random.Generator) -> Any:
    """A value that the cell of a frame may hold."""
    if random.random() < 0.6:
        return pick(random, (*_NUMBERS[:-2], None, True, *_TEXTS, "", "2024-01-02", "15/01/2024"))
    cells = (
        pd.NA, pd.NaT, datetime.date(2024, 1, 2), datetime.datetime(1, 1, 1), b"bytes", [1, 2],
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(days=3),
        decimal.Decimal("1.5"), decimal.Decimal("NaN"), (1,), {"a": 1}, {1}, 1j, object(), np.nan,
        np.datetime64("2024-01-02"), np.int8(3), np.float16(2), "x" * 70_000,
    )  # fmt: skip
    return pick(random, cells)


def changed_document(random: np.random.Generator, document: Any) -> Any:
    """A copy of a JSON document with one to three changes somewhere in it."""
    document = copy.deepcopy(document)
    for _ in range(int(random.integers(1, 4))):
        spots = list(_spots(document))
        if not spots:
            break
        holder, key = pick(random, spots)
        _change(random, holder, key, [holder[key] for holder, key in spots])
    return document


def _spots(value: Any) -> Any:
    """Every entry of nested dicts and lists, as what holds it and its key."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _spots(entry)


def _change(random: np.random.Generator, holder: Any, key: Any, others: list[Any]) -> None:
    kind = random.random()
    if kind < 0.15:
        del holder[key]
    elif kind < 0.3:
        holder[key] = copy.deepcopy(pick(random, others))
    elif kind < 0.4 and isinstance(holder, dict):
        holder[odd_text(random)] = holder[key]
    elif kind < 0.5 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind < 0.6 and isinstance(holder[key], int | float):
        holder[key] = holder[key] + pick(random, (-1, 1, 0.5, 1000)) if holder[key] else -1
    elif kind < 0.63:
        holder[key] = _nested(holder[key], pick(random, (2, 30, 150)))
    else:
        holder[key] = _json_value(random)


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _json_value(random: np.random.Generator) -> Any:
    texts = ("../outside.npy", "/etc/hostname", "<f8", "|O", "float32", "item", "efa", "torch")
    if random.random() < 0.3:
        return pick(random, texts)
    values = (*_NUMBERS[:-2], *_TEXTS, *WORDS, None, True, False, [], {}, [1], ["a"], {"a": 1})
    return pick(random, values)
