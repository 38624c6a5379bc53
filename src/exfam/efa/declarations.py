"""Parameters that estimators of groups share."""

from typing import Any, NoReturn

from exfam.checks import ExfamError
from exfam.estimator.choices import Families
from exfam.estimator.declared import Declared, parameter
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    Choice,
    ColumnName,
    ColumnNames,
    Flag,
    Fraction,
    OrNone,
    Positive,
    Text,
    Whole,
)
from exfam.likelihoods.support import DIRECTIONS

__all__ = [
    "PARTS",
    "SUPPORT_CHOICES",
    "AttributeColumns",
    "GroupColumnNames",
    "GroupModel",
    "GroupSplit",
    "GroupTraining",
    "OnlyIn",
    "PartsModel",
    "UnavailableError",
]


PARTS = ("auto", "both", "items", "values")
SUPPORT_CHOICES = ("auto", "hard", "none", "penalty")


class GroupColumnNames(Declared, section="Columns of a frame (not needed for `Groups`)"):
    """Columns of a frame of groups."""

    group: str | None = parameter(
        None, OrNone(ColumnName()), "the column of groups, such as users or baskets"
    )
    order: Any = parameter(
        None,
        OrNone(ColumnNames()),
        'column(s) to sort each group by, or "rows" if rows, or elements of Groups, come in '
        "an order that means something; without, groups are sets",
    )
    item: str | None = parameter(None, OrNone(ColumnName()), "the column of items")
    value: Any = parameter(None, OrNone(ColumnNames()), "the column, or list of columns, of values")
    date_format: str | None = parameter(
        None,
        OrNone(Text()),
        'how text of `order` and `position` writes dates, such as "%d/%m/%Y"; None for ISO dates '
        "or the one format that all of a column fits",
    )


class AttributeColumns(Declared, section="Columns of a frame (not needed for `Groups`)"):
    """Further columns of a frame, of elements and of groups."""

    attributes: Any = parameter(
        (),
        OrNone(ColumnNames()),
        "columns of elements that enter both parts, categories or numbers",
    )
    group_attributes: Any = parameter(
        (), OrNone(ColumnNames()), "columns that are constant in a group and enter both parts"
    )
    known: Any = parameter(
        (),
        OrNone(ColumnNames()),
        "attributes that may be seen of the element whose item is predicted, such as a time "
        "gap; all others (a genre) are hidden there, since they would give the item away",
    )
    position: Any = parameter(
        None,
        OrNone(ColumnNames()),
        "column(s) of real positions, such as times; 0, 1, 2 … in an `order` without",
    )


class GroupModel(Declared, section="Model"):
    """What is modeled, and given what."""

    direction: str = parameter(
        "bidirectional",
        Choice(DIRECTIONS),
        '"bidirectional" (each given all others) or "causal" (given earlier ones)',
    )
    family: Any = parameter(
        "gaussian", Families(), "a family's name or instance, or a dict by value column"
    )


class GroupSplit(Declared, section="Training"):
    """What is held out, and what unknown items are."""

    validation_fraction: float = parameter(
        0.1, Fraction(), "share of the groups held out to choose the best epoch"
    )
    seed: int = parameter(
        0,
        SEED,
        "of the split, the initial weights and the batches; same seed and data, same bits. "
        "Groups are numbered as they first appear: another order of the rows is another split",
    )
    unknown: str = parameter(
        "unk",
        Choice(("error", "ignore", "unk")),
        'items never seen in training: "unk" (keep them in the context as unknown, with a '
        'warning that counts them), "ignore" (leave such elements out) or "error"',
    )


class PartsModel(Declared, section="Model"):
    """Items, values or both."""

    parts: str = parameter(
        "auto", Choice(PARTS), '"items", "values", "both", or "auto": what the data have'
    )
    support: str = parameter(
        "auto",
        Choice(SUPPORT_CHOICES),
        'whether items of the context may occur again: "none" (they may), "hard" (never), '
        '"penalty" (learned), "auto": hard if no group of the data repeats an item',
    )
    dispersion: str = parameter(
        "global", Choice(("global", "item")), 'scales and the like "global" or of each "item"'
    )


class GroupTraining(Declared, section="Training"):
    """Training by AdamW."""

    learning_rate: float = parameter(0.005, Positive(), "largest step size of AdamW")
    weight_decay: float = parameter(0.1, Positive(zero=True), "decoupled weight decay")
    batch_size: int = parameter(32, ANY_NUMBER, "groups in a step; more for large data")
    batch_tokens: int | None = parameter(
        None,
        OrNone(ANY_NUMBER),
        "padded elements in a step at most, in place of `batch_size`: groups of like length "
        "share a step, so that little of it is padding",
    )
    n_sampled_items: int = parameter(
        0,
        Whole(least=0, most=2**53),
        "items that a training step sums over in place of the whole catalog, drawn anew and "
        "the more often the more frequent they are; 0 sums over all. Validation and scores "
        "are exact always",
    )
    max_epochs: int = parameter(60, ANY_NUMBER, "passes over the training groups at most")
    patience: int = parameter(
        10, ANY_NUMBER, "epochs without improvement on validation before stopping"
    )
    warmup: float = parameter(0.05, Fraction(), "share of the steps in which the step size grows")
    clip: float = parameter(1.0, OrNone(Positive()), "largest norm of a gradient")
    ensemble: int = parameter(
        1,
        Whole(),
        "models whose initial weights and batches have the seeds `seed`, `seed` + 1 …, and "
        "whose probabilities are averaged; all share the validation split of `seed`",
    )
    device: str = parameter("cpu", Text(), '"cpu", "cuda", or "auto": CUDA if present')
    progress: bool = parameter(True, Flag(), "whether to show progress in a terminal")


class UnavailableError(ExfamError, AttributeError):
    """An estimator does not have this; `hasattr` is False, as scikit-learn expects."""


class OnlyIn:
    """Stands for a name that an estimator lacks, and says which estimators have it.

    >>> class Mean:
    ...     explain = OnlyIn("EFA")
    >>> hasattr(Mean(), "explain")
    False
    """

    def __init__(self, *estimators: str) -> None:
        self.estimators = estimators

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise UnavailableError(
            f"`{self.name}` needs {' or '.join(self.estimators)}, got {owner.__name__}, which has "
            "none."
        )
