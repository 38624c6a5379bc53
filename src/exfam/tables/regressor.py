"""The regressor of tables."""

from typing import Any, no_type_check

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from exfam.checks import DataError, ExfamError
from exfam.families import StudentT
from exfam.tables import declarations
from exfam.tables.answers.decisions import decide
from exfam.tables.answers.distributions import column_laws
from exfam.tables.column_families import number_family
from exfam.tables.data import Column
from exfam.tables.inputs import Given
from exfam.tables.plan import Response
from exfam.tables.supervised import SupervisedTable

__all__ = ["MaskedTableRegressor"]

# Families of labels, and one that needs items: no law of one number.
BINNED, AUTO = "binned", "auto"
# Few enough that a row far from all of training is not out of the question.
_DF = 4.0
_TINY = np.finfo(np.float64).tiny


class MaskedTableRegressor(RegressorMixin, SupervisedTable):
    """Attention over the cells of a row as a regressor, and a joint model of all columns.

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
    `family`: the law of the response: "auto", Student's t with 4 degrees of freedom, whose heavy
        tails bear rows unlike those of training; "gaussian", "student-t", "poisson",
        "negative-binomial", "gamma", "exponential", an instance such as `Poisson(shift=1)`, or
        "binned": a histogram of `n_bins` bins of equally many values. Where rows are held out to
        choose something, they also say how wide a law with a scale is (default "auto")
    `decision`: the number to predict, the "mean" or the "median" (default "mean")

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
        missing (default "auto")
    `masked_as`: how these cells are shown: "absent", not at all, or as a "mask" token
        (default "absent")
    `response_share`: of the weight of a training row's targets, the response's; None weighs all
        targets alike (default 0.5)
    `unlabeled`: how a missing response is shown where another column is predicted: "absent", not at
        all, or as a "mask" token, as in the paper (default "absent")
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
    `validation_fraction`: share of the rows with a response held out to choose the best epoch;
        without any, all steps are taken (default 0.0)
    `ensemble`: networks side by side, whose probabilities are averaged (default 1)
    `seed`: of the initial weights, the batches and what is held out (default 0)
    `device`: "cpu", "cuda", or "auto": CUDA if present (default "cpu")
    `progress`: whether to show progress in a terminal (default True)

    After `fit`: `members_` (one model that holds the whole ensemble), `schema_`,
    `families_`, `settings_`, `response_` (the name of the response), `tables_` (the columns of each
    table), `recipe_` and `trials_` (what was chosen by validation), `history_`, `histories_`.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 4.

    >>> table = {"rooms": [1, 2, 3, 4] * 5, "garden": [True, False] * 10}
    >>> price = [100.0, 150.0, 210.0, 240.0] * 5
    >>> model = MaskedTableRegressor(max_epochs=5, progress=False).fit(table, price)
    >>> model.predict_dist({"rooms": [2, None], "garden": [None, True]}).interval(0.9)[0].shape
    (2,)
    """

    kind = "masked-table-regressor"
    parameter_rules = declarations.REGRESSOR

    family: Any

    # Parameters are checked in `fit`, as scikit-learn wants it, and shown with their types.
    @no_type_check
    def __init__(
        self,
        *,
        kinds: Any = None,
        date_format: Any = None,
        family: Any = "auto",
        decision: str = "mean",
        numeric: str = "continuous",
        n_bins: int | str = "auto",
        families: Any = None,
        unknown: str = "unk",
        missing_columns: str = "auto",
        network: str = "linear",
        encoding: str = "learned",
        categories: str = "per-column",
        ordinal: bool | str = "auto",
        extra_masking: float | str = "auto",
        masked_as: str = "absent",
        response_share: float | None = 0.5,
        unlabeled: str = "absent",
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
        self.family = family
        self.decision = decision
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
        self.response_share = response_share
        self.unlabeled = unlabeled
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, at most 1: 1 less the mean squared error over the variance of `y`.

        Rows without a response are left out. See `log_score` for nats. Raises DataError for less
        than two rows of weight above 0 that have a response.
        """
        cells, name = self._with_response(X, y), self._column.name
        truth = cells.value[:, -1]
        rows, weight = self._scored(X, ~np.isnan(truth), sample_weight)
        if len(rows) < 2:
            raise DataError("`y` must hold a response in two rows or more for R^2, got one.")
        law = column_laws(self.model_, cells, [name])[name]
        told = decide(law, self._column, rule=self.decision)
        # In their own unit squares may be more than float64 holds.
        unit = max(np.abs(truth[rows]).max(), np.abs(told[rows]).max(), _TINY)
        return float(r2_score(truth[rows] / unit, told[rows] / unit, sample_weight=weight))

    def _response(self, given: Given) -> Response:
        assert given.name is not None
        for column in given.responses:
            if column is not None and column.type == "text":
                raise ExfamError(
                    "`y` must hold numbers for a regressor, got texts. Use MaskedTableClassifier."
                )
        if self.family == BINNED:
            return Response(given.name, "numeric", None)
        if isinstance(self.family, str) and self.family == AUTO:
            return Response(given.name, "numeric", StudentT(df=_DF))
        return Response(given.name, "numeric", number_family(self.family, argument="family"))

    def _check_decision(self, column: Column) -> None:
        """Any number has a mean and a median."""
