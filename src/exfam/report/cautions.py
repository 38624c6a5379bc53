"""What a reader should be careful about, one sentence each; nothing where all is well."""

import torch
from jaxtyping import Float

from exfam.estimator.seen import Overlap
from exfam.families.mixtures import Mixture
from exfam.report.words import percent, quantity
from exfam.scores.calibration import interval_coverage

# Below so many, errors of means say little.
FEW = 30
# Shares of intervals that are off by less are no matter.
_OFF = 0.02
_LEVEL = 0.9
_MANY_MISSING = 0.2


def of_intervals(what: str, mixture: Mixture, value: Float[torch.Tensor, "rows"]) -> str:
    """Whether central intervals hold as many values as they should; `what`: the values' name."""
    if not len(value):
        return ""
    (coverage,) = interval_coverage(mixture, value, levels=[_LEVEL])
    off = coverage.observed - _LEVEL
    if abs(off) <= max(_OFF, 1.96 * coverage.spread):
        return ""
    shown = "too narrow" if off < 0 else "too wide"
    return (
        f"Predicted intervals of {what} are {shown}: those of {percent(_LEVEL, 0)} hold "
        f"{percent(coverage.observed, 0)} of the values."
    )


def of_few(number: int, one: str) -> str:
    """Whether there is too little data to rely on."""
    if number >= FEW:
        return ""
    return (
        f"All scores are of {quantity(number, one)} alone: they may be quite different on others."
    )


def of_seen(overlap: Overlap | None, what: str) -> str:
    """Whether the data were part of the fit; `what`: "groups", say."""
    if overlap is None or overlap.is_chance or not (words := overlap.words(what)):
        return ""
    return f"{words}: scores of these say how well the model remembers, not how well it predicts."


def of_missing(share: float, what: str) -> str:
    """Whether much is missing; `what`: "values", say."""
    if share < _MANY_MISSING:
        return ""
    return f"{percent(share, 0)} of {what} are missing."
