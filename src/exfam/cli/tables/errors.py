"""Errors of estimators of tables, for those who gave files and options."""

import contextlib
import re
from collections.abc import Iterator

from exfam.checks import ExfamError
from exfam.tables.data.table_files import TableFile

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
def errors_of_files(*tables: TableFile) -> Iterator[None]:
    """Within it, an error names the file that its row is in, and options instead of arguments."""
    try:
        yield
    except ExfamError as error:
        message = str(error)
        for ours, theirs in _WORDS.items():
            message = message.replace(ours, theirs)

        def in_file(match: re.Match[str]) -> str:
            # A table of as many rows is the one in question, unless several have as many.
            fitting = [table for table in tables if len(table) == int(match[3])]
            if len(fitting) != 1:
                return match[0]
            return f"at {fitting[0].where(int(match[1]))} ({match[2]} of {match[3]} rows)"

        raise ExfamError(_ROWS.sub(in_file, message)) from error
