"""The classifier of tables."""

from typing import Any, cast

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.base import ClassifierMixin

from exfam.checks import DataError, ExfamError
from exfam.estimator.base import parameter
from exfam.estimator.rules import Choice
from exfam.tables.answers.decisions import DECISIONS
from exfam.tables.data import LABEL_KINDS, Column, RawColumn
from exfam.tables.data.raw import cell_error
from exfam.tables.estimator.given import GivenTables, read_response
from exfam.tables.estimator.plan import Response
from exfam.tables.estimator.supervised import SupervisedTable


class MaskedTableClassifier(ClassifierMixin, SupervisedTable):
    """Attention over the cells of a row as a classifier, and a joint model of all columns.

    {parameters}

    After `fit`: `classes_`, `members_` (one model that holds the whole ensemble), `schema_`,
    `families_`, `settings_`, `response_` (the name of the response), `tables_` (the columns of each
    table), `recipe_` and `trials_` (what was chosen by validation), `history_`, `histories_`.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 4.

    >>> table = {"sky": ["clear", "clouds"] * 10, "hour": [6.0, 18.0, 12.0, 9.0] * 5}
    >>> wet = ["dry", "wet"] * 10
    >>> model = MaskedTableClassifier(max_epochs=5, progress=False).fit(table, wet)
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
        with a warning that counts them. See `log_score` for nats. Raises DataError if no row of
        weight above 0 has a response.
        """
        cells = self._with_response(X, y, becomes="count as wrong")
        present = ~read_response(y, name=self._column.name, n_rows=len(cells)).missing
        decided, truth, weight = self._decided(cells, present, sample_weight)
        return float(np.average(decided == truth, weights=weight))

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "rows classes"]:
        """The probability of each class of `classes_`.

        Raises DataError for other columns than those of training.
        """
        return self._distribution(X).probs().double().numpy()

    def predict_log_proba(self, X: Any) -> Float64[np.ndarray, "rows classes"]:
        """The log of `predict_proba`, in nats."""
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
        if isinstance(kind, str) and not ordered:
            _check_classes(columns)
        return Response(given.name, kind, None)

    def _kind(self, filled: RawColumn, columns: list[RawColumn]) -> str:
        if self.target != "auto":
            return self.target
        if filled.order is not None:
            return "ordinal"
        if filled.type != "number":
            return "boolean" if filled.type == "boolean" else "categorical"
        for column in columns:
            _check_labels(column)
        return "ordinal" if len(_distinct(columns)) > 2 else "categorical"

    def _check_response(self, column: Column) -> None:
        if self.decision != "argmax" and column.kind != "ordinal":
            raise ExfamError(
                f"`decision` must be 'argmax' for the {column.kind} response {column.name!r}, got "
                f"{self.decision!r}. Pass target='ordinal' if its classes have an order."
            )


def _distinct(columns: list[RawColumn]) -> set[object]:
    """All labels, as tables hold them."""
    distinct: set[object] = set()
    for column in columns:
        seen = np.unique(column.values[~column.missing]).tolist()
        distinct |= set(seen if column.labels is None else [column.labels[code] for code in seen])
    return distinct


def _check_classes(columns: list[RawColumn]) -> None:
    distinct = _distinct(columns)
    if len(distinct) < 2:
        raise DataError(
            f"`y` must hold at least two classes, got one class, {next(iter(distinct))!r}. Declare "
            "all labels in `kinds` if there are others."
        )


def _check_labels(column: RawColumn) -> None:
    """Raise DataError for fractions, which are no classes unless `target` says so."""
    values = column.values.astype(np.float64)
    wrong = (values != np.floor(values)) & ~column.missing
    if wrong.any():
        error = cell_error("y", "hold labels", column, wrong, advice="Use MaskedTableRegressor, or")
        raise DataError(
            f"Unknown label type: continuous. {error} pass target='categorical' or 'ordinal'."
        )
