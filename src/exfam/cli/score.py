"""`exfam score`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import flag, text
from exfam.cli.options import Form, Option

__all__ = ["form", "mean_parts", "run"]

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
    """What `exfam score` can be asked."""
    rows = Option(
        "per_row", flag, "log-probabilities row by row instead of their mean (default no)",
        default=False, metavar="BOOL",
    )  # fmt: skip
    train = Option(
        "train", text, "what cheap baselines are fitted on, to be compared with", metavar="FILE"
    )
    return Form(
        "score",
        "The log-likelihood of a file under a model, in nats an observation",
        [*DATA, rows, train, *OUTPUT],
        example="exfam score model ratings.csv\n"
        "exfam score model ratings.csv --per-row --format csv",
        notes=_NOTES,
    )


def run(chosen: Any) -> None:
    """Print the score and its parts, or the log-probability of every row."""
    from exfam.cli.fields import field_rows, field_scores, is_field
    from exfam.cli.output import beside, deliver, destination
    from exfam.cli.sources import file_rows, open_both, open_model, tell
    from exfam.cli.tables import cells_of, is_table, table_scores
    from exfam.cli.vectors.scores import is_of_words, word_scores

    to, model = destination(chosen.format, chosen.output), open_model(chosen)
    if is_of_words(model):
        deliver(word_scores(model, chosen), to)
        return
    _, groups, met = open_both(chosen, model=model)
    if is_table(model):
        columns = table_scores(model, groups, chosen)
        tell(met)
        _tell_seen(model._seen(cells_of(model, groups)), "rows")
        _tell_compared(model, groups, chosen)
        deliver(columns, to)
        return
    if is_field(model):
        columns = field_scores(model, groups, per_row=chosen.per_row)
        if chosen.per_row:
            columns = beside(field_rows(model, chosen.file), columns)
        tell(met)
        _tell_seen(model._seen(groups), "maps")
        _tell_compared(model, groups, chosen)
        deliver(columns, to)
        return
    parts = model.log_prob_parts(groups)
    if chosen.per_row:
        rows = file_rows(model, groups, chosen)
        told = {name: rows.spread(each) for name, each in _each(parts).items()}
        columns = beside(rows.columns, told)
    else:
        columns = _summary(parts)
    tell(met)
    _tell_seen(model._seen(groups), "groups")
    if impossible := _impossible(parts, groups):
        tell(impossible)
    _tell_compared(model, groups, chosen)
    deliver(columns, to)


def _tell_seen(seen: Any, what: str) -> None:
    """Say how many of them the fit has seen, if any."""
    from exfam.cli.sources import tell

    if words := seen.words(what):
        tell(words if seen.is_chance else f"{words}: new ones score lower")


def _tell_compared(model: Any, given: Any, chosen: Any) -> None:
    """Say how cheap baselines do that are fitted to `--train`, or how to learn that."""
    from exfam.cli.fields import is_field, read_maps
    from exfam.cli.scoreboard import compare
    from exfam.cli.sources import read_known, tell
    from exfam.cli.tables import compare_tables, is_table, read_known_table

    if chosen.train is None:
        tell("--train FILE, the data of the fit, says whether a cheap baseline is ahead")
        return
    if is_table(model):
        train = read_known_table(model, chosen, file=chosen.train)
        lines = compare_tables(model, train, given)
    else:
        read = read_maps if is_field(model) else read_known
        lines = compare(model, read(model, chosen, file=chosen.train)[0], given)
    for line in lines:
        tell(line)


def _impossible(parts: dict[str, np.ndarray], groups: Any) -> str:
    """Which observations have probability 0, in words; nothing if there are none."""
    elements = np.flatnonzero(np.isneginf(list(parts.values())).any(axis=0))
    if not len(elements):
        return ""
    own = groups.elements()[elements]
    row = int((own if groups.source_row is None else groups.source_row[own]).min())
    return (
        f"{len(own):,} observation{'s' if len(own) > 1 else ''} of probability 0 under the model, "
        f"the first at row {row}: minus infinity"
    )


def mean_parts(parts: dict[str, np.ndarray]) -> tuple[dict[str, float], int]:
    """The mean over all targets of each part's log-probabilities, and the number of targets.

    `parts`: as an estimator's `log_prob_parts` tells them; items are told as "items".

    Raises ExfamError if there are none.
    """
    from exfam.estimator.evaluate import total_nats

    counted = ~np.isnan(total_nats(parts))
    n = int(counted.sum())
    if n == 0:
        raise ExfamError("`FILE` must hold at least one observation to score, got none.")
    return {_spoken(name): float(np.nansum(flat[counted]) / n) for name, flat in parts.items()}, n


def _spoken(part: str) -> str:
    return "items" if part == "item" else part


def _summary(parts: dict[str, np.ndarray]) -> dict[str, Any]:
    means, n = mean_parts(parts)
    counts = {_spoken(name): int((~np.isnan(flat)).sum()) for name, flat in parts.items()}
    nats = {"all": sum(means.values())} | means
    perplexity = [_perplexity(told) if name == "items" else np.nan for name, told in nats.items()]
    return {
        "part": list(nats),
        "nats": list(nats.values()),
        "targets": [n, *counts.values()],
        "perplexity": np.array(perplexity),
    }


def _perplexity(nats: float) -> float:
    """exp(-nats); NaN, which is told as nothing, where that is beyond all numbers."""
    return float(np.exp(-nats)) if nats > -700 else np.nan


def _each(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The log-probability of each element, and its terms if there are several."""
    from exfam.estimator.evaluate import total_nats

    columns = {"nats": total_nats(parts)}
    if len(parts) > 1:
        for name, part in parts.items():
            columns[f"nats_{_spoken(name)}"] = part
    return columns
