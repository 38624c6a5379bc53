"""Parameters that estimators of tables share."""

from typing import Any

from exfam.encodings import ENCODINGS
from exfam.estimator.base import Declared, parameter
from exfam.estimator.file_parameters import FileDialect
from exfam.estimator.precision import RoundedProducts
from exfam.estimator.rules import (
    ANY_NUMBER,
    SEED,
    ByColumn,
    Choice,
    Flag,
    Fraction,
    OrNone,
    OrWord,
    Positive,
    Share,
    Text,
    TextByColumn,
    Whole,
)
from exfam.tables.data import NUMERIC, UNKNOWN
from exfam.tables.networks.assemble import CATEGORIES, NETWORKS
from exfam.tables.networks.masked_table_model import MASKINGS

MISSING_COLUMNS = ("auto", "absent", "error")


class TableColumnKinds(FileDialect, section="Columns of a table"):
    """What columns are, and what may be missing."""

    kinds: Any = parameter(
        OrNone(ByColumn("a kind or to labels in order")),
        'by column, "categorical", "ordinal", "boolean", "numeric", "count" or "date", or the '
        "labels of an ordinal column in order; others are guessed: texts and unordered categories "
        "are categorical, ordered categories ordinal, numbers numeric, whole numbers that are all "
        "0 or 1 labels, dates and texts that all are dates dates, which are inputs alone: the "
        "days that have passed, and where in the year, week and day",
        default=None,
    )
    date_format: Any = parameter(
        OrNone(TextByColumn()),
        'how dates in text are written, such as "%d/%m/%Y", in all columns of dates or by column; '
        "None for ISO dates or the one format that all of a column fits",
        default=None,
    )
    numeric: str = parameter(
        Choice(NUMERIC),
        'of the attention network, "continuous": numbers lie between up to `n_bins` quantiles and '
        'are Gaussian, or are "binned" at them',
        default="continuous",
    )
    n_bins: int | str = parameter(
        OrWord("auto", Whole(least=2)),
        'bins, or quantiles; "auto": a bin for 16 rows, 8 to 32; of quantiles a sixth of the root '
        "of the number of rows, 4 to 16",
        default="auto",
    )
    families: Any = parameter(
        OrNone(ByColumn("a family")),
        "by column of continuous numbers or counts, its family in the attention network, or the "
        "name of one; others are Gaussian, counts negative binomial",
        default=None,
    )
    unknown: str = parameter(
        Choice(UNKNOWN),
        'what a label is that training did not have: "unk", like a missing cell, with a warning '
        'that counts them, or an "error"',
        default="unk",
    )
    missing_columns: str = parameter(
        Choice(MISSING_COLUMNS),
        'what columns are that a table lacks after training: an "error", "absent", or "auto": '
        "absent, with a warning, of a model with a base, absent if several tables were fitted, "
        "else an error",
        default="auto",
    )


class TableBaseParameters(Declared, section="Model"):
    """What a column is predicted by."""

    base: str = parameter(
        Choice(("auto", "none")),
        '"auto": penalised linear predictors of all other cells, of which any may be missing, a '
        "network that corrects them from zero, and boosted trees, pooled as held-out rows say; "
        '"none": the attention network of the paper, which is what there is with `families`, '
        'numeric="binned" or a response of another family than Student\'s t as well',
        default="auto",
    )
    fast: bool = parameter(
        Flag(), "leaves out the network of the base: linear predictors and trees", default=False
    )
    in_order: bool = parameter(
        Flag(),
        "whether rows are in the order of time, and those to predict later: whole stretches of "
        "them are then held out, so that the base is as sure of itself as later rows allow. Of "
        "rows with dates those later than all of training are known, and predicted so",
        default=False,
    )


