"""Messy inputs: each is read as the clean table, or refused in one sentence with the remedy.

`python tests/reading/messy_cases.py` prints what the installed exfam makes of each.
"""

import bz2
import datetime
import decimal
import gzip
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from reading.messy_writers import (
    NAMES,
    ROWS,
    Case,
    american,
    comma,
    european,
    frame,
    grouped,
    judged,
    of,
    row,
    text,
    write_excel,
    write_folder,
    write_zip,
)

RECORDS = [dict(zip(NAMES, line, strict=True)) for line in ROWS]
DAYS = [datetime.date.fromisoformat(line[3]) for line in ROWS]
STAMPS = [datetime.datetime.combine(day, datetime.time(), datetime.UTC) for day in DAYS]
STARS = [line[2] for line in ROWS]
NA = text(gap="NA")
LATIN = text().encode("latin-1")
ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"

CASES = [
    # Encodings
    Case("UTF-8 with a byte order mark", of(text(), encoding="utf-8-sig")),
    Case("UTF-16 with a byte order mark", of(text(), encoding="utf-16")),
    Case("UTF-16 without one", of(text(), encoding="utf-16-le"), said="utf-16-le"),
    Case("UTF-32", of(text(), encoding="utf-32")),
    Case("latin-1", of(LATIN), said="latin-1 \\('caf"),
    Case("latin-1, said", of(LATIN), {"encoding": "latin-1"}),
    Case(
        "cp1252 with dashes",
        of(text().replace("tea", "tea \u2013").encode("cp1252")),
        {"_item": ("tea", "tea \u2013")},
        said="cp1252",
    ),
    Case(
        "cp1251",
        of(text().replace("caf\u00e9", "\u043a\u043e\u0444\u0435").encode("cp1251")),
        refused="Name its encoding",
    ),
    Case(
        "shift-jis, said",
        of(text().replace("caf\u00e9", "\u8336").encode("shift-jis")),
        {"encoding": "shift-jis", "_item": ("caf\u00e9", "\u8336")},
    ),
    Case(
        "half UTF-8, half latin-1",
        of(text().encode() + b"eve,th\xe9,1,2024-01-01\n"),
        refused="byte 0xe9 .*line 7",
    ),
    Case("an encoding that does not fit", of(LATIN), {"encoding": "utf-8"}, "byte 0xe9"),
    Case("an encoding that there is not", of(text()), {"encoding": "utf-9"}, "Python knows"),
    # Delimiters and lines
    Case("semicolons", of(text(by=";"))),
    Case("tabs in .txt", of(text(by="\t"), "a.txt")),
    Case("bars", of(text(by="|"))),
    Case("lines of Windows", of(text(end="\r\n"))),
    Case("lines of an old Mac", of(text(end="\r"))),
    Case("ends of two kinds", of(text().replace("\n", "\r\n", 1)), refused="end all lines alike"),
    Case("no end of the last line", of(text().rstrip("\n"))),
    Case("empty lines within", of(text().replace("\n", "\n\n"))),
    Case("empty lines at the end", of(text() + "\n\n\n")),
    Case("all cells quoted", of('"' + text(by='","', end='"\n"')[:-1])),
    Case(
        "commas in quotes",
        of(text().replace("tea", '"tea, green"')),
        {"_item": ("tea", "tea, green")},
    ),
    Case(
        "line ends in quotes",
        of(text().replace("tea", '"tea\ngreen"')),
        {"_item": ("tea", "tea\ngreen")},
    ),
    Case(
        "quotes in quotes",
        of(text().replace("tea", '"the ""tea"""')),
        {"_item": ("tea", 'the "tea"')},
    ),
    Case(
        "a quote that does not end", of(text() + '"eve,tea,1,2024-01-01\n'), refused="begin on line"
    ),
    Case(
        "a cell too many", of(row("eve", "tea", "1", "2024-01-01", "x")), refused="got 5 on line 7"
    ),
    Case("a cell too few", of(row("eve", "tea")), refused="got 2 on line 7"),
    Case("a delimiter at each end", of(text().replace("\n", ",\n"))),
    Case("NUL bytes", of(text().replace("tea", "te\0a")), {"_item": ("tea", "te\0a")}),
    Case(
        "a very long name",
        of(text().replace("tea", "t" * 100_000)),
        {"_item": ("tea", "t" * 100_000)},
    ),
    Case("emoji", of(text().replace("tea", "\U0001f375")), {"_item": ("tea", "\U0001f375")}),
    # Headers
    Case("an empty file", of(""), refused="empty file"),
    Case("a header alone", of(text([])), refused="at least one row"),
    Case("no header", of(text(header=None)), refused="must name a column .* Its columns: 'ann'"),
    Case(
        "a name twice",
        of(text(header=("user", "item", "stars", "stars"))),
        {"order": None},
        refused="'stars' twice",
    ),
    Case(
        "white space around names",
        of(text(header=(" user", "item ", "stars", "day"))),
        refused="Its columns: ' user'",
    ),
    Case(
        "names in capitals",
        of(text(header=("User", "Item", "Stars", "Day"))),
        refused="must name a column",
    ),
    Case("columns in another order", of(pd.DataFrame(frame())[[*NAMES[::-1]]].to_csv(index=False))),
    Case("further columns", of(pd.DataFrame(frame()).assign(x="y").to_csv(index=False))),
    Case("numbers of rows as pandas writes them", of(pd.DataFrame(frame()).to_csv())),
    Case(
        "a missing column",
        of(pd.DataFrame(frame())[["user", "item"]].to_csv(index=False)),
        refused="`value` must name a column",
    ),
    # Numbers
    Case("decimal comma", of(text(by=";", number=comma)), said="decimal comma"),
    Case("decimal comma, said", of(text(by=";", number=comma)), {"decimal": ","}),
    Case(
        "decimal comma in quotes", of(text(number=lambda n: f'"{comma(n)}"')), said="decimal comma"
    ),
    Case(
        "points between thousands",
        of(text(by=";", number=grouped(".", ","))),
        said="decimal comma, point between thousands",
    ),
    Case(
        "commas between thousands",
        of(text(by=";", number=grouped(","))),
        said="comma between thousands",
    ),
    Case("spaces between thousands", of(text(number=grouped(" "))), said="space between thousands"),
    Case(
        "no-break spaces between thousands",
        of(text(number=grouped("\u202f"))),
        said="space between thousands",
    ),
    Case("apostrophes between thousands", of(text(number=grouped("'"))), said="apostrophe"),
    Case(
        "1,234 in every row", of(text(by=";", number=lambda n: "1,234")), refused="read in one way"
    ),
    Case(
        "two ways in one column",
        of(text(by=";", number=lambda n: comma(n) if n < 2 else f"{n}")),
        refused="`value` must be numeric",
    ),
    Case("exponents", of(text(number="{:.6e}".format))),
    Case("plus signs", of(text(number="{:+g}".format))),
    Case("white space around numbers", of(text(number=" {:g} ".format))),
    Case("percent signs", of(text(number="{:g}%".format)), refused="must be numeric, got '1.5%'"),
    Case(
        "currencies", of(text(number="{:g} EUR".format)), refused="must be numeric, got '1.5 EUR'"
    ),
    Case("a number with underscores", of(text(number="{:_g}".format)), refused="got '1_234.5'"),
    Case("1e400", of(row("eve", "tea", "1e400", "2024-01-01")), refused="finite, got inf at row 5"),
    Case("inf", of(row("eve", "tea", "inf", "2024-01-01")), refused="finite, got inf at row 5"),
    Case(
        "a word among numbers",
        of(row("eve", "tea", "five", "2024-01-01")),
        refused="got 'five' at row 5 .*`missing`",
    ),
    # Missing values
    Case("empty cells", of(text())),
    Case("NA, NaN, null", of(NA.replace("NA", "NaN"))),
    Case("NA in capitals and white space", of(text(gap=" na "))),
    Case("-999, said", of(text(gap="-999")), {"missing": -999}),
    Case(
        "-999 that repeats far outside",
        of(text(gap="-999").replace("1234.5", "3") + "eve,tea,-999,2024-01-01\n"),
        {"_free": True},
        said="-999 in 2 of 6 rows",
    ),
    Case("'unknown', said", of(text(gap="unknown")), {"missing": ["unknown", "?"]}),
    Case("'-', not said", of(text(gap="-")), refused="must be numeric, got '-' at row 2"),
    Case(
        "NA as an item", of(text().replace("tea", "NA")), refused="`item` must hold names, got 'NA'"
    ),
    Case(
        "null as an item", of(text().replace("tea", "null")), refused="got 'null'.* double quotes"
    ),
    Case("NA as an item, quoted", of(text().replace("tea", '"NA"')), {"_item": ("tea", "NA")}),
    Case(
        "NA as an item, said",
        of(text().replace("tea", "NA")),
        {"missing": (), "_item": ("tea", "NA")},
    ),
    Case(
        "an empty item", of(row("eve", "", "1", "2024-01-01")), refused="`item` must not be missing"
    ),
    Case(
        "an empty group", of(row("", "tea", "1", "2024-01-01")), refused="`group` must not be missi"
    ),
    # Dates
    Case("dates of Europe", of(text(day=european)), {"date_format": "%d.%m.%Y"}),
    Case("dates of America, not said", of(text(day=american)), refused="read in one way"),
    Case("dates of America, said", of(text(day=american)), {"date_format": "%m/%d/%Y"}),
    Case("dates with times and zones", of(text(day=lambda d: f"{d}T00:00:00Z"))),
    Case("dates of two kinds", of(row("eve", "tea", "1", "02.01.2024")), refused="date_format"),
    Case("a 31st of June", of(row("eve", "tea", "1", "2024-06-31")), refused="2024-06-31"),
    Case("no dates at all", of(text(day=lambda d: "x" * int(d[-1]))), refused="`order` must hold"),
    # Labels
    Case(
        "labels that differ in white space",
        of(text().replace("bob,tea", "bob, tea")),
        {"_free": True},
        said="' tea' and 'tea'|'tea' and ' tea'",
    ),
    Case(
        "labels that differ by a letter of no width",
        of(text().replace("bob,tea", f"bob,tea{ZERO_WIDTH}")),
        {"_free": True},
        said="white space alone",
    ),
    Case("codes with leading zeros", of(text().replace("tea", "007")), {"_item": ("tea", "007")}),
    Case("rows twice", of(text() + "bob,tea,2,2024-01-02\n"), refused="`duplicates` must be"),
    Case("rows twice, dropped", of(text() + "bob,tea,2,2024-01-02\n"), {"duplicates": "drop"}),
    Case(
        "an item never seen",
        of(text()),
        {"vocabulary": {"item": ["tea", "milk"]}},
        refused="must be in the vocabulary .*'caf",
    ),
    # Files
    Case("gzip", of(gzip.compress(text().encode()), "a.csv.gz")),
    Case("zip", write_zip),
    Case(
        "a broken gzip", of(gzip.compress(text().encode())[:-9], "a.csv.gz"), refused="whole gzip"
    ),
    Case(
        "bzip2", of(bz2.compress(text().encode()), "a.csv.bz2"), refused="must be of files that end"
    ),
    Case("no ending", of(text(), "a"), refused="must be of files that end in"),
    Case("no such file", lambda folder: folder / "b.csv", refused="which is not there"),
    Case("a folder of files", write_folder(a=text(ROWS[:2]), b=text(ROWS[2:]))),
    Case(
        "a folder of unlike files",
        write_folder(a=text(ROWS[:2]), b=text(ROWS[2:], header=("u", *NAMES[1:]))),
        refused="same columns",
    ),
    Case("JSON lines", of("\n".join(map(json.dumps, RECORDS)), "a.jsonl")),
    Case(
        "JSON lines with a byte order mark",
        of("\n".join(map(json.dumps, RECORDS)), "a.jsonl", "utf-8-sig"),
    ),
    Case("a JSON array", of(json.dumps(RECORDS), "a.json")),
    Case("a JSON array, indented", of(json.dumps(RECORDS, indent=2), "a.json")),
    Case(
        "a broken JSON array",
        of(json.dumps(RECORDS)[:-5], "a.json"),
        refused="array of JSON objects",
    ),
    Case(
        "a JSON array of lists",
        of(json.dumps([list(line) for line in ROWS]), "a.json"),
        refused="one JSON object a line",
    ),
    Case(
        "numbers of JSON as text",
        of("\n".join(json.dumps(r | {"stars": str(r["stars"])}) for r in RECORDS), "a.jsonl"),
        refused="`value` must be numeric",
    ),
    Case("Excel", write_excel),
    Case(
        "Excel of several sheets",
        lambda folder: write_excel(folder, ("rows", "more")),
        said="first of 2",
    ),
    Case("Excel, a sheet that is not there", write_excel, {"sheet": "x"}, "Its sheets: 'rows'"),
    Case("CSV called .xlsx", of(text(), "a.xlsx"), refused="must be an Excel file"),
    # Frames
    Case("a mapping", lambda _: frame()),
    Case("pandas", lambda _: pd.DataFrame(frame())),
    Case(
        "pandas with categories",
        lambda _: pd.DataFrame(frame()).astype({"user": "category", "item": "category"}),
    ),
    Case(
        "pandas with nullable numbers", lambda _: pd.DataFrame(frame()).astype({"stars": "Float64"})
    ),
    Case("pandas with strings of its own", lambda _: pd.DataFrame(frame()).convert_dtypes()),
    Case("pandas with a named index", lambda _: pd.DataFrame(frame()).set_index("user")),
    Case(
        "pandas with an index of two levels",
        lambda _: pd.DataFrame(frame()).set_index(["user", "item"]),
    ),
    Case("pandas with periods", lambda _: pd.DataFrame(frame(day=pd.PeriodIndex(DAYS, freq="D")))),
    Case("pandas with times in a zone", lambda _: pd.DataFrame(frame(day=pd.to_datetime(STAMPS)))),
    Case("pandas with objects of dates", lambda _: pd.DataFrame(frame(day=DAYS))),
    Case(
        "pandas with numbers as text",
        lambda _: pd.DataFrame(frame(stars=["1.5", "2", None, "3", "4"])),
        refused="`value` must be numeric",
    ),
    Case(
        "pandas with mixed items",
        lambda _: pd.DataFrame(frame(item=["a", 1, "b", 2.5, None])),
        refused="one plain type",
    ),
    Case(
        "pandas with a name twice",
        lambda _: pd.DataFrame(frame()).set_axis(["user", "item", "stars", "stars"], axis=1),
        {"order": None},
        "'stars' twice",
    ),
    Case(
        "pandas with infinity",
        lambda _: pd.DataFrame(frame(stars=[1.0, np.inf, 2.0, 3.0, 4.0])),
        refused="must be finite, got inf at row 1",
    ),
    Case("polars", lambda _: pl.DataFrame(frame())),
    Case("polars, lazy", lambda _: pl.LazyFrame(frame())),
    Case(
        "polars with categories",
        lambda _: pl.DataFrame(frame()).with_columns(pl.col("item").cast(pl.Categorical)),
    ),
    Case(
        "Arrow with dictionaries",
        lambda _: pa.table(frame(item=pa.array(frame()["item"]).dictionary_encode())),
    ),
    Case(
        "Arrow with decimals",
        lambda _: pa.table(
            frame(stars=[None if s is None else decimal.Decimal(str(s)) for s in STARS])
        ),
    ),
    Case(
        "decimals as objects",
        lambda _: frame(stars=[None if s is None else decimal.Decimal(str(s)) for s in STARS]),
    ),
    Case("dates of NumPy", lambda _: frame(day=np.array(DAYS, dtype="datetime64[D]"))),
    Case("columns of unlike length", lambda _: frame(stars=[1.0]), refused="as many rows"),
    Case("an empty frame", lambda _: pd.DataFrame(frame())[:0], refused="at least one row"),
    Case(
        "booleans as values",
        lambda _: frame(stars=[True, False, True, True, False]),
        {"_free": True},
    ),
    Case("complex numbers", lambda _: frame(stars=np.array([1j] * 5)), refused="must"),
    Case("texts of bytes", lambda _: frame(item=[b"a"] * 5), refused="`item` must hold labels"),
]


if __name__ == "__main__":
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            word, message, lines = judged(case, Path(folder))
        sys.stdout.write(f"{word}\t{case.name}\t{message or '; '.join(lines)}\n")
