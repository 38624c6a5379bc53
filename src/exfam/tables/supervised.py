"""The classifier and the regressor of tables: a response, predicted from the other columns."""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from exfam.checks import DataError, ExfamError, checked_validation
from exfam.estimator.base import parameter
from exfam.estimator.record import recorded
from exfam.estimator.rules import Choice, Families, OrWord
from exfam.families import RoundedRootStudentT, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.decisions import DECISIONS, decide
from exfam.tables.answers.distributions import cell_log_prob, column_distributions
from exfam.tables.data import LABEL_KINDS, Cells, Column, RawColumn, decode
from exfam.tables.data.frames import cell_error
from exfam.tables.data.table_files import table_and_response_of
from exfam.tables.estimator.declarations import ResponseParameters
from exfam.tables.estimator.given import GivenTables, read_given, read_response, read_weight
from exfam.tables.estimator.plan import Response, number_family
from exfam.tables.table import JointTable

# Few enough that a row far from all of training is not out of the question.
_DF = 4.0
_TINY = np.finfo(np.float64).tiny


class SupervisedTable(ResponseParameters, JointTable):
    """Estimators of one column, the response `y`, given the others; `y` may be missing in rows."""

    decision: str

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _response(self, given: GivenTables) -> Response:
        """The response. Raises ExfamError for values that it cannot hold."""

    @recorded
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation: Any = None,
        checkpoint: str | Path | None = None,
    ) -> "SupervisedTable":
        """Fit to a table `X` and its response `y`; missing entries of `y` are rows without one.

        `X` may be the path of a file that `exfam.read` takes, and `y` the name of its column.
        `X` may be a list of tables whose columns are matched by name, `y` and `sample_weight` then
        lists as well, with None for a table without.

        `sample_weight`: of every row, >= 0; a row of weight 0 is left out
        `validation`: (X, y) that choose when to stop, and all that is "auto"; a share of the rows
            with a response unless given
        `checkpoint`: a folder from which a fit that was interrupted or killed goes on
        """
        self._check_parameters()
        X, y = table_and_response_of(X, y, self.dialect)
        if y is None:
            self._remember_features(X, y, read_given(X, None, None, supervised=False))
        given = read_given(X, y, sample_weight, supervised=True, dialect=self.dialect)
        self._remember_features(X, y, given)
        response = self._response(given)
        held_out = None
        if validation is not None:
            held_out_X, held_out_y = checked_validation(validation)
            pair = table_and_response_of(held_out_X, held_out_y, self.dialect)
            held_out = read_given(*pair, None, supervised=True, dialect=self.dialect)
            held_out = replace(held_out, name=response.name, weight=None)
        self._fit(given, response, validation=held_out, checkpoint=checkpoint)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """One value per row of the response, by the rule in `decision`."""
        decided = decide(self._distribution(X), self._column, rule=self.decision)
        return decode(self.schema_, self._column.name, decided)

    def predict_dist(self, X: Any) -> Prediction:
        """The predictive distribution of each row's response, of labels that of their codes."""
        distribution = self._distribution(X)
        n_rows = distribution.eta.shape[1]
        return Prediction(distribution, np.arange(n_rows), n_rows).like(X)

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log p(y | X) in nats (of numbers: log-density); higher is better.

        Rows without a response are left out; so are those of a class that training did not have,
        whose probability is 0, with a warning that counts them.
        """
        nats = self.log_scores(X, y)
        rows, weight = _scored(~np.isnan(nats), sample_weight)
        return float(np.average(nats[rows], weights=weight))

    def log_scores(self, X: Any, y: Any) -> Float64[np.ndarray, "rows"]:
        """log p(y | X) of each row, in nats; NaN for a row without a response or of a new class."""
        cells = self._with_response(X, y, becomes="are left out: their probability is 0")
        return cell_log_prob(self.model_, cells, [self._column.name])[:, 0]

    def _with_response(self, X: Any, y: Any, *, becomes: str | None = None) -> Cells:
        self._check_fitted()
        X, y = table_and_response_of(X, y, self.dialect, schema=self.schema_)
        names = {self._column.name: becomes} if becomes else None
        return self._cells(X, y, joint=False, becomes=names)

    def _decided(
        self, cells: Cells, present: Bool[np.ndarray, "rows"], sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the rows to score the predicted value, the true one, and the weight."""
        rows, weight = _scored(present, sample_weight)
        name = self._column.name
        distribution = column_distributions(self.model_, cells, [name])[name]
        decided = decide(distribution, self._column, rule=self.decision)
        return decided[rows], cells.value[rows, self.schema_.index(name)], weight

    @property
    def _column(self) -> Column:
        assert self.response_ is not None
        return self.schema_.column(self.response_)

    def _distribution(self, X: Any) -> Mixture:
        cells = self._cells(X, joint=False)
        return column_distributions(self.model_, cells, [self._column.name])[self._column.name]


