"""What writes messy inputs, and what exfam makes of them."""

import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openpyxl

import exfam

NAMES = ("user", "item", "stars", "day")
ROWS = [
    ("ann", "caf\u00e9", 1.5, "2024-01-03"),
    ("bob", "tea", 2.0, "2024-01-02"),
    ("ann", "tea", None, "2024-01-01"),
    ("bob", "milk", 1234.5, "2024-01-01"),
    ("cleo", "caf\u00e9", 4.0, "2024-01-05"),
]
COLUMNS = {"group": "user", "item": "item", "value": "stars", "order": "day"}


@dataclass(frozen=True)
class Case:
    """What writes a source into a folder; what is passed to read; what must come of it.

    `refused`: a pattern that the error matches, "" where the source must be read as the clean rows
    `said`: a pattern that a warning matches, "" where none may come
    """

    name: str
    make: Callable[[Path], Any]
    options: dict[str, Any] = field(default_factory=dict)
    refused: str = ""
    said: str = ""


def text(rows=ROWS, *, by=",", number="{:g}".format, day=str, header=NAMES, end="\n", gap=""):
    lines = [header] if header else []
    for user, item, stars, when in rows:
        stars = gap if stars is None else number(stars)
        lines.append((user, item, stars, day(when)))
    return "".join(by.join(line) + end for line in lines)


def comma(number):
    return f"{number:g}".replace(".", ",")


def grouped(mark, point="."):
    swap = {",": mark, ".": point}
    return lambda number: "".join(swap.get(letter, letter) for letter in f"{number:,g}")


def european(date):
    year, month, day = date.split("-")
    return f"{day}.{month}.{year}"


def american(date):
    year, month, day = date.split("-")
    return f"{month}/{day}/{year}"


def of(content, name="a.csv", encoding="utf-8"):
    """What writes a file of this text or these bytes."""

    def write(folder):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def row(*cells):
    """The clean text with one more line."""
    return text() + ",".join(cells) + "\n"


def frame(**changes):
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    return columns | changes


def write_zip(folder):
    with zipfile.ZipFile(folder / "a.zip", "w") as packed:
        packed.writestr("a.csv", text())
    return folder / "a.zip"


def write_excel(folder, sheets=("rows",)):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        sheet = book.create_sheet(name)
        for line in [NAMES, *ROWS]:
            sheet.append(list(line))
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


def write_folder(**files):
    def write(folder):
        (folder / "f").mkdir()
        for name, content in files.items():
            (folder / "f" / f"{name}.csv").write_text(content, "utf-8")
        return folder / "f"

    return write


def outcome(case, folder):
    """("right" | "wrong" | "refused" | "crash", what was said), for this exfam."""
    options = {key: value for key, value in case.options.items() if not key.startswith("_")}
    source, frame_like = case.make(folder), None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            groups = exfam.read(source, **COLUMNS | {"threads": 1} | options)
        except exfam.ExfamError as error:
            return "refused", str(error), caught
        except Exception as error:
            return "crash", f"{type(error).__name__}: {error}", caught
    frame_like = groups.to_frame("arrow").to_pydict()
    return _compared(case, frame_like), "", caught


def _compared(case, got):
    swap = dict([case.options["_item"]]) if "_item" in case.options else {}
    if case.options.get("_free"):
        return "right"
    order = sorted(ROWS, key=lambda line: (["ann", "bob", "cleo"].index(line[0]), line[3]))
    expected = [(user, swap.get(item, item), stars) for user, item, stars, _ in order]
    found = list(zip(got["group"], got["item"], got["stars"], strict=True))
    return "right" if found == expected else "wrong"


def judged(case, folder):
    """The outcome in one word: whether it is what it must be."""
    word, message, caught = outcome(case, folder)
    lines = [str(warning.message) for warning in caught]
    if word == "refused":
        fits = case.refused and re.search(case.refused, message, re.DOTALL)
        return ("refused" if fits else "refused otherwise"), message, lines
    if word == "right" and case.refused:
        return "read, though in doubt", message, lines
    if word == "right" and case.said and not any(re.search(case.said, line) for line in lines):
        return "right, nothing said", message, lines
    return word, message, lines
