"""Contexts that are put together by hand, as groups that a model takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exfam.checks import ExfamError, shown
from exfam.efa.recommend import groups_of_items
from exfam.estimator.schema import check_in_support
from exfam.explorer.questions import Question, codes_of
from exfam.groups import Groups


@dataclass(frozen=True)
class Context:
    """Codes of items in their order, and a value beside each; None where none is known."""

    items: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()

    def with_item(self, code: int) -> "Context":
        """One item more, without a value."""
        return Context((*self.items, code), (*self.values, None))

    def without_order(self) -> "Context":
        """The same for every order of a set."""
        pairs = sorted(
            zip(self.items, self.values, strict=True),
            key=lambda pair: (pair[0], pair[1] is not None, pair[1] or 0.0),
        )
        return Context(tuple(item for item, _ in pairs), tuple(value for _, value in pairs))


def context_of(question: Question, model: Any, *, name: str = "items") -> Context:
    """The field of a question with codes of items, and that with their values, if there are any.

    `values`, or `before_values` of `before`, are as many numbers or None. Raises ExfamError for
    others.
    """
    items = codes_of(question, name, n=int(model.schema_.n_items or 0))
    field = "values" if name == "items" else f"{name}_values"
    values = question.get(field) or [None] * len(items)
    if not isinstance(values, list) or len(values) != len(items) or not all(map(_may_be, values)):
        raise ExfamError(
            f"`{field}` must be a list of {len(items)} numbers or None, got {shown(values)}."
        )
    if any(value is not None for value in values) and value_column(model) is None:
        raise ExfamError(
            f"`{field}` must be left out for a model without one column of values, got "
            f"{shown(values)}."
        )
    return Context(tuple(items), tuple(None if x is None else float(x) for x in values))


def _may_be(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(value))


def value_column(model: Any) -> str | None:
    """The column of the values beside items, where a model has one and no more."""
    columns = list(model.schema_.families)
    return columns[0] if len(columns) == 1 else None


def groups_of_contexts(model: Any, contexts: Sequence[Context]) -> Groups:
    """A group for each context. Raises SupportError for a value that the family does not have."""
    lengths = np.array([len(context.items) for context in contexts], dtype=np.int64)
    item = np.array([code for context in contexts for code in context.items], dtype=np.int64)
    groups = groups_of_items(model.schema_, item, lengths).with_(
        vocabulary={"item": model.vocabulary_["item"]},
        ordered=model.direction == "causal" or model._has_positions,
    )
    values = [value for context in contexts for value in context.values]
    if not any(value is not None for value in values):
        return groups
    number = np.array([np.nan if value is None else value for value in values])
    there = ~np.isnan(number)
    column = value_column(model)
    assert column is not None
    groups = groups.with_(values={column: np.where(there, number, 0.0)}, observed=there)
    check_in_support(groups, model.schema_.families)
    return groups
