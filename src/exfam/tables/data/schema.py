"""The columns of a table as they were learned, in order."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from exfam.checks import DataError, with_types
from exfam.tables.data.columns import Column
from exfam.tables.data.dates import DateColumn


@dataclass(frozen=True)
class TableSchema:
    """All columns of a table, or of several tables that share some of them.

    `dates`: which columns hold dates, and how they are read; the parts of a date are columns too
    """

    columns: tuple[Column, ...]
    dates: tuple[DateColumn, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the columns that can be predicted: all but dates and their parts."""
        return tuple(column.name for column in self.columns if not column.input_only)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that can only be given: dates and their parts."""
        return tuple(column.name for column in self.columns if column.input_only)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def index(self, name: str) -> int:
        """The index of a column, from 0. Raises DataError for an unknown name."""
        if not isinstance(name, str) or name not in self.names:
            listed = ", ".join(map(repr, self.names))
            raise DataError(f"`name` must be a column of the table, one of {listed}, got {name!r}.")
        return self.names.index(name)

    def column(self, name: str) -> Column:
        """The column of this name. Raises DataError for an unknown name."""
        return self.columns[self.index(name)]

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        dates = [asdict(date) for date in self.dates]
        return {"columns": [column.to_config() for column in self.columns], "dates": dates}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "TableSchema":
        """The schema that `to_config` wrote."""
        # Files older than dates have none.
        dates = [
            with_types(DateColumn(date["name"], date["date_format"], tuple(date["parts"])))
            for date in config.get("dates", ())
        ]
        columns = [Column.from_config(column) for column in config["columns"]]
        return cls(tuple(columns), tuple(dates))
