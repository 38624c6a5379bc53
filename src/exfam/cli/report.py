"""`exfam report`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.common import FILE, MODEL, READING, duplicates
from exfam.cli.kinds import flag, text, whole
from exfam.cli.options import Form, Option
from exfam.cli.writable import check_may_write

_NOTES = """One HTML file that needs nothing else: no scripts, nothing loaded from elsewhere.
Without DATA it is about the model alone. Scores stand beside cheap baselines, which are
fitted on --train, or on half of the groups of DATA, which are then not scored."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam report`."""
    return Form(
        "report",
        "Write a page about a model and what it says of data",
        [
            MODEL,
            replace(FILE, name="data", metavar="DATA", required=False),
            Option(
                "output", text, "the page to write", metavar="FILE.html", short="-o", required=True
            ),
            Option("title", text, "its heading (default: the model's kind)", metavar="TEXT"),
            Option("train", text, "what baselines are fitted on", metavar="FILE"),
            Option(
                "baselines", flag, "whether to fit baselines (default yes)",
                default=True, metavar="BOOL",
            ),
            Option("seed", whole, "of random choices of groups (default 0)", default=0),
            duplicates("keep"),
            *READING,
        ],
        example="exfam report model ratings.csv -o report.html",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Write the page."""
    from exfam.cli.notes import note
    from exfam.cli.sorts import sort_of
    from exfam.cli.sources import open_model
    from exfam.report.model_report import write_report

    path = Path(chosen.output)
    check_may_write("--output", path)
    if path.is_dir():
        raise ExfamError(f"`--output` must be a file, got a folder at {path}.")
    model = open_model(chosen)
    sort = sort_of(model, "report", chosen)
    read: dict[str, Any] = {}
    lines = []
    for name in ("data", "train"):
        if (file := getattr(chosen, name)) is not None:
            read[name], description = sort.read(model, chosen, file=file)
            lines.append(description)
    write_report(
        model,
        read.get("data"),
        path=path,
        title=chosen.title,
        train=read.get("train"),
        baselines=chosen.baselines,
        seed=chosen.seed,
    )
    note(*lines, f"written to {path}")
