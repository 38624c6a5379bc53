"""Options that several commands share."""

from exfam.cli.kinds import one_of, text
from exfam.cli.options import Option


def duplicates(default: str) -> Option:
    """What to do with equal rows."""
    return Option(
        "duplicates", one_of(("error", "drop", "keep")),
        f"rows that are the same in every column read: error, drop or keep (default {default})",
        default=default, metavar="{error,drop,keep}",
    )  # fmt: skip


TRAINING_FLATTERS = (
    "Training {} flatter flexible models: nothing is compared on them. --validation-fraction 0.2, "
    "or --validation FILE, holds some out"
)

TABLE_FORMATS = ("table", "csv", "json", "parquet")

MODEL = Option("model", text, "a saved model", metavar="MODEL", positional=True, required=True)
FILE = Option(
    "file", text,
    "the data: CSV, TSV, JSON lines (any of them .gz), Parquet, a folder or pattern of such files, "
    "a prepared folder, or SQL with --database",
    metavar="FILE", positional=True, required=True,
)  # fmt: skip
READING = (
    Option(
        "database", text,
        "a database for FILE to be a query or a table in, such as sqlite:///shop.db",
        metavar="URI",
    ),
    Option(
        "memory_limit", text,
        "memory for reading before it spills to disk, such as 2GB (default: half of the machine's)",
        metavar="SIZE",
    ),
    Option(
        "date_format", text,
        "how dates in text are written, such as %d/%m/%Y (default: the one format that all of "
        "the column fits)",
        metavar="FORMAT",
    ),
)  # fmt: skip
DATA = (
    MODEL,
    FILE,
    duplicates("keep"),
    *READING,
    Option(
        "unknown", one_of(("error", "ignore", "unk")),
        "items never seen in training: error, ignore (leave such rows out) or unk (keep them in "
        "the context as unknown) (default: as in the fit)",
        metavar="{error,ignore,unk}",
    ),
)  # fmt: skip

OUTPUT = (
    Option(
        "format", one_of(TABLE_FORMATS),
        "table for reading; csv with a header; json, a list with a record a line; or parquet. All "
        "but the table have all digits (default table, or what --output ends in)",
        metavar="{" + ",".join(TABLE_FORMATS) + "}",
    ),
    Option("output", text, "write to this file instead of stdout", metavar="FILE", short="-o"),
)  # fmt: skip
