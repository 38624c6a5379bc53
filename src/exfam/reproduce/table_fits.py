"""Fits of models to coded tables: each once, its result kept."""

import time
from typing import Protocol

import numpy as np
from jaxtyping import Int64

from exfam.reproduce.table_models import TableContender
from exfam.reproduce.table_rules import figures_of
from exfam.reproduce.table_store import Key, Result, Store

__all__ = ["CodedTables", "result_of"]


class CodedTables(Protocol):
    """A table to fit on and one to report on, all columns and y as codes from 0."""

    @property
    def train_x(self) -> Int64[np.ndarray, "train columns"]: ...
    @property
    def train_y(self) -> Int64[np.ndarray, "train"]: ...
    @property
    def test_x(self) -> Int64[np.ndarray, "test columns"]: ...
    @property
    def test_y(self) -> Int64[np.ndarray, "test"]: ...
    @property
    def n_categories(self) -> int: ...


def result_of(tables: CodedTables, contender: TableContender, *, key: Key, store: Store) -> Result:
    """The result of that fit from the store; fitted with `key.number` as its seed if need be."""
    kept = store.get(key)
    if kept is not None:
        return kept
    start = time.process_time()
    fitted = contender.fit(
        tables.train_x, tables.train_y, n_categories=tables.n_categories, seed=key.number
    )
    seconds = time.process_time() - start
    figures = figures_of(fitted.predict_proba(tables.test_x), tables.test_y)
    result = Result(key, figures, seconds, fitted.chosen)
    store.put(result)
    return result
