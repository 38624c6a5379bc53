"""Parameters of all estimators that read files: how the files are written."""

from dataclasses import replace
from typing import Any

from exfam.columns.dialect import DECIMALS, THOUSANDS, Dialect
from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import Mark, Marks, OrNone, Text, TextEncoding


class TextFiles(Declared, section="Files"):
    """How files of plain text are written."""

    file_encoding: str | None = parameter(
        OrNone(TextEncoding()), 'of files, such as "latin-1"; None for UTF-8', default=None
    )


class FileDialect(Declared, section="Files (what is None is found by looking)"):
    """How files are written."""

    file_encoding: str | None = parameter(
        OrNone(TextEncoding()),
        'of text files, such as "latin-1" or "utf-16"; None for UTF-8, what a byte order mark '
        "says, or latin-1 or cp1252 where all letters are as in Western languages",
        default=None,
    )
    decimal: str | None = parameter(
        Mark(DECIMALS),
        'the decimal mark of text files, "." or ","; None for the one that all of a column fits',
        default=None,
    )
    thousands: str | None = parameter(
        Mark(THOUSANDS),
        'what stands between thousands in text files: ",", ".", " ", "\'", or "" for nothing; '
        "None for what all of a column fits",
        default=None,
    )
    missing: Any = parameter(
        OrNone(Marks()),
        "number(s) and text(s) that stand for a missing value, such as -99, beside empty cells; "
        "None for the words NA, NaN and null",
        default=None,
    )
    sheet: str | None = parameter(
        OrNone(Text()), "the sheet of an Excel file; None for the first", default=None
    )

    @property
    def dialect(self) -> Dialect:
        """All of these as one value, with what the fit found, or finds, of its files."""
        finding = getattr(self, "_finding", None)
        return Dialect(
            encoding=self.file_encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            missing=self.missing,
            sheet=self.sheet,
            likely=getattr(self, "file_settings_", {}) if finding is None else finding,
            found=finding,
        )


class DatedFiles(FileDialect, section="Files (what is None is found by looking)"):
    """How files are written that have times or an order."""

    date_format: str | None = parameter(
        OrNone(Text()),
        'how text of times, `order` and `position` writes dates, such as "%d/%m/%Y"; None for ISO '
        "dates or the one format that all of a column fits",
        default=None,
    )

    @property
    def dialect(self) -> Dialect:
        """All of these as one value."""
        return replace(super().dialect, date_format=self.date_format)
