"""Models of events: files with a row for each event."""

from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.errors import reworded
from exfam.cli.output import beside
from exfam.cli.sorts.base import Answer, PlannedFit, Sort
from exfam.cli.sources import file_rows, read_as_fitted
from exfam.estimator.evaluate import total_nats
from exfam.groups import Groups

_WORDS = {"`X`": "`FILE`", "`validation`": "`--validation`", "`group`": "`--group`"}
_USUAL_INTERVAL, _USUAL_TOP = 0.8, 5


def _plan(estimator: Any, chosen: Any) -> PlannedFit:
    for name in ("group", "time"):
        if getattr(estimator, name) is None:
            raise ExfamError(
                f"`--{name}` must name a column of {chosen.file} for a model of events, got none."
            )
    for name in ("checkpoint", "database", "memory_limit"):
        if getattr(chosen, name) is not None:
            raise ExfamError(
                f"`--{name.replace('_', '-')}` must be left out for a model of events."
            )
    options = {"validation": chosen.validation}
    return PlannedFit((chosen.file,), options, None, errors=reworded(_WORDS))


def _summary(model: Any) -> dict[str, Any]:
    """How much was fitted, which distributions of times are mixed, and nats of validation."""
    mixture = model.event_model_.time.mixture
    times = ", ".join(
        f"{name} {share:.2f}" for name, share in zip(mixture.names, mixture.shares, strict=True)
    )
    nats = {f"nats_{part}": [max(own.values())] for part, own in model.choices_.items() if own}
    return {
        "streams": [model.data_counts_["streams"]],
        "events": [model.data_counts_["events"]],
        "times": [times],
        **nats,
    }


def _facts(model: Any) -> dict[str, Any]:
    """What a fitted model holds."""
    fitted = model.event_model_
    mixture = fitted.time.mixture
    shares = {name: float(s) for name, s in zip(mixture.names, mixture.shares, strict=True)}
    return {
        "parts": ["time", *(["item"] if fitted.item else []), *(p.column for p in fitted.values)],
        "times": shares,
        "tried": model.choices_,
        "calendar": not fitted.time.clock.is_plain,
        "families": {part.column: repr(part.family) for part in fitted.values},
        "numbers": sum(int(array.size) for array in fitted.arrays().values()),
    }


def _score(model: Any, groups: Groups, chosen: Any) -> Answer:
    if not chosen.per_row:
        scores = model.score_parts(groups)
        nats = {"all": sum(scores.values())} | scores
        return {"part": list(nats), "nats": np.array(list(nats.values()))}, []
    parts = model.log_prob_parts(groups)
    rows = file_rows(model, groups, chosen)
    nats = {"nats": total_nats(parts)} | {f"nats_{name}": part for name, part in parts.items()}
    return beside(rows.columns, {name: rows.spread(part) for name, part in nats.items()}), []


def _predict(model: Any, groups: Groups, chosen: Any) -> Answer:
    interval = _USUAL_INTERVAL if chosen.interval is None else chosen.interval
    return dict(model.predict(groups, interval=interval).to_dict()), []


def _explain(model: Any, groups: Groups, chosen: Any) -> Answer:
    top = _USUAL_TOP if chosen.top is None else chosen.top
    columns = dict(model.explain(groups, top=top).to_dict())
    if chosen.groups is not None:
        label = columns["group"].astype(str)
        if unknown := [name for name in chosen.groups if name not in label]:
            raise ExfamError(f"`--groups` must be groups of the file, got {unknown[0]!r}.")
        kept = np.isin(label, chosen.groups)
        columns = {name: column[kept] for name, column in columns.items()}
    return columns, []


EVENTS = Sort(
    name="events",
    read=read_as_fitted,
    facts=_facts,
    answers={"score": _score, "predict": _predict, "explain": _explain},
    instead={
        "recommend": "Use `exfam predict`, which has the next item.",
    },
    refused={
        "rows": "Use --groups.",
        "next": "The end of each stream is explained in any case.",
        "per_head": "Models of events have no heads.",
        "fill": "It fills the cells of tables.",
        "proba": "Use `predict` in Python, which has `item_proba`.",
        "of": "All that comes next is predicted.",
        "quantiles": "Use --interval.",
    },
    plan=_plan,
    summary=_summary,
)
