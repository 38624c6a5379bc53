"""A fitted model's score beside those of cheap baselines that saw the same groups."""

import math
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exfam.checks import ExfamError
from exfam.cli.common import TRAINING_FLATTERS
from exfam.cli.fields import is_field
from exfam.cli.score import mean_parts
from exfam.efa.baselines import Marginal, ShrunkOffset
from exfam.fields import FieldClimatology, FieldKriging
from exfam.fields.networks.links import counts

__all__ = ["compare", "scoreboard"]

_SHARED = ("group", "order", "item", "value", "direction", "family", "unknown")
# How a baseline is fitted by itself.
_REMEDIES = {
    "FieldClimatology": "--model field-climatology",
    "FieldKriging": "--model field-kriging",
    "Marginal": "--model marginal",
    "Marginal by item": "--model marginal --by-item true",
    "ShrunkOffset": "--model shrunk-offset",
}
_SHARED_BY_FIELDS = (
    "time", "site", "coordinates", "value", "metric", "missing", "standardize", "period",
)  # fmt: skip


def scoreboard(
    model: Any, train: Any, held_out: Any, *, seconds: float
) -> tuple[pa.Table, list[str]]:
    """Nats an observation of the model and of baselines, on groups held out if there are any.

    And what must be said of them, in lines.
    `seconds`: what the model's fit took. The columns after `nats` are the terms of it; a baseline
    of values only has no `nats` beside a model of items and values.
    """
    which, groups = ("training", train) if held_out is None else ("held-out", held_out)
    of = "maps" if is_field(model) else "groups"
    rows, notes = _rows(model, train, groups, validation=held_out, seconds=seconds)
    notes.append(f"nats an observation on {len(groups):,} {which} {of}; higher is better")
    if held_out is None:
        notes.append(TRAINING_FLATTERS.format(of))
    elif ahead := _ahead(rows, f"{which} {of}"):
        notes.append(ahead)
    notes += [
        f"{row.name} has -inf nats: it met an observation of probability 0"
        for row in rows
        if math.isinf(sum(row.parts.values()))
    ]
    return _table(rows), notes


def compare(model: Any, train: Any, groups: Any) -> list[str]:
    """How the model does beside baselines fitted to `train`, on groups new to it, in lines."""
    of = "maps" if is_field(model) else "groups"
    overlap = model._seen(groups)
    if not overlap.is_chance:
        groups = groups[overlap.seen == 0]
    if not groups.n_targets:
        return [f"nothing is compared: the model has seen all {of} in its fit"]
    rows, notes = _rows(model, train, groups, validation=None, seconds=0.0)
    new = f"{len(groups):,} {of}"
    notes += [
        f"{row.name} has {sum(row.parts.values()):.6g} nats an observation of "
        f"{' and '.join(map(repr, row.parts))} on {new}"
        for row in rows
    ]
    if len(rows) > 1:
        notes.append(_ahead(rows, new) or f"{rows[0].name} is ahead of all baselines on {new}")
    return notes


@dataclass(frozen=True)
class _Row:
    name: str
    parts: dict[str, float]
    epochs: int | None
    seconds: float


def _rows(
    model: Any, train: Any, groups: Any, *, validation: Any, seconds: float
) -> tuple[list[_Row], list[str]]:
    """The model and the baselines fitted to `train`; and which are left out, why."""
    rows, left_out = [_row(type(model).__name__, model, groups, seconds=seconds)], []
    for name, baseline in _baselines(model).items():
        started = time.perf_counter()
        try:
            baseline.fit(train, validation=validation)
            rows.append(_row(name, baseline, groups, seconds=time.perf_counter() - started))
        except ExfamError as error:
            left_out.append(f"{name} is left out: {error}")
    return rows, left_out


def _row(name: str, model: Any, groups: Any, *, seconds: float) -> _Row:
    if is_field(model):
        each = {model.shape_.column: model.log_prob(groups)}
    else:
        each = model.log_prob_parts(groups)
    parts, _ = mean_parts(each)
    histories = model.histories_ if hasattr(model, "histories_") else []
    return _Row(name, parts, sum(map(len, histories)) or None, seconds)


def _ahead(rows: list[_Row], of: str) -> str:
    """Which baseline is ahead of the model, the first row, by most, and what to do; or nothing."""
    model, *baselines = rows
    best, by, part = model, 0.0, ""
    for row in baselines:
        same = list(row.parts) == list(model.parts)
        mine, theirs = (
            {"": sum(each.parts.values())} if same else each.parts for each in (model, row)
        )
        for name in theirs:
            if (gap := theirs[name] - mine[name]) > by:
                best, by, part = row, gap, name
    if best is model:
        return ""
    what = f" of {part!r}" if part else ""
    return (
        f"{best.name} is ahead of {model.name} by {by:.3f} nats{what} on {of}: use it "
        f"({_REMEDIES[best.name]}), or give {model.name} more data or other settings"
    )


def _table(rows: list[_Row]) -> pa.Table:
    parts = list(rows[0].parts)
    nats = [sum(row.parts.values()) if list(row.parts) == parts else None for row in rows]
    terms = parts if len(parts) > 1 else []
    return pa.table(
        {
            "model": [row.name for row in rows],
            "nats": pa.array(nats, pa.float64()),
            **{f"nats_{part}": [row.parts.get(part) for row in rows] for part in terms},
            "epochs": pa.array([row.epochs for row in rows], pa.int64()),
            "seconds": [row.seconds for row in rows],
        }
    )


def _baselines(model: Any) -> dict[str, Any]:
    if is_field(model):
        return _baselines_of_field(model)
    shared = {name: getattr(model, name) for name in _SHARED}
    shared["parts"] = _parts(model)
    shared["support"] = "hard" if model.support_ == "hard" else "none"
    of_values, knows_items = bool(model.schema_.values), bool(model.schema_.n_items)
    found: dict[str, Any] = {}
    if not isinstance(model, Marginal):
        found["Marginal"] = Marginal(**shared)
        if of_values and knows_items:
            found["Marginal by item"] = Marginal(**shared, by_item=True)
    if of_values and not isinstance(model, Marginal | ShrunkOffset):
        del shared["parts"], shared["support"]
        found["ShrunkOffset"] = ShrunkOffset(**shared)
    return found


def _baselines_of_field(model: Any) -> dict[str, Any]:
    """Those that are cheap at any size; of counts none, whose laws are not of whole numbers."""
    if counts(model.family_):
        return {}
    shared = {name: getattr(model, name) for name in _SHARED_BY_FIELDS}
    found = {"FieldClimatology": FieldClimatology(**shared), "FieldKriging": FieldKriging(**shared)}
    return {name: each for name, each in found.items() if name != type(model).__name__}


def _parts(model: Any) -> str:
    if not model.schema_.values:
        return "items"
    return "both" if model._has_items else "values"
