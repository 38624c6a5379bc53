"""Parameters of training, and of families, that estimators of several kinds have."""

from dataclasses import dataclass
from typing import Any

from exfam.checks import ExfamError
from exfam.estimator.choices import check_families
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    Flag,
    Fraction,
    OrNone,
    Positive,
    Rule,
    Text,
    Whole,
)

__all__ = ["TRAINING", "Families"]


@dataclass(frozen=True)
class Families(Rule):
    """A family, the name of one, or a mapping of columns to such."""

    @property
    def words(self) -> str:
        """What it is."""
        return "a family, the name of one, or a mapping of columns to these"

    def allows(self, value: Any) -> bool:
        """Whether `check` raises nothing."""
        try:
            check_families(value)
        except ExfamError:
            return False
        return True

    def check(self, name: str, value: Any) -> None:
        """As of all rules."""
        check_families(value)


TRAINING: dict[str, Rule] = {
    "learning_rate": Positive(),
    "weight_decay": Positive(zero=True),
    "batch_size": ANY_NUMBER,
    "max_epochs": ANY_NUMBER,
    "patience": ANY_NUMBER,
    "warmup": Fraction(),
    "clip": OrNone(Positive()),
    "validation_fraction": Fraction(),
    "ensemble": Whole(),
    "seed": SEED,
    "device": Text(),
    "progress": Flag(),
}
