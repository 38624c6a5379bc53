"""`exfam demo`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exfam.cli.kinds import text, whole
from exfam.cli.options import Form, Option
from exfam.cli.writable import check_may_write


def form(words: Sequence[str]) -> Form:
    """The options of `exfam demo`."""
    return Form(
        "demo",
        "Simulate ratings, fit, print what was found, write a model and a page",
        [
            Option(
                "out", text, "where the model folder and the page go (default out)",
                default="out", metavar="FOLDER",
            ),
            Option("seed", whole, "seed of data and fits (default 0)", default=0, metavar="N"),
        ],
        example="exfam demo --out out",
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Run the demonstration."""
    from exfam.cli import demonstration as demo

    out = Path(chosen.out)
    check_may_write("--out", out / "model")
    demo.run(out=out, seed=chosen.seed)
