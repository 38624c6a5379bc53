"""`exfam prepare`."""

from collections.abc import Sequence
from typing import Any

from exfam.checks import DataError
from exfam.cli.common import FILE, READING, duplicates
from exfam.cli.kinds import flag, text
from exfam.cli.options import Form, Option
from exfam.cli.signatures import estimator_options

COLUMNS = ("group", "order", "item", "value", "attributes", "group_attributes", "position")

_NOTES = """The folder holds the columns read, sorted and encoded. It may stand wherever a file of
data can, is opened at once, and may be larger than memory. `exfam fit FOLDER` needs no
column names."""


_EXAMPLE = """\
exfam prepare ratings.csv --group user --order time --item movie --value stars -o prepared
exfam fit prepared --family "ordinal(n=5, start=1)" --max-epochs 20 -o fitted"""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam prepare`."""
    columns = [option for option in estimator_options("efa") if option.name in COLUMNS]
    return Form(
        "prepare",
        "Read, sort and encode a file once, into a folder that fits map into memory",
        [
            FILE,
            Option(
                "output", text, "the folder to write", metavar="FOLDER", short="-o", required=True
            ),
            Option(
                "overwrite", flag, "replace a prepared folder in --output (default no)",
                default=False, metavar="BOOL",
            ),
            duplicates("error"),
            *READING,
            *columns,
        ],
        example=_EXAMPLE,
        notes=_NOTES,
        config=True,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Write the folder."""
    from exfam.cli.notes import note
    from exfam.cli.sources import describe_rows, reading_options
    from exfam.cli.writable import check_may_write
    from exfam.reading.prepared import prepare, prepared_facts

    check_may_write("--output", chosen.output)
    columns = {name: value for name in COLUMNS if (value := getattr(chosen, name)) is not None}
    options = reading_options(chosen)
    try:
        prepare(
            chosen.file,
            chosen.output,
            **columns,
            database=options.database,
            duplicates=options.duplicates,
            memory_limit=options.memory_limit,
            date_format=options.date_format,
            overwrite=chosen.overwrite,
        )
    except DataError as error:
        raise DataError(str(error).replace("`folder`", "`output`")) from error
    facts = prepared_facts(chosen.output)
    assert facts is not None
    note(f"{chosen.file}: {describe_rows(facts)}", f"prepared in {chosen.output}")
