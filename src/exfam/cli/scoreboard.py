"""A fitted model's score beside those of cheap baselines that saw the same data, of any sort."""

import math
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exfam.checks import ExfamError
from exfam.cli.sorts.base import Comparison, Figures

# A lead that the line would show as 0.000 is none.
_LEAST_LEAD = 0.0005


@dataclass(frozen=True)
class _Row:
    name: str
    figures: Figures
    epochs: int | None
    seconds: float
    advice: str = ""


def scoreboard(
    compared: Comparison, model: Any, train: Any, held_out: Any, *, seconds: float
) -> tuple[pa.Table, list[str]]:
    """Mean nats of the model and of baselines, on data held out if there are any.

    And what must be said of them, in lines.
    `seconds`: what the model's fit took. The columns after `nats` are the terms of it; a baseline
    of values only has no `nats` beside a model of items and values.
    """
    learn, scored, is_held_out = compared.split(model, train, held_out)
    which = f"{'held-out' if is_held_out else 'training'} {compared.units}"
    rows, notes = _rows(compared, model, learn, scored, validation=held_out, seconds=seconds)
    notes.append(f"nats {compared.unit(model)} on {len(scored):,} {which}; higher is better")
    notes += compared.notes(model, train)
    if not is_held_out:
        notes.append(
            f"{which.capitalize()} flatter flexible models: nothing is compared on them. "
            "--validation-fraction 0.2, or --validation FILE, holds some out"
        )
    elif ahead := _ahead(rows, which):
        notes.append(ahead)
    notes += [
        f"{row.name} has -inf nats: something that was observed has probability 0"
        for row in rows
        if math.isinf(row.figures.total)
    ]
    return _table(rows), notes


def seen_notes(compared: Comparison, model: Any, data: Any) -> list[str]:
    """How much of the data the fit has seen, if any."""
    seen = model._seen(compared.read(model, data))
    words = seen.words(compared.units)
    if not words:
        return []
    return [words if seen.is_chance else f"{words}: new ones score lower"]


def compare(compared: Comparison, model: Any, train: Any, data: Any) -> list[str]:
    """How the model does beside baselines fitted to `train`, on data new to it, in lines."""
    scored = compared.unseen(model, compared.read(model, data))
    if scored is None:
        return [f"nothing is compared: the model has seen all {compared.units} in its fit"]
    rows, notes = _rows(compared, model, compared.read(model, train), scored)
    new = f"{len(scored):,} {compared.units}"
    for row in rows:
        parts = " and ".join(repr(part) for part in row.figures.nats if part)
        of = f" of {parts}" if parts else ""
        notes.append(
            f"{row.name} has {row.figures.total:.6g} nats {compared.unit(model)}{of} on {new}"
        )
    if len(rows) > 1:
        notes.append(_ahead(rows, new) or f"{rows[0].name} is ahead of all baselines on {new}")
    return notes


def _rows(
    compared: Comparison,
    model: Any,
    train: Any,
    scored: Any,
    *,
    validation: Any = None,
    seconds: float = 0.0,
) -> tuple[list[_Row], list[str]]:
    """The model's row and those of baselines fitted to `train`; and which are left out, why."""

    def row(name: str, fitted: Any, seconds: float, advice: str = "") -> _Row:
        epochs = sum(map(len, getattr(fitted, "histories_", []))) or None
        return _Row(name, compared.figures(model, fitted, scored), epochs, seconds, advice)

    rows, left_out = [row(type(model).__name__, model, seconds)], []
    for baseline in compared.baselines(model):
        started = time.perf_counter()
        try:
            fitted = baseline.fit(train, validation)
            took = time.perf_counter() - started
            rows.append(row(baseline.name, fitted, took, baseline.advice))
        except ExfamError as error:
            left_out.append(f"{baseline.name} is left out: {error}")
    return rows, left_out


def _ahead(rows: list[_Row], data: str) -> str:
    """Which baseline is ahead of the model, the first row, by most, and what to do; or nothing."""
    model, *baselines = rows
    best, most, of = model, _LEAST_LEAD, ""
    for row in baselines:
        same = list(row.figures.nats) == list(model.figures.nats)
        own, others = (
            {"": side.figures.total} if same else side.figures.nats for side in (model, row)
        )
        for part, nats in others.items():
            if (gap := nats - own[part]) > most:
                best, most, of = row, gap, part
    if best is model:
        return ""
    part = f" of {of!r}" if of else ""
    advice = best.advice.format(model.name)
    return f"{best.name} is ahead of {model.name} by {most:.3f} nats{part} on {data}: {advice}"


def _table(rows: list[_Row]) -> pa.Table:
    parts = list(rows[0].figures.nats)
    nats = [row.figures.total if list(row.figures.nats) == parts else None for row in rows]
    terms = parts if len(parts) > 1 else []
    return pa.table(
        {
            "model": [row.name for row in rows],
            "nats": pa.array(nats, pa.float64()),
            **{f"nats_{part}": [row.figures.nats.get(part) for row in rows] for part in terms},
            **{
                measure: [row.figures.measures.get(measure) for row in rows]
                for measure in rows[0].figures.measures
            },
            "epochs": pa.array([row.epochs for row in rows], pa.int64()),
            "seconds": [round(row.seconds, 2) for row in rows],
        }
    )
