"""Missing cells: how many there were in training, and how many there are now."""

import warnings
from collections.abc import Sequence

from exfam.checks import ExfamWarning
from exfam.tables.data import RawTable

__all__ = ["missing_share", "warn_of_missing"]

# So many more, at least so many times as many, and at least so many cells are far more.
_MORE, _TIMES, _CELLS = 0.15, 2.0, 10


def missing_share(tables: Sequence[RawTable], names: Sequence[str]) -> float:
    """The share of cells that are missing in these columns; a column that is not there is missing.

    >>> from exfam.tables.data import read_table
    >>> missing_share([read_table({"a": [1.0, None]})], ["a", "b"])
    0.75
    """
    n_cells = sum(table.n_rows for table in tables) * len(names)
    return sum(_n_missing(table, names) for table in tables) / n_cells if n_cells else 0.0


def warn_of_missing(
    table: RawTable, names: Sequence[str], *, fitted: float, extra_masking: float
) -> None:
    """Warn where far more cells are missing than a fit has seen, of its rows or hidden by itself.

    `fitted`: the share that was missing in training
    `extra_masking`: the largest share of a row's cells that training hid besides

    >>> from exfam.tables.data import read_table
    >>> warn_of_missing(read_table({"a": [1.0]}), ["a"], fitted=0.0, extra_masking=0.0)
    """
    n_missing, share = _n_missing(table, names), missing_share([table], names)
    seen = fitted + (1 - fitted) * extra_masking / 2
    if n_missing < _CELLS or share < seen + _MORE or share < _TIMES * seen:
        return
    warnings.warn(
        f"{share:.0%} of the cells of `X` are missing ({n_missing:,} of "
        f"{table.n_rows * len(names):,}), where training lacked {fitted:.0%}: the model is not "
        "fitted for this, and may know less than it does without any cells. Fit it with "
        "extra_masking=1.0, or to rows that lack as many.",
        ExfamWarning,
        stacklevel=2,
    )


def _n_missing(table: RawTable, names: Sequence[str]) -> int:
    lacking = sum(table.n_rows for name in names if name not in table.columns)
    held = [table.columns[name] for name in names if name in table.columns]
    return lacking + sum(int(column.missing.sum()) for column in held)
