"""Reports about models of events: what comes when, in streams."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.estimator.gain import gain_sentences
from exfam.plots import integral_histogram
from exfam.report import cautions
from exfam.report.contents import ReportContent, ReportRequest
from exfam.report.page import (
    Facts,
    Part,
    Picture,
    Section,
    SideBySide,
    Summary,
    TableData,
    left_out,
)
from exfam.report.sections.model import parameter_table
from exfam.report.verdicts import comparison_sentence, with_error
from exfam.report.words import clean, figure, percent, quantity
from exfam.scores.calibration import central_share
from exfam.scores.metrics import Interval, mean_over_groups, paired_bootstrap

_RIVALS = ("poisson", "renewal", "hawkes")
_MOST_REASONS = 12


@dataclass(frozen=True, eq=False)
class _Scores:
    """Nats of events by part and model, their streams, and by how many nats rivals are behind."""

    nats: dict[str, dict[str, Float[np.ndarray, "events"]]]
    stream: Int64[np.ndarray, "events"]
    behind: dict[str, dict[str, Interval]]


def event_report(model: Any, request: ReportRequest) -> ReportContent:
    """The page about a model of events."""
    scores = None if request.data is None else _scored(model, request)
    careful = []
    if request.data is not None:
        careful = [
            cautions.of_seen(model.seen_in_fit(request.data), "groups"),
            cautions.of_few(len(model.log_survival(request.data)), "stream"),
        ]
    behind = {} if scores is None else scores.behind
    against = " ".join(comparison_sentence(_named(part), own) for part, own in behind.items())
    return ReportContent(
        _lead(model, scores),
        Summary(
            quality=_quality(scores),
            against=against or "Nothing: baselines need training data to be fitted on.",
            attention=" ".join(gain_sentences(model)) or "There is no attention in this model.",
            careful=[sentence for sentence in careful if sentence],
        ),
        [
            _model_section(model),
            _score_section(scores),
            _calibration(model, request),
            _counts(model, request),
            _reasons(model, request),
        ],
    )


def _named(part: str) -> str:
    return {"time": "times", "item": "items"}.get(part, f"“{clean(part, most=30)}”")


def _lead(model: Any, scores: _Scores | None) -> str:
    what = f"{type(model).__name__}, fitted to {quantity(model.data_counts_['events'], 'event')}"
    if scores is None:
        return f"{what}, without data."
    streams = quantity(len(np.unique(scores.stream)), "stream")
    return f"{what}, on {quantity(len(scores.stream), 'event')} of {streams}."


def _scored(model: Any, request: ReportRequest) -> _Scores:
    inputs, streams = model._given(request.data)
    stream = model._spread(inputs, streams.stream.astype(float)).astype(np.int64)
    parts = model.log_prob_parts(request.data)
    nats = {part: {"this model": own} for part, own in parts.items()}
    if model.gains_:
        base = model.without_attention().log_prob_parts(request.data)
        nats = {part: own | {"base alone": base[part]} for part, own in nats.items()}
    if request.train is not None and request.baselines:
        skipped = {"value": None, "attention": "none", "progress": False}
        for name in _RIVALS:
            rival = type(model)(**(model.get_params(deep=False) | skipped | {"time_base": name}))
            rival.fit(request.train)
            nats["time"][name] = rival.log_prob_parts(request.data)["time"]
    behind: dict[str, dict[str, Interval]] = {}
    for part, by_name in nats.items():
        mine = by_name["this model"]
        held = ~np.isnan(mine)
        for name in [*by_name][1:] if held.any() else ():
            ahead = (mine - by_name[name])[held]
            own = paired_bootstrap(ahead, stream[held], seed=request.seed)
            behind.setdefault(part, {})[name] = own
    return _Scores(nats, stream, behind)


def _quality(scores: _Scores | None) -> str:
    if scores is None:
        return "Not known: no data were given to score the model on."
    said = [
        f"{row[2]} of {_named(part)}"
        for part, name, row in _score_rows(scores)
        if name == "this model"
    ]
    if not said:
        return "Not known: the data hold nothing to predict."
    return f"Nats an event: {'; '.join(said)} (log-likelihood; higher is better)."


def _score_rows(scores: _Scores) -> list[tuple[str, str, list[str]]]:
    rows = []
    for part, by_name in scores.nats.items():
        for name, nats in by_name.items():
            held = ~np.isnan(nats)
            if held.any():
                mean = with_error(mean_over_groups(nats[held], scores.stream[held]))
                own = scores.behind.get(part, {}).get(name)
                behind = "" if own is None else f"{figure(own.mean)}"
                rows.append((part, name, [clean(part, most=30), name, mean, behind]))
    return rows


def _score_section(scores: _Scores | None) -> Section:
    if scores is None:
        return left_out("Scores", "no data were given to score the model on.")
    columns = ["part", "model", "nats an event", "behind this model"]
    table = TableData(columns, [row for *_, row in _score_rows(scores)], words=columns[:2])
    text = "Each part given the past. Standard errors (±) take streams as independent."
    return Section("Scores", text=[text], parts=[table])


def _model_section(model: Any) -> Section:
    time = model.event_model_.time
    shares = zip(time.mixture.names, time.mixture.shares, strict=True)
    pace = time.mixture.pace
    facts = [
        ("times", ", ".join(f"{name} {percent(share, 0)}" for name, share in shares)),
        ("calendar", "none" if time.clock.is_plain else "hours and weekdays"),
        (
            "pace of streams",
            f"gamma, shape {figure(pace.shape)}, memory {figure(pace.memory)}"
            if pace.is_on
            else "that of all",
        ),
        *((name, f"{count:,}") for name, count in model.data_counts_.items()),
    ]
    facts += [
        (f"family of “{clean(part.column, most=20)}”", clean(part.family.name))
        for part in model.event_model_.values
    ]
    table = parameter_table(model)
    parts: list[Part] = [Facts(facts), table] if table.rows else [Facts(facts)]
    return Section("The model", text=gain_sentences(model), parts=parts)


def _calibration(model: Any, request: ReportRequest) -> Section:
    title = "Calibration of times"
    if request.data is None:
        return left_out(title, "no data were given to compare predictions with.")
    try:
        found = model.calibration(request.data, seed=request.seed)
    except DataError:
        return left_out(title, "no wait ended in an event.")
    text = (
        f"The chance of a wait as short as the one that came is even if the model is right (time "
        f"rescaling). Its Kolmogorov-Smirnov distance from evenness is {figure(found.distance)} "
        f"(95 % interval {figure(found.low)} to {figure(found.high)}); even levels exceed "
        f"{figure(found.even)} once in 20 times."
    )
    drawn = Picture(
        "Levels of waits",
        integral_histogram(found.level),
        f"{quantity(len(found.level), 'wait')}; flat if calibrated.",
    )
    return Section(title, text=[text], parts=[drawn])


def _counts(model: Any, request: ReportRequest) -> Section:
    title = "Calibration of counts"
    if request.data is None:
        return left_out(title, "no data were given to compare predictions with.")
    try:
        found = model.count_calibration(request.data, seed=request.seed)
    except DataError:
        return left_out(title, "no stream is observed for long enough.")
    random = np.random.default_rng(request.seed).random(len(found.count))
    rows = [
        ["windows", f"{len(found.count):,}"],
        ["mean count", figure(found.count.mean())],
        ["mean of predictions", figure(found.mean.mean())],
        ["within intervals of 90 %, of whole numbers", percent(found.inside.mean())],
        [
            "within intervals of 90 %, counts at an end in part",
            percent(central_share(found.below, found.at_most, level=0.9).mean()),
        ],
    ]
    table = TableData(["counts", ""], rows, words=["counts"])
    level = found.below + random * (found.at_most - found.below)
    drawn = Picture("Levels of counts", integral_histogram(level), "Flat if calibrated.")
    text = (
        f"How many events streams have within {figure(found.window)} days (or units of time), in "
        "windows that follow one with an event. Intervals of whole numbers hold more than their "
        "level, most of all where counts are small."
    )
    return Section(title, text=[text], parts=[SideBySide([drawn, table])])


def _reasons(model: Any, request: ReportRequest) -> Section:
    title = "What the rate is made of"
    if request.data is None:
        return left_out(title, "no data were given.")
    found = model.explain(request.data, top=5)
    own = np.flatnonzero(found.group == found.group[0])[:_MOST_REASONS]
    rows = []
    for k in own:
        item, age = found.source_item[k], found.age[k]
        named = "" if item is None else clean(item)
        rows.append(
            [found.source[k], named, "" if np.isnan(age) else figure(age), figure(found.rate[k])]
        )
    columns = ["source", "item", "how long ago", "rate"]
    text = f"At the end of the stream “{clean(found.group[0], most=30)}”, per day or unit of time."
    return Section(title, text=[text], parts=[TableData(columns, rows, words=columns[:2])])
