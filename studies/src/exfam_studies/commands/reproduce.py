"""`exfam reproduce`."""

from pathlib import Path
from typing import Any

from exfam.cli.kinds import labels, text
from exfam.cli.options import Form, Option, count, switch


def _reproduce(chosen: Any) -> None:
    """Print the names of experiments, or run one."""
    from exfam_studies.common.experiments import EXPERIMENTS, title

    if chosen.list:
        width = max(map(len, EXPERIMENTS))
        for name in EXPERIMENTS:
            print(f"{name:<{width}}  {title(name)}")
        return
    from exfam_studies.common.harness import Options, reproduce

    paths = {
        name: Path(value)
        for name in ("json", "out", "folder", "corpus", "vectors")
        if (value := getattr(chosen, name))
    }
    json, only = paths.pop("json", None), tuple(chosen.only or ())
    options = Options(seeds=chosen.seeds, fast=chosen.fast, only=only, **paths)
    reproduce(chosen.name, options=options, json=json)


REPRODUCE = Form(
    "reproduce",
    "Print a paper's table with our columns",
    [
        Option("name", text, "the experiment, one of --list", metavar="NAME", positional=True),
        switch("list", "print all names and stop"),
        count("seeds", "fits per row (default: the experiment's own)"),
        switch("fast", "a smoke run: tiny fits, figures that mean nothing"),
        Option("only", labels, "one task; may be repeated", metavar="TASK", many=True),
        Option("json", text, "write the rows there too", metavar="FILE"),
        Option("out", text, "write pictures there", metavar="FOLDER"),
        Option("folder", text,
               "keep each fit of experiments of hours there, and go on from what is there",
               metavar="FOLDER"),
        Option("corpus", text,
               "the text of experiments of words (default: one that EXFAM_DATA has)",
               metavar="FILE"),
        Option("vectors", text,
               "word vectors of experiments that use them, such as GloVe's (default: own ones)",
               metavar="FILE"),
    ],
    run=_reproduce,
    example="exfam reproduce --list\nexfam reproduce efa-synthetic --fast",
)  # fmt: skip
