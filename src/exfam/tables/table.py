"""The joint model of tables."""

from pathlib import Path
from typing import Any, no_type_check

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from exfam.checks import DataError
from exfam.tables import declarations
from exfam.tables.answers.chain import pseudo_parts
from exfam.tables.data import read_table
from exfam.tables.inputs import encode_all, read_given
from exfam.tables.joint import JointTable
from exfam.tables.weights import read_weight

__all__ = ["MaskedTable"]


class MaskedTable(TransformerMixin, JointTable):
    """Attention over the cells of a row as a joint model of all columns, none before the others.

    As a transformer it fills in missing cells.

    Columns of a table:
    `kinds`: by column, "categorical", "ordinal", "boolean", "numeric", "count" or "date", or the
        labels of an ordinal column in order; others are guessed: texts and unordered categories
        are categorical, ordered categories ordinal, numbers numeric, whole numbers that are all 0
        or 1 labels, dates and texts that all are dates dates, which are inputs alone: the days
        that have passed, and where in the year, week and day (default None)
    `date_format`: how dates in text are written, such as "%d/%m/%Y", in all columns of dates or by
        column; None for ISO dates or the one format that all of a column fits (default None)
    `numeric`: "continuous" numbers lie between up to `n_bins` quantiles and have a Gaussian law, or
        are "binned" at them (default "continuous")
    `n_bins`: bins, or quantiles; "auto": a bin for 16 rows, 8 to 32; of quantiles a sixth of the
        root of the number of rows, 4 to 16 (default "auto")
    `families`: by column of continuous numbers or counts, its law: a family or its name; others are
        Gaussian, counts negative binomial (default None)
    `unknown`: what a label is that training did not have: "unk", like a missing cell, with a
        warning that counts them, or an "error" (default "unk")
    `missing_columns`: what columns are that a table lacks after training: an "error", "absent", or
        "auto": absent if several tables were fitted (default "auto")

    Model:
    `network`: "linear", one attention layer without layer norm, ReLU and dropout, which is an exact
        mixture of experts, or "deep" (default "linear")
    `encoding`: how the columns' places are told, a name of `exfam.encodings.ENCODINGS`: "learned"
        gives each column a vector of its own, most others know the columns' order alone
        (default "learned")
    `categories`: "per-column", or "shared": one space of categories for all columns, which must
        have equally many labels, as in the paper (default "per-column")
    `ordinal`: whether ordered columns have a direction along which their labels lie beside free
        vectors, True, False, or "auto": as validation says (default "auto")
    `extra_masking`: in [0, 1], the largest share of the cells of a training row that are hidden
        besides the target, or "auto": as validation says; more predicts better where cells are
        missing (default 1.0)
    `masked_as`: how these cells are shown: "absent", not at all, or as a "mask" token
        (default "absent")
    `embed_dim`: length of the vectors of cells and columns (default 20)
    `n_heads`: attention heads (default 5)
    `head_dim`: length of each head's queries and keys (default 4)
    `n_layers`: attention layers of the deep network (default 2)
    `feed_forward_dim`: hidden units after each of them (default 40)
    `dropout`: share of units dropped in training the deep network (default 0.1)

    Training:
    `learning_rate`: largest step size of AdamW, or "auto": 0.015, of the deep network 0.005
        (default "auto")
    `weight_decay`: decoupled weight decay, or "auto": 1,000 by the number of rows, at most 0.5
        (default "auto")
    `batch_size`: rows in a step, or "auto": 64 to 1,024 by the number of rows (default "auto")
    `max_epochs`: passes over the training rows, or "auto": about 3.5 steps for each square root
        of the number of rows, at least 160, and 15,000 rows; of more than 2,000 rows 3 or 9 times
        as long where that is better by validation (default "auto")
    `patience`: epochs without improvement on validation before stopping (default 10)
    `warmup`: share of the steps in which the step size grows (default 0.1)
    `n_targets`: columns predicted in a step, of a wide table drawn at random, or "auto": 8, with
        the deep network 2 (default "auto")
    `validation_fraction`: share of the rows held out to choose the best epoch; without
        any, all steps are taken (default 0.0)
    `ensemble`: networks side by side, whose probabilities are averaged (default 1)
    `seed`: of the initial weights, the batches and what is held out (default 0)
    `device`: "cpu", "cuda", or "auto": CUDA if present (default "cpu")
    `progress`: whether to show progress in a terminal (default True)

    After `fit`: `members_` (one model that holds the whole ensemble), `schema_`,
    `families_`, `settings_`, `tables_` (the columns of each
    table), `recipe_` and `trials_` (what was chosen by validation), `history_`, `histories_`.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 4.

    >>> table = {"sky": ["clear", "clouds"] * 10, "celsius": [21.0, 12.0, 25.0, 14.0] * 5}
    >>> model = MaskedTable(max_epochs=5, progress=False).fit(table)
    >>> model.conditional(["sky"], given={"celsius": 13.0}).probs("sky").shape
    (1, 2)
    """

    kind = "masked-table"
    parameter_rules = declarations.TABLE
    # Without a response there is nothing to weigh or to mask.
    response_share = None
    unlabeled = "absent"

    # Parameters are checked in `fit`, as scikit-learn wants it, and shown with their types.
    @no_type_check
    def __init__(
        self,
        *,
        kinds: Any = None,
        date_format: Any = None,
        numeric: str = "continuous",
        n_bins: int | str = "auto",
        families: Any = None,
        unknown: str = "unk",
        missing_columns: str = "auto",
        network: str = "linear",
        encoding: str = "learned",
        categories: str = "per-column",
        ordinal: bool | str = "auto",
        extra_masking: float | str = 1.0,
        masked_as: str = "absent",
        embed_dim: int = 20,
        n_heads: int = 5,
        head_dim: int = 4,
        n_layers: int = 2,
        feed_forward_dim: int = 40,
        dropout: float = 0.1,
        learning_rate: float | str = "auto",
        weight_decay: float | str = "auto",
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        patience: int = 10,
        warmup: float = 0.1,
        n_targets: int | str = "auto",
        validation_fraction: float = 0.0,
        ensemble: int = 1,
        seed: int = 0,
        device: str = "cpu",
        progress: bool = True,
    ) -> None:
        self.kinds = kinds
        self.date_format = date_format
        self.numeric = numeric
        self.n_bins = n_bins
        self.families = families
        self.unknown = unknown
        self.missing_columns = missing_columns
        self.network = network
        self.encoding = encoding
        self.categories = categories
        self.ordinal = ordinal
        self.extra_masking = extra_masking
        self.masked_as = masked_as
        self.embed_dim = embed_dim
        self.n_heads = n_heads
        self.head_dim = head_dim
        self.n_layers = n_layers
        self.feed_forward_dim = feed_forward_dim
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.warmup = warmup
        self.n_targets = n_targets
        self.validation_fraction = validation_fraction
        self.ensemble = ensemble
        self.seed = seed
        self.device = device
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        """What comes out holds what went in."""
        tags = super().__sklearn_tags__()
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        validation: Any = None,
        checkpoint: str | Path | None = None,
    ) -> "MaskedTable":
        """Fit to a table, or to a list of tables whose columns are matched by name.

        `y`: ignored; scikit-learn passes it (default None)
        `sample_weight`: of every row, >= 0, a list for several tables; a row of weight 0 is left
            out; None weighs all the same (default None)
        `validation`: a table or tables that choose when to stop (default None)
        `checkpoint`: a folder from which a fit that was interrupted or killed goes on
            (default None)

        Raises DataError for what is no table.
        """
        self._check_parameters()
        given = read_given(X, None, sample_weight, supervised=False)
        self._remember_features(X, y, given)
        schema = self._learn(given, None)
        held = None
        if validation is not None:
            told = read_given(validation, None, None, supervised=False)
            held = encode_all(schema, told.tables, unknown=self.unknown)
        self._fit(given, None, schema=schema, validation=held, checkpoint=checkpoint)
        return self

    def transform(self, X: Any) -> Any:
        """The table with missing cells filled in, of the kind that was given; see `impute`."""
        return self.impute(X).frame

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which `transform` keeps.

        `input_features`: the same names (default None)

        Raises DataError for other names.
        """
        check_is_fitted(self)
        names = np.array(self.features_, dtype=object)
        given = names if input_features is None else np.array(input_features, dtype=object)
        if given.tolist() != names.tolist():
            raise DataError(
                f"`input_features` must be equal to the columns of training, {names.tolist()}, got "
                f"{input_features!r}."
            )
        return names

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log p(cell | all other cells of its row) in nats of a cell; higher is better.

        The pseudo-log-likelihood, for each cell that is there; `y` is ignored. Raises DataError
        for a table without any.
        """
        parts = pseudo_parts(self.model_, self._cells(X))
        weight = read_weight(sample_weight, [read_table(X)], several=False)
        known = ~np.isnan(parts)
        rows = np.ones(len(parts)) if weight is None else weight
        total = float((known.sum(1) * rows).sum())
        if not total:
            raise DataError("`X` must hold a cell in some row to score, got none.")
        return float((np.where(known, parts, 0.0).sum(1) * rows).sum() / total)