class TableModelParameters(Declared, section='Model: the attention network, with base="none"'):
    """The network, and what it hides in training."""

    network: str = parameter(
        Choice(NETWORKS),
        '"linear", one attention layer without layer norm, ReLU and dropout, which is an exact '
        'mixture of experts, or "deep"',
        default="linear",
    )
    encoding: str = parameter(
        Choice(tuple(ENCODINGS)),
        'how columns are encoded, a name of `exfam.encodings.ENCODINGS`: "learned" gives each '
        "column a vector of its own, most others know the columns' order alone",
        default="learned",
    )
    categories: str = parameter(
        Choice(CATEGORIES),
        '"per-column", or "shared": one space of categories for all columns, which must have '
        "equally many labels, as in the paper",
        default="per-column",
    )
    ordinal: bool | str = parameter(
        OrWord("auto", Flag()),
        "whether ordered columns have a direction along which their labels lie beside free "
        'vectors, True, False, or "auto": as validation says',
        default="auto",
    )
    extra_masking: float | str = parameter(
        OrWord("auto", Share()),
        "in [0, 1], the largest share of the cells of a training row that are hidden besides the "
        'target, or "auto": as validation says; more predicts better where cells are missing',
        default=1.0,
    )
    masked_as: str = parameter(
        Choice(tuple(MASKINGS)),
        'how these cells are shown: "absent", not at all, or as a "mask" token',
        default="absent",
    )
    embed_dim: int = parameter(Whole(), "length of the vectors of cells and columns", default=20)
    n_heads: int = parameter(Whole(), "attention heads", default=5)
    head_dim: int = parameter(Whole(), "length of each head's queries and keys", default=4)
    n_layers: int = parameter(Whole(), "attention layers of the deep network", default=2)
    feed_forward_dim: int = parameter(Whole(), "hidden units after each of them", default=40)
    dropout: float = parameter(
        Fraction(), "share of units dropped in training the deep network", default=0.1
    )


class TableTraining(
    RoundedProducts, section='Training: of the attention network, with base="none"'
):
    """Training by AdamW."""

    learning_rate: float | str = parameter(
        OrWord("auto", Positive()),
        'largest step size of AdamW, or "auto": 0.015, of the deep network 0.005',
        default="auto",
    )
    weight_decay: float | str = parameter(
        OrWord("auto", Positive(zero=True)),
        'decoupled weight decay, or "auto": 1,000 by the number of rows, at most 0.5',
        default="auto",
    )
    batch_size: int | str = parameter(
        OrWord("auto", Whole()),
        'rows in a step, or "auto": 64 to 1,024 by the number of rows',
        default="auto",
    )
    max_epochs: int | str = parameter(
        OrWord("auto", Whole()),
        'passes over the training rows, or "auto": about 3.5 steps for each square root of the '
        "number of rows, at least 160, and 15,000 rows; of more than 2,000 rows 3 or 9 times as "
        "long where that is better by validation",
        default="auto",
    )
    patience: int = parameter(
        ANY_NUMBER, "epochs without improvement on validation before stopping", default=10
    )
    warmup: float = parameter(
        Fraction(), "share of the steps in which the step size grows", default=0.1
    )
    n_targets: int | str = parameter(
        OrWord("auto", Whole()),
        'columns predicted in a step, of a wide table drawn at random, or "auto": 8, with the '
        "deep network 2",
        default="auto",
    )
    ensemble: int = parameter(
        Whole(), "networks side by side, whose probabilities are averaged", default=1
    )


class TableFit(Declared, section="Training"):
    """What every fit takes."""

    validation_fraction: float = parameter(
        Fraction(),
        "share of the rows held out to choose by; 0: the base holds out folds, and the attention "
        "network takes all steps",
        default=0.0,
    )
    seed: int = parameter(
        SEED, "of the initial weights, the batches and what is held out", default=0
    )
    device: str = parameter(
        Text(),
        'where an attention network is fitted: "cpu", "cuda", or "auto": CUDA if present',
        default="auto",
    )
    progress: bool = parameter(Flag(), "whether to show progress in a terminal", default=True)


class ResponseParameters(Declared, section='Model: the attention network, with base="none"'):
    """The response beside the other columns."""

    extra_masking: float | str = parameter(default="auto")
    response_share: float | None = parameter(
        OrNone(Fraction()),
        "of the weight of a training row's targets, the response's; None weighs all targets alike",
        default=0.5,
    )
    unlabeled: str = parameter(
        Choice(("absent", "mask")),
        'how a missing response is shown where another column is predicted: "absent", not at all, '
        'or as a "mask" token, as in the paper',
        default="absent",
    )
