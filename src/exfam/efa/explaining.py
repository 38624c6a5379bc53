"""Estimators of groups that say why: by attention weights, and by contributions to a base."""

from abc import ABC
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import ExfamError, regular_array, shown
from exfam.efa.contributions import Contributions, explain_next
from exfam.efa.explain import Explanation, explain_groups, group_attention
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.inputs import Inputs
from exfam.efa.value_explanations import ValueExplanation, explain_values
from exfam.groups import TARGET
from exfam.positions import PositionAttention


class ExplainingEstimator(GroupEstimator, ABC):
    """Estimators whose predictions can be explained."""

    def explain(self, X: Any) -> list[Explanation]:
        """Attention weights of each group of `X`, by layer and head, named by element.

        And of a model with a base, what each item of the context adds to the scores of the others,
        and what predictions of values are made of. Weights and scores of items are those of the
        first member of an ensemble: averaging heads of different networks means nothing.
        """
        groups = self._inputs(X).groups
        explained = explain_groups(self.members_, groups, self._vocabulary)
        return [explanation.like(X) for explanation in explained]

    def explain_item(self, X: Any, item: Any = None) -> Contributions:
        """Which items of each group raised or lowered a further item, by the base, exactly.

        `item`: its label, or one label for each group; what `recommend` puts first unless given

        The further item comes next, or anywhere in a set. `probability` is what the model predicts
        of it, and of what it is mixed; all else is of the first member of an ensemble.
        Raises UnknownItemError for an item not seen in training, ExfamError without a base.
        """
        groups = self._inputs(X).groups
        if item is None:
            item = self.recommend(groups, k=1).items[:, 0]
        fitted = self.members_, self.schema_
        return explain_next(*fitted, groups, self._vocabulary, item=item).like(X)

    def explain_value(
        self, X: Any, rows: Any = None, *, column: str | None = None
    ) -> ValueExplanation:
        """What predictions of values are made of, by the base and attention, exactly.

        That is the overall value, the item, the group's level, each other value of the group, its
        scale, its histogram and attention: see `ValueExplanation`. The parts add up to `predict`
        and to the value's log-probability, of an ensemble too.
        `rows`: numbers of rows, or of own elements of Groups, from 0; all that are predicted
            unless given
        `column`: of the values; None for the one that there is

        Raises ExfamError for rows that are not predicted, and without a base of values.

        >>> from exfam import EFA
        >>> frame = {"user": [1, 1, 2, 2], "movie": list("abab"), "hours": [1.5, 2.1, 2.4, 3.7]}
        >>> columns = {"group": "user", "item": "movie", "value": "hours"}
        >>> model = EFA(**columns, parts="values", attention="none", progress=False).fit(frame)
        >>> why = model.explain_value(frame, rows=[3])
        >>> why.part.tolist()
        ['overall', 'item', 'level', 'certainty', 'scale', 'attention']
        >>> bool(np.isclose(why.to_center.sum(), model.predict(frame)[3]))
        True
        """
        inputs = self._inputs(X)
        chosen, elements = _chosen_rows(inputs, rows)
        why = explain_values(
            self.members_, inputs.groups, self._vocabulary, column=column, elements=elements
        )
        return replace(why, rows=chosen).like(X)

    def position_attention(
        self, X: Any, *, length: int, part: str | None = None, term: str = "both"
    ) -> PositionAttention:
        """Mean attention between the first `length` elements of groups, and how local it is.

        `length`: of groups that are as long at least
        `part`: "items" or "values" of a model that has both, None for the one it has
        `term`: "both", or "contextual" for attention without the encoding

        Of the first member of an ensemble. See `exfam.efa.explain.group_attention`.
        Raises ExfamError for groups that are sets.
        """
        groups = self._inputs(X).groups
        if not groups.ordered:
            raise ExfamError(
                "`order` must be given for attention by position, got none: groups without it are "
                "sets. Name the column to sort by, or pass order='rows'."
            )
        return group_attention(self.members_[0], groups, length=length, part=part, term=term)


def _chosen_rows(
    inputs: Inputs, rows: Any
) -> tuple[Int64[np.ndarray, "chosen"], Int64[np.ndarray, "chosen"]]:
    """Rows of what the user passed, and the numbers of their elements in the flat columns."""
    groups = inputs.groups
    element = inputs.spread(np.arange(groups.n_rows, dtype=np.float64))
    predicted = ~np.isnan(element)
    if groups.role is not None:
        predicted[predicted] = groups.role[element[predicted].astype(np.int64)] == TARGET
    if rows is None:
        chosen = np.flatnonzero(predicted)
        return chosen, element[chosen].astype(np.int64)
    rule = f"`rows` must be different numbers of rows of `X`, 0 .. {inputs.n_rows - 1}, got "
    chosen = np.atleast_1d(regular_array(rows, otherwise=f"{rule}{shown(rows)}."))
    chosen = chosen.astype(np.int64) if not chosen.size else chosen
    is_list = chosen.ndim == 1 and chosen.dtype.kind in "iu"
    if not is_list or len(np.unique(chosen)) < len(chosen) or not _within(chosen, inputs.n_rows):
        raise ExfamError(f"{rule}{shown(rows)}.")
    if not predicted[chosen].all():
        row = int(chosen[~predicted[chosen]][0])
        raise ExfamError(
            f"`rows` must be rows that the model predicts, got {row}, which is context only or was "
            "left out as unknown. Choose rows where `predict` gives a number."
        )
    chosen = chosen.astype(np.int64)
    return chosen, element[chosen].astype(np.int64)


def _within(rows: np.ndarray, n_rows: int) -> bool:
    return not len(rows) or bool(rows.min() >= 0 and rows.max() < n_rows)
