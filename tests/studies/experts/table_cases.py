"""Tables for the tests of models of tables: of codes, and with a shift of their own."""

from dataclasses import replace

import numpy as np

from exfam_studies.experts.tables.data import TableShift, simulate_shifted_tables

TASKS = ("regression", "ordinal", "classification")
KINDS = {"color": "categorical", "size": "ordinal", "big": "boolean", "weight": "numeric"}


def coded(n_rows=90, *, n_levels=3, lacking=None):
    """A table of codes; `lacking`: a code that no training row has."""
    drawn = simulate_shifted_tables(
        n_informative=5, noise=0.5, corr=0.9, seed=0, n_rows=n_rows, n_levels=3
    )
    y = np.where(drawn.train_y == lacking, 0, drawn.train_y)
    return replace(drawn, train_y=y, levels=dict.fromkeys(drawn.levels, range(n_levels)))


def toy(task, n=300, n_test=200):
    """A table with columns of all kinds, of which some cells are missing."""
    (train, y), (test, test_y) = _part(0, n), _part(1, n_test)
    levels = {}
    if task == "ordinal":
        y, test_y = (np.clip(np.rint(part), 1, 6).astype(int) for part in (y, test_y))
        levels = {"y": tuple(range(1, 8))}  # 7 is in no row
    if task == "classification":
        y, test_y = (np.where(part > 3, "many", "few").astype(object) for part in (y, test_y))
    return TableShift(train, y, test, test_y, KINDS, task, levels)


def _part(seed, n):
    random = np.random.default_rng(seed)
    columns = {
        "color": random.choice(np.array(["red", "blue", None], dtype=object), n),
        "size": random.integers(1, 5, n),
        "big": random.random(n) < 0.5,
        "weight": random.normal(size=n),
    }
    columns["weight"][::7] = np.nan
    y = columns["size"] + 2.0 * (columns["color"] == "red") + 0.3 * random.normal(size=n)
    return columns, y
