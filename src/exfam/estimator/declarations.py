"""Parameters of training, and of families, that estimators of several kinds have."""

from dataclasses import dataclass
from typing import Any

from exfam.checks import ExfamError
from exfam.estimator.choices import check_families
from exfam.estimator.rules import (
    Flag,
    Fraction,
    OrNone,
    Positive,
    Rule,
    Rules,
    Text,
    Whole,
)

__all__ = ["ANY_NUMBER", "SEED", "TRAINING", "Families"]

# Numbers that may exceed what there is: all of it then counts.
ANY_NUMBER = Whole(most=2**53)
# Seeds are also added to, one for each member of an ensemble.
SEED = Whole(least=0, most=2**63 - 1)


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


TRAINING: Rules = {
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
