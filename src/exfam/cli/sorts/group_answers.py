"""What commands answer about groups: predictions, attention, recommendations."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_choice
from exfam.cli.output import beside, names_by_label, stacked
from exfam.cli.sorts.base import Answer
from exfam.cli.sources import file_rows
from exfam.columns.results import arrow_column
from exfam.estimator.gain import gain_sentences
from exfam.groups import Groups

# As many columns as a file of rows can bear.
MOST_CLASSES = 2000
AT_A_TIME = 64


def predict_groups(model: Any, groups: Groups, chosen: Any) -> Answer:
    """Means, intervals, quantiles or probabilities, one row per row of the file."""
    if chosen.of is not None and not chosen.proba:
        raise ExfamError("`--of` must come with --proba, got it alone.")
    rows = file_rows(model, groups, chosen)
    if chosen.proba:
        predicted = _probabilities(model, groups, chosen.of)
    else:
        predicted = _values(model, groups, chosen)
    return beside(rows.columns, {n: rows.spread(column) for n, column in predicted.items()}), []


def _values(model: Any, groups: Groups, chosen: Any) -> dict[str, np.ndarray]:
    predicted = model.predict(groups, interval=chosen.interval, quantiles=chosen.quantiles)
    names = list(model.schema_.families)
    if not names:
        return {f"predicted_{model.item or 'item'}": predicted}
    by_column = predicted if isinstance(predicted, dict) else {names[0]: predicted}
    if chosen.interval is not None:
        suffixes = ["low", "high"]
    elif chosen.quantiles is not None:
        suffixes = [f"q{level:g}" for level in chosen.quantiles]
    else:
        return {f"{name}_mean": values for name, values in by_column.items()}
    return {
        f"{name}_{suffix}": values[:, k]
        for name, values in by_column.items()
        for k, suffix in enumerate(suffixes)
    }


def _probabilities(model: Any, groups: Groups, of: str | None) -> dict[str, np.ndarray]:
    families = model.schema_.families
    of = of or ("item" if model._has_items else next(iter(families)))
    if of == model.item and of not in families:
        of = "item"
    if of == "item" and (model.schema_.n_items or 0) > MOST_CLASSES:
        raise ExfamError(
            f"`--proba` is for {MOST_CLASSES} items at most, got {model.schema_.n_items}. Use "
            "`exfam recommend` for the most probable."
        )
    probability = model.predict_proba(groups, of=of)
    if of == "item":
        name, classes = model.item or "item", model.vocabulary_["item"].tolist()
    else:
        name, classes = of, list(families[of].categories)
    return dict(zip(names_by_label(name, classes), probability.T, strict=True))


def explanation_rows(model: Any, groups: Groups, chosen: Any) -> Answer:
    """Attention weights of chosen groups, one row for each center and context.

    And of a model with a base, what its scores and predicted values are made of; of the next items
    alone with `--next`, of a value column alone, in nats too, with `--of`.
    """
    if chosen.groups is not None:
        groups = groups[_indices(groups, chosen.groups)]
    if chosen.of is not None:
        return _value_parts(model, groups, chosen), []
    if chosen.next:
        because = model.explain_item(groups)
        first, columns = _first_entries(because, chosen.top), because.to_dict()
        return {name: arrow_column(column[first]) for name, column in columns.items()}, []
    # Weights are square in a group's length: a part of the groups at a time.
    explanations = (
        explanation
        for first in range(0, len(groups), AT_A_TIME)
        for explanation in model.explain(groups[first : first + AT_A_TIME])
    )
    pieces = [piece for group in explanations for piece in _tables(group, chosen)]
    # What is empty has columns of no type.
    rows = stacked([piece for piece in pieces if len(piece["weight"])] or pieces[:1])
    return rows, gain_sentences(model)


def _value_parts(model: Any, groups: Groups, chosen: Any) -> dict[str, Any]:
    """What each predicted value of a column is made of, by rows of the file."""
    if chosen.next:
        raise ExfamError(
            f"`--of` must be given without --next, got {chosen.of!r} beside it. It names a column "
            "of values, and --next explains items."
        )
    if model.schema_.families:
        check_choice("--of", chosen.of, model.schema_.families)
    why = model.explain_value(groups, column=chosen.of)
    first, columns = _first_values(why, chosen.top), why.to_dict()
    if groups.source_row is not None:
        columns["row"] = groups.source_row[groups.elements()][columns["row"]]
    return {name: arrow_column(column[first]) for name, column in columns.items()}


def _first_values(why: Any, top: int | None) -> np.ndarray:
    """Indices of all parts of predicted values, but of other values only the `top` first ones."""
    is_value = why.part == "value"
    # Values of an element stand together, the largest first.
    count = np.cumsum(is_value)
    rank = count - (count - is_value)[np.searchsorted(why.element, why.element)]
    return np.flatnonzero(~is_value | (rank <= (len(rank) if top is None else top)))


def _indices(groups: Groups, names: Sequence[str]) -> np.ndarray:
    assert groups.group_names is not None
    index = {str(name): k for k, name in enumerate(groups.group_names.tolist())}
    for name in names:
        if name not in index:
            raise ExfamError(
                f"`--groups` must name groups of the file, got {name!r}. It has "
                f"{', '.join(list(index)[:3])}{' …' if len(index) > 3 else ''}."
            )
    return np.array([index[name] for name in names], dtype=np.int64)


def _tables(explanation: Any, chosen: Any) -> Iterator[dict[str, Any]]:
    """The weights of one group, a table for each part that was fitted, and for each base."""
    for part, weights in explanation.weights.items():
        weights = weights if chosen.per_head else weights.mean((0, 1), keepdims=True)
        layer, head, center, context = np.indices(weights.shape).reshape(4, -1)
        rows = _largest(weights, chosen.top)
        heads = {"layer": layer[rows] + 1, "head": head[rows] + 1} if chosen.per_head else {}
        names = {
            "center": np.array(explanation.centers, dtype=object)[center[rows]],
            "context": np.array(explanation.columns, dtype=object)[context[rows]],
        }
        fixed = {"group": [explanation.group] * len(rows), "part": [part] * len(rows)}
        yield fixed | heads | names | {"weight": weights.ravel()[rows].astype(np.float64)}
    if (base := explanation.contributions) is not None:
        rows = _first_entries(base, chosen.top)
        zeros, table = np.zeros(len(rows), dtype=np.int64), base.to_dict()
        yield {
            "group": table["group"][rows],
            "part": ["base"] * len(rows),
            **({"layer": zeros, "head": zeros} if chosen.per_head else {}),
            "center": table["item"][rows].astype(str),
            "context": table["context"][rows].astype(str),
            "weight": table["contribution"][rows],
        }
    for column, why in explanation.values.items():
        rows = _first_values(why, chosen.top)
        zeros = np.zeros(len(rows), dtype=np.int64)
        yield {
            "group": why.groups[why.element[rows]],
            "part": [f"base of {column}"] * len(rows),
            **({"layer": zeros, "head": zeros} if chosen.per_head else {}),
            "center": why.items[why.element[rows]],
            "context": np.array(why.names, dtype=object)[rows],
            "weight": why.to_center[rows],
        }


def _first_entries(base: Any, top: int | None) -> np.ndarray:
    """Indices of the first entries of each candidate, all if `top` is None."""
    first = np.searchsorted(base.candidate, base.candidate)
    rank = np.arange(len(base.candidate)) - first
    return np.flatnonzero(rank < (len(rank) if top is None else top))


def _largest(weights: np.ndarray, top: int | None) -> np.ndarray:
    """Flat indices of each center's weights, the largest first; those that are 0 are left out."""
    by_size = np.argsort(-weights, axis=-1, kind="stable")[..., :top]
    n_columns = weights.shape[-1]
    first = np.arange(weights.size // n_columns).reshape(*weights.shape[:-1], 1) * n_columns
    indices = (first + by_size).ravel()
    return indices[weights.ravel()[indices] != 0]


def recommend_items(model: Any, groups: Groups, chosen: Any) -> Answer:
    """The most probable further items of each group."""
    if chosen.groups is not None:
        groups = groups[_indices(groups, chosen.groups)]
    columns = model.recommend(groups, k=chosen.k).to_dict()
    return {name: arrow_column(column) for name, column in columns.items()}, []
