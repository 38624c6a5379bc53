"""What a model of a field answers about its predictions: which station moved which, and how far."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.output import stacked
from exfam.cli.sorts.base import Answer
from exfam.families.latent import OfLatent
from exfam.groups import Groups

# Rows of an explanation that stand for no value around.
NORMAL, OTHERS, ATTENTION, NULL = "(normal)", "(others)", "(attention)", "(nothing)"
_MIDNIGHT = "T00:00:00"


def explain_field(model: Any, groups: Groups, chosen: Any) -> Answer:
    """What each predictive mean is made of, exactly; of attention alone, its weights."""
    if not hasattr(model, "explain"):
        raise ExfamError(
            f"`MODEL` must be a FieldGaussian or a FieldEFA to explain, got {type(model).__name__}."
        )
    given = model._inputs(groups).given
    maps = np.arange(len(given)) if chosen.groups is None else _maps_named(given, chosen.groups)
    notes = []
    if isinstance(model.family_.of_units, OfLatent):
        notes.append("in the unit of the logarithms or roots that are Student's t")
    explained = ((model.explain(given[g : g + 1])[0], _values(given, int(g))) for g in maps)
    pieces = (
        _weights(own, values, chosen) if own.normal is None else _parts(own, values, chosen)
        for own, values in explained
    )
    return stacked(pieces), notes


def _maps_named(groups: Groups, names: list[str]) -> np.ndarray:
    times = groups.group_names
    times = groups.group_attributes["time"] if times is None else times
    index: dict[str, int] = {}
    for k, time in enumerate(times.tolist()):
        index[str(time)] = index[str(time).partition(_MIDNIGHT)[0]] = k
    for name in names:
        if name not in index:
            shown = ", ".join(list(index)[:3])
            raise ExfamError(
                f"`--groups` must name times of the file, got {name!r}. It has {shown}"
                f"{' …' if len(index) > 3 else ''}."
            )
    return np.array([index[name] for name in names], dtype=np.int64)


def _values(groups: Groups, g: int) -> np.ndarray:
    """The values of a map and of those that it sees, in the order of explanations."""
    one = groups[g : g + 1].compact()
    batch = one.pad([0])
    rows = batch.element[0][batch.present[0]].numpy()
    (column,) = one.values.values()
    observed = np.ones(one.n_rows, dtype=bool) if one.observed is None else one.observed
    return np.where(observed, column.astype(np.float64), np.nan)[rows]


def _parts(own: Any, values: np.ndarray, chosen: Any) -> dict[str, Any]:
    """For each value what is normal, what each value around adds, the largest first, attention."""
    if chosen.per_head and not own.attention:
        raise ExfamError("`--per-head` must be left out for a model without attention weights.")
    if chosen.per_head:
        return _weights(own, values, chosen)
    centers = np.flatnonzero(own.own)
    pieces = []
    for k in range(len(centers)):
        added = own.contributions[k]
        order = np.argsort(-np.abs(added), kind="stable")
        order = order[added[order] != 0]
        order, others = order[: chosen.top], order[chosen.top or len(order) :]
        rest = [(OTHERS, added[others].sum())] if len(others) else []
        last = [*rest, (ATTENTION, own.shift[k])]
        nothing = [np.nan] * len(last)
        pieces.append(
            {
                "site": [own.site[centers[k]]] * (len(order) + 1 + len(last)),
                "context": [NORMAL, *own.site[order], *(name for name, _ in last)],
                "steps_back": [0, *own.steps_back[order].tolist(), *[0] * len(last)],
                "value": [np.nan, *values[order].tolist(), *nothing],
                "added": [own.normal[k], *added[order].tolist(), *(size for _, size in last)],
            }
        )
    return _joined(own, pieces)


def _weights(own: Any, values: np.ndarray, chosen: Any) -> dict[str, Any]:
    """Of attention its weights on the values around, and on nothing."""
    pieces = []
    for layer, head, weights, null in _heads(own, chosen):
        table = np.concatenate([weights, null[:, None]], axis=1)
        for center, row in zip(np.flatnonzero(own.own), table, strict=True):
            order = np.argsort(-row, kind="stable")[: chosen.top]
            order = order[row[order] != 0]
            names, held = np.append(own.site, NULL), np.append(values, np.nan)
            steps = np.append(own.steps_back, 0)
            fixed = {"layer": [layer] * len(order), "head": [head] * len(order)}
            pieces.append(
                {
                    **(fixed if chosen.per_head else {}),
                    "site": [own.site[center]] * len(order),
                    "context": names[order].tolist(),
                    "steps_back": steps[order].tolist(),
                    "value": held[order].tolist(),
                    "weight": row[order].astype(np.float64).tolist(),
                }
            )
    return _joined(own, pieces)


def _heads(own: Any, chosen: Any) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Weights of each layer and head, or their mean."""
    if not chosen.per_head:
        heads = [(w.mean(0), n.mean(0)) for w, n in zip(own.attention, own.null, strict=True)]
        weights, null = (np.mean(part, axis=0) for part in zip(*heads, strict=True))
        yield 0, 0, weights, null
        return
    for layer, (weights, null) in enumerate(zip(own.attention, own.null, strict=True), start=1):
        for head in range(len(weights)):
            yield layer, head + 1, weights[head], null[head]


def _joined(own: Any, pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """All pieces of one map below each other, its time first, unknown sites without a name."""
    columns: dict[str, list[Any]] = {name: [] for name in (pieces[0] if pieces else ())}
    for piece in pieces:
        for name, part in piece.items():
            columns[name] += list(part)
    n = len(columns.get("site", []))
    for name in ("site", "context"):
        columns[name] = ["" if label is None else str(label) for label in columns.get(name, [])]
    time = str(own.time).partition(_MIDNIGHT)[0]
    return {"time": [time] * n, **columns}
