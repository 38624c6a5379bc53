"""`exfam score`."""

from collections.abc import Sequence
from typing import Any

from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import flag, text
from exfam.cli.options import Form, Option

_NOTES = """Scores are exact log-likelihoods, in nats, of an observation given its context: the mean
over all targets. Higher is better. Items and each value column add up to the first row.
The perplexity of items is exp(-nats). A bidirectional model's score is a pseudo-log-
likelihood.

Of a model of a field: nats of each observed value given the others on its map, and before;
and the continuous ranked probability score, in the unit of the value, where lower is better.

Of a model of a table: nats of the response given the other cells of its row, and accuracy
of labels or R^2 of numbers; without a response, of each column given the others.

With --train, the data that the model was fitted on, cheap baselines are fitted to them, and
lines on stderr say which is ahead on what the model has not seen.

Of a model of words FILE is text: nats of its words, or of each yes and no of negative
sampling, and the perplexity where the normalizer is exact."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam score`."""
    rows = Option(
        "per_row", flag, "log-probabilities row by row instead of their mean (default no)",
        default=False, metavar="BOOL",
    )  # fmt: skip
    train = Option(
        "train", text, "what cheap baselines are fitted on, to be compared with", metavar="FILE"
    )
    return Form(
        "score",
        "The log-likelihood of a file under a model, in nats per observation",
        [*DATA, rows, train, *OUTPUT],
        example="exfam score model ratings.csv\n"
        "exfam score model ratings.csv --per-row --format csv",
        notes=_NOTES,
    )


def run(chosen: Any) -> None:
    """Print the score and its parts, or the log-probability of every row."""
    from exfam.cli.scoreboard import compare, seen_notes
    from exfam.cli.sorts import Sort, respond

    def comparison(sort: Sort, model: Any, data: Any) -> list[str]:
        if sort.comparison is None:
            return []
        lines = seen_notes(sort.comparison, model, data)
        if chosen.train is None:
            what = "--train FILE, the data of the fit, says whether a cheap baseline is ahead"
            return [*lines, what]
        train, _ = sort.read(model, chosen, file=chosen.train)
        return lines + compare(sort.comparison, model, train, data)

    respond("score", chosen, more=comparison)
