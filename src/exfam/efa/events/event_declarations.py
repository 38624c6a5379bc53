"""Parameters of models of events."""

from typing import Any

from exfam.efa.declarations import GroupColumnNames, GroupSplit
from exfam.efa.events.fit_time import TIME_BASES
from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import (
    Choice,
    ColumnName,
    Families,
    Flag,
    Numbers,
    OrNone,
    OrWord,
    Positive,
    Text,
)


class EventColumns(
    GroupColumnNames, section="Columns of a frame (of `Groups`, `position` has times)"
):
    """What the columns of a frame of events are."""

    group: str | None = parameter(
        text="the column of streams, such as patients; None where all events are of one stream",
        default=None,
    )
    time: str | None = parameter(
        OrNone(ColumnName()),
        "the column of times: dates, which count in days, or numbers of any unit",
        default=None,
    )
    item: str | None = parameter(text="the column of what happens, its kind or code", default=None)
    value: Any = parameter(
        text="the column, or list of columns, of values, which some events may not have",
        default=None,
    )
    order = None
    begin: str | None = parameter(
        OrNone(ColumnName()),
        "the column of when observation of a stream began; without, its first event opens it, and "
        "the time of that is not predicted",
        default=None,
    )
    end: str | None = parameter(
        OrNone(ColumnName()),
        "the column of when observation of a stream ended: that nothing more came until then "
        "counts; without, its last event ends it, unless methods are given an `end`",
        default=None,
    )


class EventModelParameters(Declared, section="Model"):
    """What is modeled."""

    resolution: float | None = parameter(
        OrNone(Positive(zero=True)),
        "to what times are known, in days or the unit of the column: 1 for dates, 1/86400 for "
        "seconds; scores are then probabilities of cells, without densities of times. None or 0: "
        "times are exact",
        default=None,
    )
    time_zone: str | None = parameter(
        OrNone(Text()),
        'of the calendar, such as "Europe/Vienna": hours of the day and weekdays have rates of '
        "their own if validation finds that it helps. Numbers are then days since 1970. None: UTC "
        "for dates, and no calendar for numbers",
        default=None,
    )
    time_base: str = parameter(
        Choice(TIME_BASES),
        '"poisson" (a constant rate), "renewal" (waits by the last item), "hawkes" (past events '
        'raise the rate), or "auto": the simplest of these that validation is content with, or a '
        "mixture if that is ahead, with rates and a pace of the streams' own",
        default="auto",
    )
    decays: Any = parameter(
        OrNone(Numbers()),
        "rates, per day or unit of the column, at which what past events add fades; None for ten "
        "or fewer between short waits and long parts of the streams",
        default=None,
    )
    attention: str = parameter(
        Choice(("softmax", "none")),
        '"softmax": attention over the last events of a stream corrects times, items and values, '
        'each as far as validation says that it helps beyond chance; "none": the base alone',
        default="softmax",
    )
    family: Any = parameter(
        OrWord("auto", Families()),
        "of values: a family's name or instance, or a dict by value column; "
        '"auto" is what values look like',
        default="auto",
    )


class EventTraining(GroupSplit, section="Training"):
    """What is held out."""

    validation_fraction: float = parameter(
        text="share of the streams held out to choose by, or of fewer than 20 streams the last "
        "part of each; then all are fitted",
        default=0.15,
    )
    seed: int = parameter(text="of what is held out, and of attention's training", default=0)
    progress: bool = parameter(Flag(), "whether to show progress in a terminal", default=True)
