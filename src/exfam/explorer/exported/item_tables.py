"""What a page needs to answer for the base of an item model: its tables, and what it is."""

import base64
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.efa.base.linear import LinearItems
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.based import BasedItems
from exfam.explorer.questions import Question
from exfam.explorer.views.items import ItemsView

# Of a number of single precision.
_BYTES = 4
_TRIED, _RELATED = 30, 8


def item_tables(view: ItemsView) -> dict[str, Any]:
    """Weights between items, popularity and the numbers of the link; relations of items; groups.

    Raises ExfamError for a model without such a base of sets.
    """
    model: GroupEstimator = view.model
    part = model.members_[0].item_part
    base = part.base if isinstance(part, BasedItems) else None
    if not isinstance(base, LinearItems | RidgeItems) or base.direction == "causal":
        raise ExfamError(
            "`model` must be of sets with a base of items, such as EFA, EASE or ItemKNN, for a "
            f"page of its own, got {type(model).__name__}"
            f"{' of sequences' if model.direction == 'causal' else ''}. Serve it with `explore`."
        )
    return {
        "start": view.start() | {"n_groups": len(view.groups or ())},
        "names": view.names,
        "weights": _packed(_weights(base)),
        "log_popularity": _packed(_log_popularity(base)),
        "link": "ridge" if isinstance(base, RidgeItems) else "line",
        "smooth": isinstance(base, RidgeItems) or base.smooth,
        "numbers": base.numbers.tolist(),
        "repeat": _repeat(model),
        "related": [_related(view, code) for code in range(len(view.names))],
        "groups": [] if view.groups is None else _groups(view),
    }


def table_bytes(n_items: int) -> int:
    """Of the table of weights alone."""
    return _BYTES * n_items**2


def _weights(base: Any) -> np.ndarray:
    """What an item of the context (rows) adds to the score of another."""
    if isinstance(base, LinearItems):
        table = base.weights
        return np.asarray(table.toarray() if base.is_sparse else table, dtype=np.float32)
    precision, row = base.precision.cpu(), base.row.cpu().numpy()
    own = (-precision / precision.diagonal()).numpy()
    covered = np.flatnonzero(row >= 0)
    weights = np.zeros((base.n_items, base.n_items), dtype=np.float32)
    weights[np.ix_(covered, covered)] = own[np.ix_(row[covered], row[covered])]
    return weights


def _log_popularity(base: Any) -> np.ndarray:
    if isinstance(base, LinearItems):
        return base.log_popularity.cpu().numpy()
    count = base.count.cpu().double().numpy() + 0.5
    return np.log(count / count.sum())


def _repeat(model: GroupEstimator) -> float | None:
    """What is taken off the output of an item of the context; None where it cannot come again."""
    if model.support_ == "hard":
        return None
    support: Any = model.members_[0].support
    return support.penalty.item() if model.support_ == "penalty" else 0.0


def _related(view: ItemsView, code: int) -> dict[str, Any]:
    """Codes and strengths of what goes with an item, and of what stands in its place."""
    item = view.labels[code]
    related = {}
    for kind, k in (("complements", _TRIED), ("substitutes", _RELATED)):
        found = getattr(view.model, kind)(item, k=k)
        related[kind] = [view._code_of(found.items.tolist()), found.strength.tolist()]
    return related


def _groups(view: ItemsView) -> list[dict[str, Any]]:
    assert view.groups is not None
    groups = []
    for index in range(len(view.groups)):
        question: Question = {"index": index}
        own = view.group(question)
        groups.append({"name": own["name"], "items": [item["code"] for item in own["items"]]})
    return groups


def _packed(numbers: np.ndarray) -> str:
    """Single precision, the least byte first."""
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()
