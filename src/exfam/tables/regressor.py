"""The regressor of tables."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from exfam.checks import DataError, ExfamError
from exfam.estimator.base import parameter
from exfam.estimator.rules import Choice, Families, OrWord
from exfam.families import StudentT
from exfam.tables.estimator.column_families import number_family
from exfam.tables.estimator.given import GivenTables
from exfam.tables.estimator.plan import Response
from exfam.tables.estimator.supervised import SupervisedTable

# Few enough that a row far from all of training is not out of the question.
_DF = 4.0
_TINY = np.finfo(np.float64).tiny


class MaskedTableRegressor(RegressorMixin, SupervisedTable):
    """Attention over the cells of a row as a regressor, and a joint model of all columns.

    {parameters}

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
    family: Any = parameter(
        OrWord("auto", OrWord("binned", Families())),
        'the distribution of the response: "auto", Student\'s t with 4 degrees of freedom, whose '
        'heavy tails bear rows unlike those of training; "gaussian", "student-t", "poisson", '
        '"negative-binomial", "gamma", "exponential", an instance such as `Poisson(shift=1)`,'
        ' or "binned": a histogram of `n_bins` bins of equally many values. Where rows are '
        "held out to choose something, they also decide how wide one with a scale is",
        default="auto",
    )
    decision: str = parameter(
        Choice(("mean", "median")),
        'the number to predict, the "mean" or the "median"',
        default="mean",
    )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, at most 1: 1 less the mean squared error over the variance of `y`.

        Rows without a response are left out. See `log_score` for nats. Raises DataError for less
        than two rows of weight above 0 that have a response.
        """
        cells = self._with_response(X, y)
        present = cells.present[:, self.schema_.index(self._column.name)]
        decided, truth, weight = self._decided(cells, present, sample_weight)
        if len(truth) < 2:
            raise DataError("`y` must hold a response in two rows or more for R^2, got one.")
        # In their own unit squares may be more than float64 holds.
        unit = max(np.abs(truth).max(), np.abs(decided).max(), _TINY)
        return float(r2_score(truth / unit, decided / unit, sample_weight=weight))

    def _response(self, given: GivenTables) -> Response:
        assert given.name is not None
        for column in given.responses:
            if column is not None and column.type == "text":
                raise ExfamError(
                    "`y` must hold numbers for a regressor, got texts. Use MaskedTableClassifier."
                )
        if isinstance(self.family, str) and self.family == "binned":
            return Response(given.name, "numeric", None)
        if isinstance(self.family, str) and self.family == "auto":
            return Response(given.name, "numeric", StudentT(df=_DF))
        return Response(given.name, "numeric", number_family(self.family, argument="family"))
