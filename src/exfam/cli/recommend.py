"""`exfam recommend`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import whole
from exfam.cli.options import Form, Option

_NOTES = """A causal model predicts the next item of each group, a bidirectional one what else
belongs to it. Probabilities are over the whole catalog. Items of probability 0 are not listed."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam recommend`."""
    k = Option("k", whole, "items a group (default 10)", default=10, metavar="N", short="-k")
    return Form(
        "recommend",
        "The most probable further items of each group",
        [*DATA, k, *OUTPUT],
        example="exfam recommend model ratings.csv -k 3 --format csv",
        notes=_NOTES,
    )


def run(chosen: Any) -> None:
    """Print group, rank, item and probability."""
    from exfam.cli.sorts import respond

    respond("recommend", chosen)
