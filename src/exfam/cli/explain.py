"""`exfam explain`."""

from collections.abc import Sequence
from typing import Any

from exfam.checks import check_positive
from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import column, flag, labels, whole
from exfam.cli.options import Form, Option

_NOTES = """A row for each observation as center and each of its context that attention looked at:
its weight is the mean over layers and heads, or that of one with --per-head.
"(nothing)" is the learned key that stands for none of the context.

Of a model of a table: a row for each row of the file and each cell of it that is there, with
its weight, and what it adds to each logit of the response (of numbers, to the parameters of
the distribution); the sums over all cells are the logits, exactly. "(nothing)" is a row without
any known cell."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam explain`."""
    return Form(
        "explain",
        "Which of its context counted for an observation, by attention weights",
        [
            *DATA,
            Option(
                "groups", labels,
                "the groups to explain: --groups anna --groups bert (default: all)",
                metavar="LABEL", many=True,
            ),
            Option(
                "rows", labels, "of a table: the rows to explain, from 0: --rows 0 --rows 7 "
                "(default: all)",
                metavar="N", many=True,
            ),
            Option(
                "of", column, "of a table: the column to explain (default: the response)",
                metavar="COLUMN",
            ),
            Option(
                "top", whole, "contexts of largest weight for each center (default: all)",
                metavar="N",
            ),
            Option(
                "per_head", flag, "weights of each layer and head (default no)",
                default=False, metavar="BOOL",
            ),
            *OUTPUT,
        ],
        example="exfam explain model ratings.csv --groups anna --top 3",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print group, center, context and weight; of a table row, column, weight and what it adds."""
    from exfam.cli.sorts import respond

    if chosen.top is not None:
        check_positive("--top", chosen.top)
    respond("explain", chosen)
