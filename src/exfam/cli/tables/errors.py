"""Errors of estimators of tables, as those read them who gave files and options."""

import contextlib
import re
from collections.abc import Iterator

from exfam.checks import ExfamError
from exfam.tables.data.table_files import TableFile

__all__ = ["told_of"]

_ROWS = re.compile(r"at row (\d+) \((\d+) of (\d+) rows\)")
_WORDS = {
    "Unknown label type: continuous. Column 'y'": "`--response`",
    "`X`": "`FILE`",
    "`y`": "`--response`",
    "`data`": "`FILE`",
    "`value`": "`FILE`",
    "`attributes`": "`FILE`",
    "`kinds[": "`--kinds[",
    "kinds={": "--kinds {",
    "Use MaskedTableClassifier": "Use --model table-classifier",
    "Use MaskedTableRegressor": "Use --model table-regressor",
    "Use MaskedTable ": "Use --model table ",
    'unknown="unk"': "--unknown unk",
    "by MaskedTableClassifier": "by --model table-classifier",
}


@contextlib.contextmanager
def told_of(*tables: TableFile) -> Iterator[None]:
    """Within it, an error tells the file that its row is in, and options instead of arguments.

    >>> with told_of():
    ...     raise ExfamError("`y` must hold two classes, got one.")
    Traceback (most recent call last):
    ...
    exfam.checks.ExfamError: `--response` must hold two classes, got one.
    """
    try:
        yield
    except ExfamError as error:
        told = str(error)
        for ours, theirs in _WORDS.items():
            told = told.replace(ours, theirs)

        def place(found: re.Match[str]) -> str:
            # A table of as many rows is the one that is spoken of, unless several have as many.
            fitting = [table for table in tables if len(table) == int(found[3])]
            if len(fitting) != 1:
                return found[0]
            return f"at {fitting[0].where(int(found[1]))} ({found[2]} of {found[3]} rows)"

        raise ExfamError(_ROWS.sub(place, told)) from error
