"""Parts that columns play, where their rows stand, and how an error speaks of a row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from exfam.checks import DataError


@dataclass(frozen=True)
class Part:
    """One column of the source in one role.

    >>> Part("value", "stars").name
    'stars'
    """

    argument: str
    name: str


@dataclass(frozen=True, eq=False)
class Places:
    """Where a row of the source stands: which file, which row of it.

    `counts` says how many rows each file has; it is called only for the sake of an error.
    """

    files: Sequence[str] = ()
    counts: Callable[[], Iterable[int]] = tuple

    @property
    def where(self) -> str:
        """Which file or files, as the end of a sentence; nothing for frames and queries."""
        if not self.files:
            return ""
        others = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f" in {self.files[0]}{others}"

    def of(self, row: int) -> tuple[int, str]:
        """The row within its file, and which file that is.

        >>> Places(("a.csv", "b.csv"), lambda: (3, 5)).of(4)
        (1, ' in b.csv')
        """
        if len(self.files) > 1:
            for file, count in zip(self.files, self.counts(), strict=False):
                if row < count:
                    return row, f" in {file}"
                row -= count
        return row, self.where

    def row(self, row: int) -> str:
        """A row in words, with its file if there is one.

        >>> Places(("a.csv",)).row(4)
        'row 4 in a.csv'
        """
        number, file = self.of(row)
        return f"row {number}{file}"


def check_named(
    parts: Iterable[Part], names: Sequence[Any], *, what: str = "source", where: str = ""
) -> None:
    """Raise DataError unless each part names one column.

    `what`: what errors call that which has the columns (default "source")
    `where`: which file, as the end of a sentence (default "")

    >>> check_named([Part("group", "user")], ["user", "movie"])
    """
    for part in parts:
        if part.name not in names:
            listed = ", ".join(repr(name) for name in names)
            raise DataError(
                f"`{part.argument}` must name a column of the {what}, got {part.name!r}{where}. "
                f"Its columns: {listed}."
            )
        if names.count(part.name) > 1:
            raise DataError(
                f"`{what}` must have one column of each name, got {part.name!r} twice{where}."
            )


def complaint(
    places: Places, part: Part, rule: str, *, found: tuple[int, Any, int], n_rows: int, advice: str
) -> DataError:
    """The error for a row: `found` is the row, what stands there, and how many rows are like it.

    >>> places, part = Places(("a.csv",)), Part("item", "movie")
    >>> print(complaint(places, part, "be new", found=(3, "up", 1), n_rows=9, advice="Wait."))
    `item` must be new, got 'up' at row 3 of column 'movie' in a.csv (1 of 9 rows). Wait.
    """
    row, where = places.of(found[0])
    got = "nothing" if found[1] is None else repr(found[1])
    return DataError(
        f"`{part.argument}` must {rule}, got {got} at row {row} of column {part.name!r}{where} "
        f"({found[2]} of {n_rows} rows). {advice}".rstrip()
    )
