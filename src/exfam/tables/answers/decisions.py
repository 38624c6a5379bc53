"""One value for each predictive law, by a stated rule."""

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamError, check_choice
from exfam.families.mixtures import Mixture
from exfam.tables.data.columns import FINITE, Column

__all__ = ["RULES", "decide", "numeric_labels"]

RULES = ("argmax", "mean", "median")


def decide(law: Mixture, column: Column, *, rule: str) -> Float64[np.ndarray, "rows"]:
    """One value a row of the law of a column: a label's code, or a number in its own unit.

    `rule`: "argmax", the most probable label, the first of equals; "median", the smallest value
        that at least half of the probability does not exceed; "mean", the expected value, of an
        ordinal column rounded to the nearest label (the earlier one halfway) where the labels are
        numbers, and to the nearest place in their order where they are not

    Categorical and boolean columns know "argmax" alone; numbers and counts "mean" and "median".
    The mean of a count is not rounded. Raises ExfamError for another rule.

    >>> import torch
    >>> from exfam.families import Categorical
    >>> law = Mixture(Categorical(3), torch.tensor([[[0.4, 0.25, 0.35]]]).log())
    >>> size = Column("size", "ordinal", labels=np.array([1, 2, 9]))
    >>> [int(decide(law, size, rule=rule)[0]) for rule in RULES]
    [0, 1, 1]
    """
    check_choice("rule", rule, RULES)
    _check_sense(column, rule)
    if rule == "argmax":
        return law.probs().argmax(-1).double().numpy()
    if rule == "median":
        return law.quantile(0.5).double().numpy()
    if column.kind in FINITE:
        return _nearest_label(law, column)
    return law.mean().double().numpy()


def numeric_labels(column: Column) -> Float64[np.ndarray, "labels"]:
    """The labels of a finite column as numbers; their places where they are none.

    >>> numeric_labels(Column("size", "ordinal", labels=np.array(["S", "M", "L"], dtype=object)))
    array([0., 1., 2.])
    """
    assert column.labels is not None
    if column.labels.dtype.kind in "iuf":
        return column.labels.astype(np.float64)
    return np.arange(len(column.labels), dtype=np.float64)


def _check_sense(column: Column, rule: str) -> None:
    if column.kind in ("categorical", "boolean") and rule != "argmax":
        raise ExfamError(
            f"`rule` must be 'argmax' for the {column.kind} column {column.name!r}, whose labels "
            f"have no order, got {rule!r}. Declare the column ordinal if they have one."
        )
    if column.kind not in FINITE and rule == "argmax":
        raise ExfamError(
            f"`rule` must be 'mean' or 'median' for the {column.kind} column {column.name!r}, "
            "got 'argmax'."
        )


def _nearest_label(law: Mixture, column: Column) -> Float64[np.ndarray, "rows"]:
    labels = numeric_labels(column)
    expected = law.probs().double().numpy() @ labels
    # Labels may be declared in falling order, so no search in a sorted list would do.
    return np.abs(labels - expected[:, None]).argmin(axis=1).astype(np.float64)
