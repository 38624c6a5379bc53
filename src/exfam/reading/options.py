"""How a source is read, and what was met on the way."""

import re
from dataclasses import dataclass

from exfam.checks import ExfamError, check_choice, check_whole
from exfam.columns.ordering import check_date_format

MOST_THREADS = 1024
_SIZE = re.compile(r"\s*\d+(\.\d+)?\s*([KMGT]i?B|B|bytes?)\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class ReadingOptions:
    """How a source is read.

    `duplicates`: what to do with rows that equal another one in all columns read: "error", "drop"
        (the first stays) or "keep" (default "error")
    `database`: the database that a query or table name is run in, as "sqlite:///shop.db" or
        "postgresql://user@host/shop"; None for files, frames and DuckDB's SQL (default None)
    `memory_limit`: what DuckDB may use before it spills to disk, such as "2GB"; the columns that
        are returned come on top. None for half of the machine's memory (default None)
    `threads`: how many DuckDB uses; None for one a core (default None)
    `date_format`: how text of `order` and `position` writes dates: "iso" or a format of
        `datetime.strptime` such as "%d/%m/%Y"; None for the one that all of a column fits
        (default None)

    >>> ReadingOptions(threads=2).duplicates
    'error'
    """

    duplicates: str = "error"
    database: str | None = None
    memory_limit: str | None = None
    threads: int | None = None
    date_format: str | None = None

    def __post_init__(self) -> None:
        check_choice("duplicates", self.duplicates, ("error", "drop", "keep"))
        if self.threads is not None:
            check_whole("threads", self.threads)
            if self.threads > MOST_THREADS:
                raise ExfamError(f"`threads` must be at most {MOST_THREADS}, got {self.threads}.")
        if self.memory_limit is not None and not _SIZE.fullmatch(str(self.memory_limit)):
            raise ExfamError(
                f"`memory_limit` must be a size such as '2GB', got {self.memory_limit!r}."
            )
        check_date_format(self.date_format)


@dataclass(frozen=True)
class ReadingFacts:
    """What was met while reading a source.

    `rows`: rows of the source; `groups`, `items`: groups and item labels of the result; `ties`:
    elements whose `order` is that of the element before them in the group; `duplicates`:
    rows dropped because an earlier one is equal; `unobserved`: elements without one of their
    values; `unknown`: rows with an item that the given vocabulary does not hold.

    >>> ReadingFacts(rows=3, groups=2).ties
    0
    """

    rows: int
    groups: int
    items: int = 0
    ties: int = 0
    duplicates: int = 0
    unobserved: int = 0
    unknown: int = 0
