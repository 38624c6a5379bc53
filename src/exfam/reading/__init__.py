"""Files, frames and queries as Groups, through DuckDB."""

from exfam.reading.fill import Allocate
from exfam.reading.options import ReadingFacts, ReadingOptions
from exfam.reading.reader import read, read_groups, read_with_facts

__all__ = [
    "Allocate",
    "ReadingFacts",
    "ReadingOptions",
    "read",
    "read_groups",
    "read_with_facts",
]
