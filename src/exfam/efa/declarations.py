"""Parameters that estimators of groups share."""

from typing import Any, NoReturn

from exfam.checks import ExfamError
from exfam.estimator.base import Declared, parameter
from exfam.estimator.file_parameters import DatedFiles
from exfam.estimator.precision import RoundedProducts
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    Choice,
    ColumnName,
    ColumnNames,
    Families,
    Flag,
    Fraction,
    OrNone,
    Positive,
    Text,
    Whole,
)
from exfam.likelihoods.two_part import DIRECTIONS

PARTS = ("auto", "both", "items", "values")
SUPPORT_CHOICES = ("auto", "hard", "none", "penalty")


class GroupColumnNames(DatedFiles, section="Columns of a frame (not needed for `Groups`)"):
    """Columns of a frame of groups."""

    group: str | None = parameter(
        OrNone(ColumnName()), "the column of groups, such as users or baskets", default=None
    )
    order: Any = parameter(
        OrNone(ColumnNames()),
        'column(s) to sort each group by, or "rows" if rows, or elements of Groups, come in '
        "an order that means something; without, groups are sets",
        default=None,
    )
    item: str | None = parameter(OrNone(ColumnName()), "the column of items", default=None)
    value: Any = parameter(
        OrNone(ColumnNames()), "the column, or list of columns, of values", default=None
    )


class AttributeColumns(Declared, section="Columns of a frame (not needed for `Groups`)"):
    """Further columns of a frame, of elements and of groups."""

    attributes: Any = parameter(
        OrNone(ColumnNames()),
        "columns of elements that enter both parts, categories or numbers",
        default=(),
    )
    group_attributes: Any = parameter(
        OrNone(ColumnNames()),
        "columns that are constant in a group and enter both parts",
        default=(),
    )
    known: Any = parameter(
        OrNone(ColumnNames()),
        "attributes that may be seen of the element whose item is predicted, such as a time "
        "gap; all others (a genre) are hidden there, since they would give the item away",
        default=(),
    )
    position: Any = parameter(
        OrNone(ColumnNames()),
        "column(s) of real positions, such as times; 0, 1, 2 … in an `order` without, or, of "
        'values without items beside a base and encoding="auto", the numbers or times of that '
        "column; () for 0, 1, 2 …",
        default=None,
    )


class GroupModel(Declared, section="Model"):
    """What is modeled, and given what."""

    direction: str = parameter(
        Choice(DIRECTIONS),
        '"bidirectional" (each given all others) or "causal" (given earlier ones)',
        default="bidirectional",
    )
    family: Any = parameter(
        Families(), "a family's name or instance, or a dict by value column", default="gaussian"
    )


class GroupSplit(Declared, section="Training"):
    """What is held out, and what unknown items are."""

    validation_fraction: float = parameter(
        Fraction(), "share of the groups held out to choose the best epoch", default=0.1
    )
    seed: int = parameter(
        SEED,
        "of the split, the initial weights and the batches; same seed and data, same bits. "
        "Groups are numbered as they first appear: another order of the rows is another split",
        default=0,
    )
    unknown: str = parameter(
        Choice(("error", "ignore", "unk")),
        'items never seen in training: "unk" (keep them in the context as unknown, with a '
        'warning that counts them), "ignore" (leave such elements out) or "error"',
        default="unk",
    )


class PartsModel(Declared, section="Model"):
    """Items, values or both."""

    parts: str = parameter(
        Choice(PARTS), '"items", "values", "both", or "auto": what the data have', default="auto"
    )
    support: str = parameter(
        Choice(SUPPORT_CHOICES),
        'whether items of the context may occur again: "none" (they may), "hard" (never), '
        '"penalty" (learned), "auto": hard if no group of the data repeats an item',
        default="auto",
    )
    dispersion: str = parameter(
        Choice(("global", "item")),
        'scales and the like "global" or of each "item"',
        default="global",
    )


class GroupTraining(RoundedProducts, section="Training"):
    """Training by AdamW."""

    learning_rate: float = parameter(Positive(), "largest step size of AdamW", default=0.005)
    weight_decay: float = parameter(Positive(zero=True), "decoupled weight decay", default=0.1)
    batch_size: int = parameter(ANY_NUMBER, "groups in a step; more for large data", default=32)
    batch_tokens: int | None = parameter(
        OrNone(ANY_NUMBER),
        "padded elements in a step at most, in place of `batch_size`: groups of like length "
        "share a step, so that little of it is padding",
        default=None,
    )
    n_sampled_items: int = parameter(
        Whole(least=0, most=2**53),
        "items that a training step sums over in place of the whole catalog, drawn anew and "
        "the more often the more frequent they are; 0 sums over all. Validation and scores "
        "are exact always",
        default=0,
    )
    max_epochs: int = parameter(ANY_NUMBER, "passes over the training groups at most", default=60)
    patience: int = parameter(
        ANY_NUMBER, "epochs without improvement on validation before stopping", default=10
    )
    warmup: float = parameter(
        Fraction(), "share of the steps in which the step size grows", default=0.05
    )
    clip: float = parameter(OrNone(Positive()), "largest norm of a gradient", default=1.0)
    ensemble: int = parameter(
        Whole(),
        "models whose initial weights and batches have the seeds `seed`, `seed` + 1 …, and "
        "whose probabilities are averaged; all share the validation split of `seed`",
        default=1,
    )
    device: str = parameter(Text(), '"cpu", "cuda", or "auto": CUDA if present', default="auto")
    progress: bool = parameter(Flag(), "whether to show progress in a terminal", default=True)


class UnavailableError(ExfamError, AttributeError):
    """An estimator does not have this; `hasattr` is False, as scikit-learn expects."""


class OnlyIn:
    """Stands for a name that an estimator lacks, and says which estimators have it."""

    def __init__(self, *estimators: str) -> None:
        self.estimators = estimators

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise UnavailableError(
            f"`{self.name}` needs {' or '.join(self.estimators)}, got {owner.__name__}, which has "
            "none."
        )


class LacksAttention:
    """The names that EFA has for what attention and its base say, and simple models have not."""

    explain_value: Any = OnlyIn("EFA")
    item_attributes_: Any = OnlyIn("EFA")
    with_items: Any = OnlyIn("EFA")
    position_attention: Any = OnlyIn("EFA")
    partial_fit: Any = OnlyIn("EFA", "Popularity")


class LacksVectors(LacksAttention):
    """These, and the names of models that are trained in steps and have vectors."""

    transform: Any = OnlyIn("EFA", "LatentFactor")
    fit_transform: Any = OnlyIn("EFA", "LatentFactor")
    history_: Any = OnlyIn("EFA", "LatentFactor")
    histories_: Any = OnlyIn("EFA", "LatentFactor")
    item_vectors_: Any = OnlyIn("EFA", "LatentFactor")
    item_context_vectors_: Any = OnlyIn("EFA", "LatentFactor")
