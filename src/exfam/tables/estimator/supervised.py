"""What the classifier and the regressor share: a response, predicted from the other columns."""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from sklearn.utils import Tags

from exfam.checks import DataError
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.decisions import decide
from exfam.tables.answers.distributions import cell_log_prob, column_distributions
from exfam.tables.data import Cells, Column, decode
from exfam.tables.estimator.declarations import ResponseParameters
from exfam.tables.estimator.given import GivenTables, read_given, read_weight
from exfam.tables.estimator.joint import JointTable
from exfam.tables.estimator.plan import Response


class SupervisedTable(ResponseParameters, JointTable):
    """Estimators of one column, the response `y`, given the others; `y` may be missing in rows."""

    decision: str

    def __sklearn_tags__(self) -> Tags:
        """A response is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _response(self, given: GivenTables) -> Response:
        """What the response is. Raises ExfamError for values that it cannot hold."""

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

        `X` may be a list of tables whose columns are matched by name; then `y` is a list of their
        responses, None for a table without, and `sample_weight` likewise.

        `sample_weight`: of every row, >= 0; a row of weight 0 is left out; None weighs all the same
            (default None)
        `validation`: (X, y) that choose when to stop, and all that is "auto"; a share of the rows
            with a response unless given (default None)
        `checkpoint`: a folder from which a fit that was interrupted or killed goes on
            (default None)

        Raises DataError for what is no table, ExfamError for a response that cannot be learned.
        """
        self._check_parameters()
        if y is None:
            self._remember_features(X, y, read_given(X, None, None, supervised=False))
        given = read_given(X, y, sample_weight, supervised=True)
        self._remember_features(X, y, given)
        response = self._response(given)
        held_out = None
        if validation is not None:
            held_out = read_given(*_pair(validation), None, supervised=True)
            held_out = replace(held_out, name=response.name, weight=None)
        self._fit(given, response, validation=held_out, checkpoint=checkpoint)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """One value per row of the response, by the rule in `decision`.

        Raises DataError for other columns than those of training.
        """
        decided = decide(self._distribution(X), self._column, rule=self.decision)
        return decode(self.schema_, self._column.name, decided)

    def predict_dist(self, X: Any) -> Prediction:
        """The predictive distribution of each row's response: of its number, or of codes of labels.

        Raises DataError for other columns than those of training.
        """
        distribution = self._distribution(X)
        n_rows = distribution.eta.shape[1]
        return Prediction(distribution, np.arange(n_rows), n_rows)

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log p(y | X) in nats (of numbers: log-density); higher is better.

        Rows without a response are left out; so are those of a class that training did not have,
        whose probability is 0, with a warning that counts them. Raises DataError if no row of
        weight above 0 has a response that training had.
        """
        nats = self.log_scores(X, y)
        rows, weight = _scored(~np.isnan(nats), sample_weight)
        return float(np.average(nats[rows], weights=weight))

    def log_scores(self, X: Any, y: Any) -> Float64[np.ndarray, "rows"]:
        """log p(y | X) of each row, in nats; NaN for a row without a response.

        NaN too for a class that training did not have, with a warning that counts them.
        """
        cells = self._with_response(X, y, becomes="are left out: their probability is 0")
        return cell_log_prob(self.model_, cells, [self._column.name])[:, 0]

    def _with_response(self, X: Any, y: Any, *, becomes: str | None = None) -> Cells:
        """The cells of `X` and, beside them, of `y`; `becomes`: what is said of new classes."""
        self._check_fitted()
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
    """The rows with a known response and a weight above 0, and their weights."""
    weight = read_weight(sample_weight, [len(present)], several=False)
    weight = np.ones(len(present)) if weight is None else weight
    rows = np.flatnonzero(present & (weight > 0))
    if not len(rows):
        raise DataError("`y` must hold a response in some row to score, got none.")
    return rows, weight[rows]


def _pair(validation: Any) -> tuple[Any, Any]:
    if not isinstance(validation, list | tuple) or len(validation) != 2:
        raise DataError(f"`validation` must be a pair (X, y), got {type(validation).__name__}.")
    return validation[0], validation[1]
