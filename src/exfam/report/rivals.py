"""Cheap baselines for a report, fitted on the spot in bounded time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.efa.baselines import Marginal
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.latent_factor import LatentFactor
from exfam.efa.recommenders import LinearRecommender, ease, item_knn
from exfam.groups import Groups
from exfam.report.material import draw_groups
from exfam.report.words import quantity

# Elements times items times epochs that a latent factor fit may take.
_LATENT_FACTOR_WORK = 4e8
_EPOCHS, _FEWEST_EPOCHS, _FEWEST_ELEMENTS = 40, 10, 4_000
_MOST_ITEMS_OF_EASE = 3_000


@dataclass(frozen=True, eq=False)
class Rival:
    """A fitted baseline: an estimator, which has nats, or a ranking of items, which has none."""

    name: str
    fitted: GroupEstimator | LinearRecommender
    note: str = ""


def fit_rivals(model: GroupEstimator, learn: Groups, *, seed: int) -> tuple[list[Rival], list[str]]:
    """Baselines of the model's parts, families, direction and support; and why others lack."""
    learn = same_columns(model, learn)
    fitted, left_out = [], []
    for name, fit in _recipes(model, learn, seed):
        try:
            fitted.append(fit())
        except ExfamError as error:
            left_out.append(f"{name}: {error}")
    return fitted, left_out


def same_columns(model: GroupEstimator, groups: Groups) -> Groups:
    """Groups with the items and values that the model knows, and no attributes."""
    values = {name: groups.values[name] for name in model.schema_.families}
    item = groups.item if model.schema_.n_items is not None else None
    return groups.with_(item=item, values=values, attributes={}, group_attributes={})


def _recipes(
    model: GroupEstimator, learn: Groups, seed: int
) -> Iterator[tuple[str, Callable[[], Rival]]]:
    """Names of the baselines that apply, and how to fit each."""
    items, values = model.members_[0].item_part is not None, bool(model.schema_.families)
    parts = "both" if items and values else "items" if items else "values"
    common: dict[str, Any] = {
        "direction": model.direction,
        "unknown": "unk",
        "family": model.family_,
    }
    support = model.support_ if items else "none"
    fixed = "none" if support == "penalty" else support
    knows_items = learn.item is not None and bool((learn.item[learn.elements()] >= 0).any())
    if knows_items:
        trained = common | {"parts": parts, "support": support, "seed": seed}
        yield "latent factor", lambda: _latent_factor(learn, trained)
    if values:
        yield "levels", lambda: _levels(learn, common | {"seed": seed})
    if values and knows_items:
        by_item = Marginal(**common, parts="values", by_item=True)
        yield "marginal by item", lambda: Rival("marginal by item", by_item.fit(learn))
    plain = Marginal(**common, parts=parts, support=fixed)
    yield "marginal", lambda: Rival("marginal", plain.fit(learn))
    if items and knows_items:
        yield "item-kNN", lambda: Rival("item-kNN", item_knn(learn), "20 neighbors")
        yield "EASE", lambda: _ease(learn)


def _levels(learn: Groups, common: dict[str, Any]) -> Rival:
    levels = LatentFactor(**common, parts="values", dim=0, progress=False)
    return Rival("levels", levels.fit(learn), "of items and groups")


def _ease(learn: Groups) -> Rival:
    if learn.n_items > _MOST_ITEMS_OF_EASE:
        raise ExfamError(
            f"it inverts a table of all items by all items, too large here with {learn.n_items:,} "
            "items."
        )
    return Rival("EASE", ease(learn), "ridge 100")


def _latent_factor(learn: Groups, common: dict[str, Any]) -> Rival:
    """A small model: fewer factors and epochs than the defaults, perhaps fewer groups."""
    items = learn.n_items if common["parts"] != "values" else 32
    most = int(_LATENT_FACTOR_WORK / _FEWEST_EPOCHS / max(items, 1))
    if most < min(_FEWEST_ELEMENTS, learn.n_elements):
        raise ExfamError(f"{items:,} items are too many for a fit within seconds.")
    used = draw_groups(learn, most_elements=most, seed=common["seed"])
    epochs = int(np.clip(_LATENT_FACTOR_WORK / items / used.n_elements, 1, _EPOCHS))
    model = LatentFactor(
        **common, dim=16, max_epochs=epochs, patience=4, learning_rate=2e-2, progress=False
    )
    model.fit(used)
    histories = getattr(model, "histories_", [])  # a base of values has none
    note = ", ".join(["16 factors", *(quantity(len(some), "epoch") for some in histories)])
    if len(used) < len(learn):
        note += f", {len(used):,} of {quantity(len(learn), 'group')}"
    return Rival("latent factor", model, note)
