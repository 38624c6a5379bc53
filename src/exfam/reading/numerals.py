"""How numbers are written in a text file: the decimal mark, and what groups their digits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exfam.columns.dialect import Dialect

# RE2 writes these so; the two are white space that does not break a line.
_CLASSES = {"": "", ",": ",", ".": "[.]", " ": "[ \\x{00A0}\\x{202F}]", "'": "['\\x{2019}]"}
_WORDS = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}


@dataclass(frozen=True)
class Numerals:
    """One way to write numbers: `decimal` is "." or ",", `thousands` a mark or ""."""

    decimal: str = "."
    thousands: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether Python and SQL write them so."""
        return self == PLAIN

    def fits(self, x: str) -> str:
        """Whether the cell `x` of text is such a number, in SQL."""
        mark = _CLASSES[self.decimal]
        whole = "\\d+"
        if self.thousands:
            whole = f"(?:[1-9]\\d{{0,2}}(?:{_CLASSES[self.thousands]}\\d{{3}})+|\\d+)"
        pattern = f"\\s*[-+]?(?:{whole}(?:{mark}\\d*)?|{mark}\\d+)(?:[eE][-+]?\\d+)?\\s*"
        return f"regexp_full_match({x}, {_quoted(pattern)})"

    def is_grouped(self, x: str) -> str:
        """Whether the cell `x` has a mark between its thousands and no decimals, in SQL."""
        group = _CLASSES[self.thousands]
        pattern = f"\\s*[-+]?[1-9]\\d{{0,2}}(?:{group}\\d{{3}})+\\s*"
        return f"regexp_full_match({x}, {_quoted(pattern)})"

    def plain(self, x: str) -> str:
        """The cell `x` as SQL writes the number."""
        bare = f"trim({x})"
        if self.thousands:
            bare = f"regexp_replace({bare}, {_quoted(_CLASSES[self.thousands])}, '', 'g')"
        return bare if self.decimal == "." else f"replace({bare}, ',', '.')"

    def __str__(self) -> str:
        words = [] if self.decimal == "." else ["decimal comma"]
        words += [f"{_WORDS[self.thousands]} between thousands"] if self.thousands else []
        return ", ".join(words)


PLAIN, COMMA = Numerals(), Numerals(",")
GROUPED, POINTS = Numerals(".", ","), Numerals(",", ".")
_ALL = (
    PLAIN,
    COMMA,
    GROUPED,
    POINTS,
    Numerals(".", "'"),
    Numerals(",", "'"),
    Numerals(".", " "),
    Numerals(",", " "),
)


def allowed_numerals(dialect: Dialect) -> tuple[Numerals, ...]:
    """The ways to write numbers that a dialect leaves open."""
    return tuple(
        way
        for way in _ALL
        if dialect.decimal in (None, way.decimal)
        and way.decimal != dialect.thousands
        and (dialect.thousands is None or way.thousands in ("", dialect.thousands))
    )


def agreed(fitting: Sequence[Numerals]) -> Numerals | None:
    """The way that all of a column fits, simplest first; None where some read it otherwise.

    Only a comma can be read in two ways: as the decimal mark, or between thousands.

    >>> agreed([Numerals(","), Numerals(",", ".")])
    Numerals(decimal=',', thousands='')
    >>> agreed([Numerals(","), Numerals(".", ",")]) is None
    True
    """
    if any(way.decimal == "," and not way.thousands for way in fitting) and any(
        way.thousands == "," for way in fitting
    ):
        return None
    return fitting[0] if fitting else None


def described(ways: Iterable[Numerals]) -> str:
    """The ways in words, each once, "" for the plain one alone."""
    return ", ".join(dict.fromkeys(str(way) for way in ways if not way.is_plain))


def settings(ways: Iterable[Numerals]) -> dict[str, str]:
    """The parameters that say so: the decimal mark if it is a comma, and that of thousands.

    >>> settings([Numerals(","), Numerals(",", ".")])
    {'decimal': ',', 'thousands': '.'}
    """
    said: dict[str, str] = {}
    for way in ways:
        said |= {"decimal": ","} if way.decimal == "," else {}
        said |= {"thousands": way.thousands} if way.thousands else {}
    return said


def _quoted(pattern: str) -> str:
    return "'" + pattern.replace("'", "''") + "'"
