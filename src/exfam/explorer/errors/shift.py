"""What has moved between two data sets: their own distributions, and how probable they are."""

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.checks import ExfamError
from exfam.explorer.errors.scored import some_of
from exfam.explorer.errors.terms import Terms
from exfam.explorer.questions import number_or_none
from exfam.explorer.views import Answer
from exfam.scores.metrics import mean_over_groups
from exfam.tables.data import Cells
from exfam.tables.shift.moves import Moved, bonferroni
from exfam.tables.table import JointTable

_MOST_ROWS, _MOST_PARTS, _BARS = 1500, 40, 12
_LEVEL = 0.01


def moved_rows(model: JointTable, before: Cells, after: Cells) -> Answer:
    """By column, as the model's `shift_report` says, of random rows where there are many."""
    some = [cells[some_of(len(cells), _MOST_ROWS)] for cells in (before, after)]
    report = model._shift(*some, level=_LEVEL).as_dict()
    parts = [
        {
            "name": column["name"],
            "p": column["marginal"]["p"],
            "own": column["absent"],
            "nats": column["conditional"],
            "moved": column["name"] in report["shifted"],
            "surprising": column["name"] in report["surprising"],
        }
        for column in report["columns"]
    ]
    return {
        "own": "share that is missing",
        "rows": report["rows"],
        "parts": parts,
        "level": _LEVEL,
        "n": [len(cells) for cells in some],
        "of": [len(before), len(after)],
        "has_bars": True,
    }


def bars_of_column(model: JointTable, before: Cells, after: Cells, name: str) -> Answer:
    """Shares of a column's labels, or of equal ranges of its numbers, in both."""
    index = model.schema_.index(name)
    values = [cells.value[:, index] for cells in (before, after)]
    values = [value[~np.isnan(value)] for value in values]
    labels = model.schema_.column(name).labels
    if labels is None:
        return bars_of_numbers(*values)
    counts = [np.bincount(value.astype(np.int64), minlength=len(labels)) for value in values]
    return _bars([str(label) for label in labels], counts)


def bars_of_numbers(
    before: Float64[np.ndarray, "before"], after: Float64[np.ndarray, "after"]
) -> Answer:
    """Shares of equal ranges between the least and the largest of both."""
    both = np.concatenate([before, after])
    if not len(both):
        raise ExfamError("`part` must have values to be compared, got none.")
    edges = np.histogram_bin_edges(both, bins=_BARS)
    labels = [f"{low:.4g} to {high:.4g}" for low, high in zip(edges[:-1], edges[1:], strict=True)]
    return _bars(labels, [np.histogram(own, edges)[0] for own in (before, after)])


def _bars(labels: list[str], counts: Any) -> Answer:
    shares = [(own / max(own.sum(), 1)).tolist() for own in counts]
    return {"labels": labels, "before": shares[0], "after": shares[1]}


def moved_parts(
    before: Terms, after: Terms, *, own: str, numbers: tuple[Any, Any] | None = None
) -> Answer:
    """By item or station: shares of terms or means of `numbers` in both, and log-probabilities.

    Of the parts with most terms in both together. Units are taken as independent.
    `own`: what moves beside the log-probabilities, in words
    """
    n_parts = 1 + max(int(before.part.max(initial=0)), int(after.part.max(initial=0)))
    count = np.bincount(np.concatenate([before.part, after.part]), minlength=n_parts)
    most = np.argsort(-count, kind="stable")[:_MOST_PARTS]
    most = most[count[most] > 0]
    moves = {str(part): _moved_part(before, after, int(part), numbers) for part in most}
    p = [{name: move[k].p for name, move in moves.items()} for k in range(2)]
    flagged = [bonferroni(own, level=_LEVEL) for own in p]
    parts = [
        {
            "part": int(name),
            "p": number_or_none(move[0].p),
            "own": shown_move(move[0]),
            "nats": shown_move(move[1]),
            "moved": name in flagged[0],
            "surprising": name in flagged[1],
        }
        for name, move in moves.items()
    ]
    rows = shown_move(_move(_all(before), _all(after), before.nats, after.nats, before, after))
    return {"own": own, "rows": rows, "parts": parts, "level": _LEVEL, "n_parts": n_parts}


def _all(terms: Terms) -> Bool[np.ndarray, "terms"]:
    return np.ones(len(terms), dtype=bool)


def _moved_part(
    before: Terms, after: Terms, part: int, numbers: tuple[Any, Any] | None
) -> tuple[Moved, Moved]:
    here, there = before.part == part, after.part == part
    if numbers is None:
        shares = (here.astype(np.float64), there.astype(np.float64))
        own = _move(_all(before), _all(after), *shares, before, after)
    else:
        own = _move(here, there, *numbers, before, after)
    return own, _move(here, there, before.nats, after.nats, before, after)


def _move(
    here: Bool[np.ndarray, "before"],
    there: Bool[np.ndarray, "after"],
    number: Float64[np.ndarray, "before"],
    later: Float64[np.ndarray, "after"],
    before: Terms,
    after: Terms,
) -> Moved:
    """The means of numbers over some terms of both."""
    return Moved(*_mean(number[here], before.unit[here]), *_mean(later[there], after.unit[there]))


def _mean(
    number: Float64[np.ndarray, "terms"], unit: Int64[np.ndarray, "terms"]
) -> tuple[float, float]:
    if not len(number):
        return math.nan, math.nan
    own = mean_over_groups(number, unit)
    return own.mean, own.error


def shown_move(move: Moved) -> Answer:
    """A move as the page has it."""
    names = ("train", "train_error", "new", "new_error", "difference", "error", "z")
    return {name: number_or_none(getattr(move, name)) for name in names}
