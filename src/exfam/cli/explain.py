"""`exfam explain`."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_positive
from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import column, flag, labels, whole
from exfam.cli.options import Form, Option

__all__ = ["form", "run"]

AT_A_TIME = 64

_NOTES = """A row for each observation as center and each of its context that attention looked at:
its weight is the mean over layers and heads, or that of one with --per-head.
"(nothing)" is the learned key that stands for none of the context.

Of a model of a table: a row for each row of the file and each cell of it that is there, with
its weight, and what it adds to each logit of the response (of numbers, to the parameters of
the law); the sums over all cells are the logits, exactly. At "(nothing)" stands what is said of
a row of which nothing is known."""


def form(words: Sequence[str]) -> Form:
    """What `exfam explain` can be asked."""
    return Form(
        "explain",
        "Which of its context counted for an observation, by attention weights",
        [
            *DATA,
            Option(
                "groups", labels,
                "the groups to explain: --groups anna --groups bert (default: all)",
                metavar="LABEL", many=True,
            ),
            Option(
                "rows", labels, "of a table: the rows to explain, from 0: --rows 0 --rows 7 "
                "(default: all)",
                metavar="N", many=True,
            ),
            Option(
                "of", column, "of a table: the column to explain (default: the response)",
                metavar="COLUMN",
            ),
            Option(
                "top", whole, "contexts of largest weight for each center (default: all)",
                metavar="N",
            ),
            Option(
                "per_head", flag, "weights of each layer and head (default no)",
                default=False, metavar="BOOL",
            ),
            *OUTPUT,
        ],
        example="exfam explain model ratings.csv --groups anna --top 3",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print group, center, context and weight; of a table row, column, weight and what it adds."""
    from exfam.cli.output import deliver, destination
    from exfam.cli.sources import open_both, stacked, tell
    from exfam.cli.tables import is_table, table_experts

    to = destination(chosen.format, chosen.output)
    if chosen.top is not None:
        check_positive("--top", chosen.top)
    model, groups, met = open_both(
        chosen, fields="Use FieldEFA.explain and exfam.plots.site_attention_map in Python."
    )
    _check(model, chosen, is_table=is_table(model))
    if is_table(model):
        parts = stacked(table_experts(model, groups, chosen))
        tell(met if model.ensemble == 1 else f"{met}; the first of {model.ensemble} networks")
        deliver(parts, to)
        return
    asked = groups if chosen.groups is None else groups[_places(groups, chosen.groups)]
    weights = stacked(_weights(model, asked, chosen))
    tell(met)
    deliver(weights, to)


def _check(model: Any, chosen: Any, *, is_table: bool) -> None:
    """Raise ExfamError for options of the other sort of models."""
    name = type(model).__name__
    for option in ("groups",) if is_table else ("rows", "of"):
        if getattr(chosen, option) is not None:
            sort, advice = ("groups", " Use --rows.") if is_table else ("tables", "")
            raise ExfamError(
                f"`--{option}` must be asked of a model of {sort}, got {name}.{advice}"
            )


def _weights(model: Any, groups: Any, chosen: Any) -> Iterator[dict[str, Any]]:
    # Weights are square in a group's length: a part of the groups at a time.
    for first in range(0, len(groups), AT_A_TIME):
        for explanation in model.explain(groups[first : first + AT_A_TIME]):
            yield from _tables(explanation, per_head=chosen.per_head, top=chosen.top)


def _places(groups: Any, names: Sequence[str]) -> np.ndarray:
    known = {str(name): place for place, name in enumerate(groups.group_names.tolist())}
    for name in names:
        if name not in known:
            raise ExfamError(
                f"`--groups` must name groups of the file, got {name!r}. It has "
                f"{', '.join(list(known)[:3])}{' …' if len(known) > 3 else ''}."
            )
    return np.array([known[name] for name in names], dtype=np.int64)


def _tables(explanation: Any, *, per_head: bool, top: int | None) -> Iterator[dict[str, Any]]:
    """The weights of one group, a table for each part that was fitted."""
    for part, weights in explanation.weights.items():
        told = weights if per_head else weights.mean((0, 1), keepdims=True)
        layer, head, center, context = np.indices(told.shape).reshape(4, -1)
        rows = _kept(told, top)
        told = told.ravel()[rows]
        heads = {"layer": layer[rows] + 1, "head": head[rows] + 1} if per_head else {}
        names = {
            "center": np.array(explanation.centers, dtype=object)[center[rows]],
            "context": np.array(explanation.columns, dtype=object)[context[rows]],
        }
        fixed = {"group": [explanation.group] * len(rows), "part": [part] * len(rows)}
        yield fixed | heads | names | {"weight": told.astype(np.float64)}


def _kept(weights: np.ndarray, top: int | None) -> np.ndarray:
    """Places of each center's weights, the largest first; those that are 0 are left out."""
    by_size = np.argsort(-weights, axis=-1, kind="stable")[..., :top]
    n_columns = weights.shape[-1]
    first = np.arange(weights.size // n_columns).reshape(*weights.shape[:-1], 1) * n_columns
    places = (first + by_size).ravel()
    return places[weights.ravel()[places] != 0]