def _scored(
    present: Bool[np.ndarray, "rows"], sample_weight: Any
) -> tuple[Int64[np.ndarray, "scored"], Float64[np.ndarray, "scored"]]:
    weight = read_weight(sample_weight, [len(present)], several=False)
    weight = np.ones(len(present)) if weight is None else weight
    rows = np.flatnonzero(present & (weight > 0))
    if not len(rows):
        raise DataError("`y` must hold a response in some row to score, got none.")
    return rows, weight[rows]


class MaskedTableClassifier(ClassifierMixin, SupervisedTable):
    """A classifier of rows with missing cells, and a joint model of all columns.

    By default linear predictors, a small network and boosted trees, pooled; with base="none"
    attention over the cells of a row.

    {parameters}

    After `fit`: `classes_`, `response_` (the name of the response) and what `MaskedTable` has.
    Source of base="none": "Bidirectional attention as a mixture of continuous word experts",
    section 4.

    >>> table = {"sky": ["clear", "clouds"] * 10, "hour": [6.0, 18.0, 12.0, 9.0] * 5}
    >>> wet = ["dry", "wet"] * 10
    >>> model = MaskedTableClassifier(progress=False).fit(table, wet)
    >>> model.predict({"sky": ["clouds", None], "hour": [12.0, 6.0]})[0]
    'wet'
    """

    kind = "masked-table-classifier"
    target: str = parameter(
        Choice(("auto", "categorical", "ordinal")),
        'whether the classes are "categorical" or "ordinal"; "auto": ordinal if they are '
        "ordered categories, declared in `kinds` under the response's name, or more than two "
        "numbers",
        default="auto",
    )
    decision: str = parameter(
        Choice(DECISIONS),
        'the class to predict: "argmax", the most probable one, or of ordinal ones the '
        '"median", or the label nearest to the "mean"',
        default="argmax",
    )

    @property
    def classes_(self) -> Shaped[np.ndarray, "classes"]:
        """The labels, in the order of the columns of `predict_proba`."""
        self._check_fitted()
        return cast(np.ndarray, self._column.labels).copy()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, in [0, 1]: the share of rows whose class is the predicted one.

        Rows without a response are left out. A class that training did not have counts as wrong,
        with a warning that counts them. See `log_score` for nats.
        """
        self._check_fitted()
        X, y = table_and_response_of(X, y, self.dialect, schema=self.schema_)
        cells = self._with_response(X, y, becomes="count as wrong")
        present = ~read_response(y, name=self._column.name, n_rows=len(cells)).missing
        decided, truth, weight = self._decided(cells, present, sample_weight)
        return float(np.average(decided == truth, weights=weight))

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "rows classes"]:
        return self._distribution(X).probs().double().numpy()

    def predict_log_proba(self, X: Any) -> Float64[np.ndarray, "rows classes"]:
        return np.log(self.predict_proba(X))

    def _response(self, given: GivenTables) -> Response:
        assert given.name is not None
        columns = [column for column in given.responses if column is not None]
        filled = next(column for column in columns if not column.is_empty)
        declared = (self.kinds or {}).get(given.name)
        kind = self._kind(filled, columns) if declared is None else declared
        if isinstance(kind, str) and kind not in LABEL_KINDS:
            raise ExfamError(
                f"`kinds[{given.name!r}]` must be categorical, ordinal, boolean or labels in order "
                f"for a classifier, got {kind!r}. Use MaskedTableRegressor."
            )
        ordered = filled.order is not None and len(filled.order) > 1
        if isinstance(kind, str) and not ordered and len(labels := _distinct(columns)) < 2:
            raise DataError(
                f"`y` must hold at least two classes, got one class, {next(iter(labels))!r}. "
                "Declare all labels in `kinds` if there are others."
            )
        return Response(given.name, kind, None)

    def _kind(self, filled: RawColumn, columns: list[RawColumn]) -> str:
        if self.target != "auto":
            return self.target
        if filled.order is not None:
            return "ordinal"
        if filled.type != "number":
            return "boolean" if filled.type == "boolean" else "categorical"
        for column in columns:
            values = column.values.astype(np.float64)
            wrong = (values != np.floor(values)) & ~column.missing
            if wrong.any():
                advice = "Use MaskedTableRegressor, or pass target='categorical' or 'ordinal'."
                error = cell_error("y", "hold labels", column, wrong, advice=advice)
                raise DataError(f"Unknown label type: continuous. {error}")
        return "ordinal" if len(_distinct(columns)) > 2 else "categorical"

    def _check_response(self, column: Column) -> None:
        if self.decision != "argmax" and column.kind != "ordinal":
            raise ExfamError(
                f"`decision` must be 'argmax' for the {column.kind} response {column.name!r}, got "
                f"{self.decision!r}. Pass target='ordinal' if its classes have an order."
            )


def _distinct(columns: list[RawColumn]) -> set[object]:
    distinct: set[object] = set()
    for column in columns:
        seen = np.unique(column.values[~column.missing]).tolist()
        distinct |= set(seen if column.labels is None else [column.labels[code] for code in seen])
    return distinct


class MaskedTableRegressor(RegressorMixin, SupervisedTable):
    """A regressor of rows with missing cells, and a joint model of all columns.

    By default linear predictors, a small network and boosted trees, pooled; with base="none"
    attention over the cells of a row.

    {parameters}

    After `fit`: `response_` (the name of the response) and what `MaskedTable` has.
    Source of base="none": "Bidirectional attention as a mixture of continuous word experts",
    section 4.

    >>> table = {"rooms": [1, 2, 3, 4] * 5, "garden": [True, False] * 10}
    >>> price = [100.0, 150.0, 210.0, 240.0] * 5
    >>> model = MaskedTableRegressor(progress=False).fit(table, price)
    >>> model.predict_dist({"rooms": [2, None], "garden": [None, True]}).interval(0.9)[0].shape
    (2,)
    """

    kind = "masked-table-regressor"
    family: Any = parameter(
        OrWord("auto", OrWord("binned", Families())),
        'the distribution of the response: "auto", Student\'s t of it, of its logarithms or, '
        "of skewed numbers of which some are 0 or negative, of their inverse hyperbolic sines, "
        "whose heavy tails bear rows unlike those of training (of the attention network of 4 "
        "degrees of freedom), or, where all are whole numbers from 0 and held-out rows prefer it, "
        'or `kinds` has "count", a distribution of counts; or "student-t". The attention network '
        "alone knows "
        '"gaussian", "poisson", "negative-binomial", "gamma", "exponential", an instance such as '
        '`Poisson(shift=1)`, or "binned": a histogram of `n_bins` bins of equally many values. '
        "Where rows are held out to choose something, they also decide how wide one with a scale "
        "is",
        default="auto",
    )
    decision: str = parameter(
        Choice(("mean", "median")),
        'the number to predict, the "mean" or the "median"',
        default="mean",
    )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, at most 1: 1 less the mean squared error over the variance of `y`.

        Rows without a response are left out. See `log_score` for nats.
        """
        cells = self._with_response(X, y)
        present = cells.present[:, self.schema_.index(self._column.name)]
        decided, truth, weight = self._decided(cells, present, sample_weight)
        if len(truth) < 2:
            raise DataError("`y` must hold a response in two rows or more for R^2, got one.")
        # In their own unit squares may be more than float64 holds.
        unit = max(np.abs(truth).max(), np.abs(decided).max(), _TINY)
        return float(r2_score(truth / unit, decided / unit, sample_weight=weight))

    def log_scores(self, X: Any, y: Any) -> Float64[np.ndarray, "rows"]:
        """log p(y | X) of each row, in nats; NaN for a row without a response.

        Raises DataError for a number that is not whole, where those of the fit are counts.
        """
        cells = self._with_response(X, y)
        name, index = self._column.name, self.schema_.index(self._column.name)
        if isinstance(self.model_.families[index], RoundedRootStudentT):
            _check_counts(name, cells.value[:, index])
        return cell_log_prob(self.model_, cells, [name])[:, 0]

    def _response(self, given: GivenTables) -> Response:
        assert given.name is not None
        for column in given.responses:
            if column is not None and column.type == "text":
                raise ExfamError(
                    "`y` must hold numbers for a regressor, got texts. Use MaskedTableClassifier."
                )
        family: Any = self.family
        declared = (self.kinds or {}).get(given.name)
        if isinstance(declared, str) and declared == "count" and family == "auto":
            return Response(given.name, "count", None)
        if isinstance(family, str) and family in ("auto", "binned"):
            return Response(given.name, "numeric", StudentT(df=_DF) if family == "auto" else None)
        return Response(given.name, "numeric", number_family(family, argument="family"))


def _check_counts(name: str, value: Float64[np.ndarray, "rows"]) -> None:
    """Raise DataError, naming the row, for a number that is no count; NaN is none at all."""
    wrong = np.flatnonzero((value < 0) | (value != np.rint(value)) & ~np.isnan(value))
    if len(wrong):
        raise DataError(
            f"`y` must hold whole numbers from 0, as the counts of the fit are, got "
            f"{value[wrong[0]]:g} at row {wrong[0]}. Pass kinds={{{name!r}: 'numeric'}} for a "
            "density of all numbers."
        )
