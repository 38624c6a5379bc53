"""Commands and their options, as data; and the options that several commands share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from exfam.checks import ExfamError, shown
from exfam.cli.kinds import Kind, flag, mark, marks, one_of, text, whole


@dataclass(frozen=True)
class Option:
    """One option, `--name`.

    `kind`: turns a word, or YAML, into the value
    `metavar`: what stands for the value in the help (default "VALUE")
    `many`: whether it may be given again, its values making a list (default False)
    `positional`: whether a word without an option may stand for it (default False)
    `section`: its heading in the help; "" for the first one (default "")
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    metavar: str = "VALUE"
    short: str | None = None
    many: bool = False
    positional: bool = False
    required: bool = False
    section: str = ""

    @property
    def long(self) -> str:
        """The option as it is written."""
        return "--" + (self.name if self.name == "print_config" else self.name.replace("_", "-"))


def convert(option: Option, value: Any, *, where: str = "") -> Any:
    """The value that an option takes for a word or for YAML."""
    try:
        return option.kind(value)
    except ValueError as error:
        raise ExfamError(f"`{option.long}` {error}, got {shown(value)}{where}.") from error


def switch(name: str, help: str, *, default: bool = False) -> Option:
    """An option that is yes or no."""
    word = "yes" if default else "no"
    return Option(name, flag, f"{help} (default {word})", default=default, metavar="BOOL")


def choice(name: str, words: Sequence[str], help: str, *, default: str | None = None) -> Option:
    """An option that is one of some words; the help of one without a default says what it is."""
    listed = "{" + ",".join(words) + "}"
    help += "" if default is None else f" (default {default})"
    return Option(name, one_of(words), help, default=default, metavar=listed)


def count(name: str, help: str, *, default: int | None = None, short: str | None = None) -> Option:
    """An option that is a whole number; the help of one without a default says what it is."""
    help += "" if default is None else f" (default {default})"
    return Option(name, whole, help, default=default, metavar="N", short=short)


def output(help: str, metavar: str) -> Option:
    """The option of what a command writes."""
    return Option("output", text, help, metavar=metavar, short="-o", required=True)


def duplicates(default: str) -> Option:
    """What to do with equal rows."""
    what = "rows that are the same in every column read: error, drop or keep"
    return choice("duplicates", ("error", "drop", "keep"), what, default=default)


TABLE_FORMATS = ("table", "csv", "json", "parquet")
CONFIG = Option("config", text, "options from a YAML file; others given beside it win", many=True)
PRINT_CONFIG = Option("print_config", text, "print all options as YAML for --config, and stop")
MODEL = Option("model", text, "a saved model", metavar="MODEL", positional=True, required=True)
FILE = Option(
    "file", text,
    "the data: CSV, TSV, JSON (any of them .gz or .zip), Excel, Parquet, a folder or pattern of "
    "such files, a prepared folder, or SQL with --database",
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
        "file_encoding", text,
        "of text files, such as latin-1 (default: found by looking)",
        metavar="NAME",
    ),
    Option(
        "decimal", mark, "the decimal mark of text files (default: found by looking)",
        metavar="MARK",
    ),
    Option(
        "thousands", mark,
        "what stands between thousands in text files (default: found by looking)",
        metavar="MARK",
    ),
    Option(
        "date_format", text,
        "how dates in text are written, such as %d/%m/%Y (default: the one format that all of "
        "the column fits)",
        metavar="FORMAT",
    ),
    Option(
        "missing", marks,
        "numbers and texts that stand for a missing value: --missing -999 (default: the words NA, "
        "NaN and null)",
        metavar="MARK", many=True,
    ),
    Option("sheet", text, "the sheet of an Excel file (default: the first)", metavar="NAME"),
)  # fmt: skip
DATA = (
    MODEL,
    FILE,
    duplicates("keep"),
    *READING,
    choice(
        "unknown",
        ("error", "ignore", "unk"),
        "items never seen in training: error, ignore (leave such rows out) or unk (keep them in "
        "the context as unknown) (default: as in the fit)",
    ),
)
OVERWRITE = switch("overwrite", "replace what is in --output")
OUTPUT = (
    choice(
        "format",
        TABLE_FORMATS,
        "table for reading; csv with a header; json, a list with a record a line; or parquet. All "
        "but the table have all digits (default table, or what --output ends in)",
    ),
    Option("output", text, "write to this file instead of stdout", metavar="FILE", short="-o"),
)


@dataclass(frozen=True)
class Form:
    """A command.

    `example`: command lines that work, one after the other
    `run`: of the chosen options; its exit status, or None for 0
    `answers`: in place of `run`: the columns that are written as --format and --output say
    `notes`: what else the help says (default "")
    `config`: whether it takes `--config FILE` and `--print_config` (default False)
    `spoken`: the command as errors name it; "exfam" and its name if empty (default "")
    """

    command: str
    title: str
    options: Sequence[Option]
    example: str
    run: Callable[[Any], int | None] | None = None
    answers: Callable[[Any], Any] | None = None
    notes: str = ""
    config: bool = False
    spoken: str = ""

    def __post_init__(self) -> None:
        if self.answers is not None:
            object.__setattr__(self, "options", (*self.options, *OUTPUT))

    @property
    def spoken_name(self) -> str:
        """The command as errors name it."""
        return self.spoken or f"exfam {self.command}"

    @property
    def positional(self) -> list[Option]:
        """The options that stand without a name, in this order."""
        return [option for option in self.options if option.positional]
