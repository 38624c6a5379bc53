"""What a page needs to answer for the base of an item model: its tables, and what it is."""

import base64
from typing import Any

import numpy as np

from exfam.efa.base.classes import ItemClasses
from exfam.efa.base.linear import LinearItems
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.based import BasedItems
from exfam.efa.networks.new_items import WithNewItems
from exfam.explorer.views.items import ItemsView

# Of a number of single precision.
_BYTES = 4
_TRIED, _RELATED = 30, 8


def item_tables(view: ItemsView) -> dict[str, Any]:
    """Weights between items, popularity, numbers of the link and classes; relations; groups."""
    model: GroupEstimator = view.model
    base = _base_of(model)
    return {
        "start": view.start() | {"n_groups": len(view.groups or ())},
        "names": view.names,
        "weights": _packed(_weights(base)),
        "log_popularity": _packed(_log_popularity(base)),
        "link": "ridge" if isinstance(base, RidgeItems) else "line",
        "smooth": isinstance(base, RidgeItems) or base.smooth,
        "numbers": base.numbers.tolist(),
        "least_size": getattr(base, "least_size", 1.0),
        "classes": _classes(getattr(base, "classes", None)),
        "repeat": _repeat(model),
        "related": [_related(view, code) for code in range(len(view.names))],
        "groups": [] if view.groups is None else groups_of_view(view),
    }


def has_tables(model: GroupEstimator) -> bool:
    """Whether a model is of sets of items alone, with a base whose parts add up."""
    base = _base_of(model)
    is_base = isinstance(base, LinearItems | RidgeItems) and base.direction != "causal"
    adds_items = isinstance(model.members_[0].support, WithNewItems)
    return is_base and not model.schema_.values and not adds_items


def _base_of(model: GroupEstimator) -> Any:
    part = model.members_[0].item_part
    return part.base if isinstance(part, BasedItems) else None


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


def _classes(classes: ItemClasses | None) -> dict[str, Any] | None:
    """Probabilities of items by class, logs of how many groups there are, the weight of lifts."""
    if classes is None:
        return None
    probability, size = classes.probability.flatten(1).cpu(), classes.size.flatten().log().cpu()
    tables = {"probability": _packed(probability.numpy()), "log_size": _packed(size.numpy())}
    return tables | {"weight": classes.weight.tolist()}


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


def groups_of_view(view: ItemsView) -> list[dict[str, Any]]:
    """Names of groups, their items, and the values beside these where there are some."""
    assert view.groups is not None
    own = [view.group({"index": index}) for index in range(len(view.groups))]
    return [{**one, "items": [item["code"] for item in one["items"]]} for one in own]


def _packed(numbers: np.ndarray) -> str:
    """Single precision, the least byte first."""
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()
