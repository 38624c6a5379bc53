"""One value for each predictive distribution, by a stated rule."""

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamError, check_choice
from exfam.families.mixtures import Mixture
from exfam.tables.data import LABEL_KINDS, Column

DECISIONS = ("argmax", "mean", "median")
_OF_LABELS = {"categorical": "argmax", "boolean": "argmax", "ordinal": "median"}


def usual_rule(column: Column, *, numbers: str = "mean") -> str:
    """The most probable label, of ordered ones the median; `numbers` names that of numbers."""
    return _OF_LABELS.get(column.kind, numbers)


def decide(distribution: Mixture, column: Column, *, rule: str) -> Float64[np.ndarray, "rows"]:
    """One value per row of a column: a label's code, or a number in its own unit.

    `rule`: "argmax", the most probable label, the first of equals; "median", the smallest value
        that at least half of the probability does not exceed; "mean", the expected value, of an
        ordinal column rounded to the nearest label (the earlier one halfway) where the labels are
        numbers, and to the nearest index in their order where they are not

    Categorical and boolean columns know "argmax" alone; numbers and counts "mean" and "median".
    The mean of a count is not rounded. Raises ExfamError for another rule.
    """
    check_choice("rule", rule, DECISIONS)
    _check_sense(column, rule)
    if rule == "argmax":
        return distribution.probs().argmax(-1).double().numpy()
    if rule == "median":
        return distribution.quantile(0.5).double().numpy()
    if column.kind in LABEL_KINDS:
        return _nearest_label(distribution, column)
    return distribution.mean().double().numpy()


def _check_sense(column: Column, rule: str) -> None:
    if column.kind in ("categorical", "boolean") and rule != "argmax":
        raise ExfamError(
            f"`rule` must be 'argmax' for the {column.kind} column {column.name!r}, whose labels "
            f"have no order, got {rule!r}. Declare the column ordinal if they have one."
        )
    if column.kind not in LABEL_KINDS and rule == "argmax":
        raise ExfamError(
            f"`rule` must be 'mean' or 'median' for the {column.kind} column {column.name!r}, "
            "got 'argmax'."
        )


def _nearest_label(distribution: Mixture, column: Column) -> Float64[np.ndarray, "rows"]:
    assert column.labels is not None
    numbers = column.labels.dtype.kind in "iuf"
    labels = column.labels.astype(np.float64) if numbers else np.arange(float(len(column.labels)))
    expected = distribution.probs().double().numpy() @ labels
    # Labels may be declared in falling order, so no search in a sorted list would do.
    return np.abs(labels - expected[:, None]).argmin(axis=1).astype(np.float64)
