"""All heads: the working scale, the counts of values, the fit and the predictions of every kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError, check_choice
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.class_tables import ClassTable, class_table
from exfam.efa.values.count_tables import CountTable, atom_probabilities, count_table
from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_beta import BetaHead, BetaPrediction, fit_beta_head, predict_beta
from exfam.efa.values.head_classes import (
    ClassHead,
    ClassPrediction,
    fit_class_head,
    predict_classes,
)
from exfam.efa.values.head_counts import (
    CountHead,
    CountPrediction,
    fit_count_head,
    predict_counts,
)
from exfam.efa.values.head_family import (
    FamilyHead,
    FamilyPrediction,
    fit_family_head,
    predict_family,
)
from exfam.efa.values.head_real import RealHead, RealPrediction, fit_real_head, predict_real
from exfam.efa.values.working_scale import WorkingScale, working_scale
from exfam.families import Binomial, Family, Gamma, NegativeBinomial, Poisson

Head = RealHead | ClassHead | CountHead | FamilyHead | BetaHead
Prediction = RealPrediction | ClassPrediction | CountPrediction | FamilyPrediction | BetaPrediction
Table = ClassTable | CountTable | None

# The transform of the working scale by the kind of head.
TRANSFORM = {
    "real": "identity",
    "gaussian": "identity",
    "log-student": "log",
    "log-normal": "log",
    "gamma": "log",
    "counts": "log",
    "poisson": "log",
    "negative-binomial": "log",
    "classes": "identity",
    "bernoulli": "identity",
    "binomial": "identity",
    "beta": "logit",
}
HEADS = tuple(TRANSFORM)
_WHOLE = {"counts", "poisson", "negative-binomial", "binomial"}
_FAMILIES: dict[str, Callable[..., Family]] = {
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "gamma": Gamma,
    "binomial": Binomial,
}


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """A kind of head, one of `HEADS`, and what its values may be.

    `classes` are the first class and how many there are, `trials` those of a binomial count,
    `start` the least count; where it is None it is 1 if training counts are all above 0, and 0
    otherwise.
    """

    kind: str = "real"
    classes: tuple[float, int] = (0.0, 2)
    trials: int = 1
    start: float | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, HEADS)

    @property
    def has_classes(self) -> bool:
        return self.kind in {"classes", "bernoulli"}

    def settled(self, value: Float64[np.ndarray, "cells"]) -> "HeadOptions":
        """With what training values decide, all of which it can predict.

        Raises DataError if they are not all in the head's support.
        """
        own = replace(self, classes=(0.0, 2)) if self.kind == "bernoulli" else self
        if self.kind in _WHOLE and self.start is None:
            above = len(value) > 0 and value.min() >= 1 and self.kind == "counts"
            own = replace(own, start=1.0 if above else 0.0)
        wrong = np.flatnonzero(~own.supports(value))
        if len(wrong):
            raise DataError(
                f"`value` must be {own.support} for the head {self.kind!r}, got "
                f"{value[wrong[0]]:g} ({len(wrong)} of {len(value)} values). Choose another head."
            )
        return own

    @property
    def support(self) -> str:
        if self.has_classes:
            start, n_classes = self.classes
            return f"a whole number from {start:g} to {start + n_classes - 1:g}"
        if self.kind == "binomial":
            return f"a whole number from 0 to {self.trials}"
        if self.kind in _WHOLE:
            return f"a whole number from {self.start or 0:g} on"
        transform = TRANSFORM[self.kind]
        return {"identity": "a number", "log": "a number > 0", "logit": "between 0 and 1"}[
            transform
        ]

    def supports(self, value: Float64[np.ndarray, "cells"]) -> np.ndarray:
        """Whether values can be predicted."""
        if self.has_classes:
            low, high = self.classes[0], self.classes[0] + self.classes[1] - 1
            return (value >= low) & (value <= high) & (value - low == np.floor(value - low))
        if self.kind in _WHOLE:
            most = self.trials if self.kind == "binomial" else np.inf
            low = self.start or 0.0
            return (value >= low) & (value <= most) & (value == np.floor(value))
        if TRANSFORM[self.kind] == "identity":
            return np.isfinite(value)
        most = np.inf if TRANSFORM[self.kind] == "log" else 1.0
        return (value > 0) & (value < most)


def scale_of(options: HeadOptions, value: Float64[np.ndarray, "cells"]) -> WorkingScale:
    """The working scale of training values: counts with zeros are moved by a half."""
    counts = options.kind in _WHOLE - {"binomial"}
    shift = 0.5 if counts and not options.start else 0.0
    return working_scale(value, transform=TRANSFORM[options.kind], shift=shift)


def table_of(options: HeadOptions, cells: ValueCells, n_items: int) -> Table:
    """How often values occur, where the head counts them."""
    if options.has_classes:
        start, n_classes = options.classes
        return class_table(cells.with_value(cells.value - start), n_items, n_classes)
    return count_table(cells, n_items) if options.kind == "counts" else None


def with_counts(
    features: ValueFeatures, table: Table, cells: ValueCells, options: HeadOptions, *, causal: bool
) -> ValueFeatures:
    """The features with those that come from counted values."""
    if isinstance(table, ClassTable):
        own = cells.with_value(cells.value - options.classes[0])
        return table.add_features(features, own, causal=causal)
    if isinstance(table, CountTable):
        n = features.n_context
        atoms = atom_probabilities(table, cells, cells.value, n, causal=causal)
        return replace(features, atoms=atoms)
    return features


def fit_head(
    options: HeadOptions,
    features: ValueFeatures,
    value: Float64[np.ndarray, "cells"],
    working: WorkingScale,
    table: Table,
) -> Head:
    """Fitted to values of cells whose features are cross-fitted."""
    kind = options.kind
    if isinstance(table, ClassTable):
        classes = (value - options.classes[0]).astype(np.int64)
        return fit_class_head(features, classes, table.margin)
    if kind == "counts":
        return fit_count_head(features, value, working, options.start or 0.0)
    if kind == "beta":
        return fit_beta_head(features, value, working)
    if kind in _FAMILIES:
        family = _FAMILIES[kind](options.trials) if kind == "binomial" else _FAMILIES[kind]()
        return fit_family_head(features, value, working, family)
    gaussian = kind in {"gaussian", "log-normal"}
    return fit_real_head(features, working.standardize(value), gaussian=gaussian)


def predict_head(
    head: Head,
    options: HeadOptions,
    features: ValueFeatures,
    working: WorkingScale,
    table: Table,
    cells: ValueCells,
    *,
    causal: bool,
) -> Prediction:
    """Distributions of all cells."""
    if isinstance(head, ClassHead):
        return predict_classes(head, features, start=options.classes[0])
    if isinstance(head, CountHead):
        assert isinstance(table, CountTable)
        return predict_counts(head, features, working, table, cells, causal=causal)
    if isinstance(head, BetaHead):
        return predict_beta(head, features, working)
    if isinstance(head, FamilyHead):
        return predict_family(head, features, working)
    return predict_real(head, features, working)
