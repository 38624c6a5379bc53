"""What every fitted table tells beside predictions: joint laws, filled cells, experts, shifts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted

from exfam.checks import ExfamError, check_seed, check_whole
from exfam.positions import PositionAttention
from exfam.tables.answers.chain import chain_log_prob, pseudo_log_likelihood
from exfam.tables.answers.conditional import conditional
from exfam.tables.answers.disagreement import OrderDisagreement, order_disagreement
from exfam.tables.answers.distributions import checked_order
from exfam.tables.answers.imputation import impute
from exfam.tables.answers.sampling import sample_rows
from exfam.tables.answers.similarity import ColumnSimilarity
from exfam.tables.data import Cells, read_table
from exfam.tables.experts.faithfulness import DeletionInsertion
from exfam.tables.experts.summary import ExpertSummary, summarize_experts
from exfam.tables.explain import (
    TableExperts,
    attention_of,
    expert_faithfulness,
    expert_weights,
    experts_of,
    similarity_of_columns,
)
from exfam.tables.inputs import as_array, as_cells, has_names
from exfam.tables.networks.independent import IndependentColumns, independent_columns
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.position_attention import table_attention
from exfam.tables.results import TableConditional, TableImputation, columns_of, filled_frame
from exfam.tables.shift.report import ShiftReport, shift_report
from exfam.tables.table_estimator import TableEstimator

__all__ = ["JointTable"]


class JointTable(TableEstimator):
    """Estimators of tables, and what they say of any columns given any others.

    Where a table is asked for it may hold any of the columns that the model may lack (see
    `missing_columns`); the response is one more column, by its name in `response_`.
    """

    def impute(self, X: Any, *, rule: str = "mean", level: float = 0.9) -> TableImputation:
        """The table with its missing cells filled in, each from the others of its row.

        `rule`: of numbers and counts, "mean" (rounded, of counts) or "median"; labels without order
            are the most probable ones, ordered ones the medians (default "mean")
        `level`: of the intervals, in (0, 1) (default 0.9)

        Each cell is filled by itself: filled cells of a row are not a joint draw (see `sample`).
        Labels that training did not have stay as they are, with a warning that counts them.
        """
        check_is_fitted(self)
        becomes = dict.fromkeys(self.schema_.names, "stay as they are and tell nothing")
        told = impute(self.model_, self._cells(X, becomes=becomes), rule=rule, level=level)
        X = X if has_names(X) else as_array(X)
        table = read_table(X)
        known = self._read(X, joint=True)
        names = dict(zip(table.names, self._names_of(table.names, known.names), strict=True))
        return filled_frame(X, table, names, self.schema_, told)

    def _names_of(self, given: Sequence[str], known: Sequence[str]) -> list[str]:
        """The model's names of the given columns: their own, or by place."""
        if set(given) <= set(self.schema_.names):
            return list(given)
        return list(known)

    def conditional(self, of: Any, *, given: Any = None, order: Any = None) -> TableConditional:
        """The law of some columns given any others, in one pass of the model.

        `of`: names of columns
        `given`: a mapping of column to one value, or a table of rows; cells of the columns `of` in
            it are not looked at; None is a row of which nothing is known (default None)
        `order`: of the columns `of` in their joint law, told by the chain rule; as in `of` for None
            (default None)

        Raises DataError for unknown columns.
        """
        model = self.model_
        cells = as_cells(given, self.schema_, unknown=self.unknown)
        return TableConditional(conditional(model, cells, of=of, order=order), self.unknown)

    def sample(self, n: int = 1, *, given: Any = None, seed: int = 0) -> dict[str, np.ndarray]:
        """`n` rows drawn by the chain rule in the order of the columns; one array a column.

        `given`: cells that are known, as in `conditional`; `n` draws for each of its rows, all rows
            of the first draw first (default None)
        `seed`: of the draws; the same gives the same (default 0)
        """
        model = self.model_
        check_whole("n", n)
        check_seed("seed", seed)
        cells = as_cells(given, self.schema_, unknown=self.unknown)
        draws = sample_rows(model, cells, n=int(n), seed=int(seed))
        return columns_of(self.schema_, Cells.concatenate(draws))

    def log_prob(self, X: Any, *, order: Any = None) -> Float64[np.ndarray, "rows"]:
        """log p(row) in nats, by the chain rule: each cell given those before it.

        `order`: names of columns, others being left out of the row; None is all columns, as in
            `schema_` (default None)

        A missing cell is no term. A proper log-probability in every order; orders differ as far as
        the model's conditionals are not those of one joint law, see `order_disagreement`.
        """
        return chain_log_prob(self.model_, self._cells(X), order=order)

    def pseudo_log_likelihood(self, X: Any) -> Float64[np.ndarray, "rows"]:
        """Sum over the cells of a row of log p(cell | all other cells), in nats.

        Not the log-probability of the row: each cell is both predicted and told.
        """
        return pseudo_log_likelihood(self.model_, self._cells(X))

    def order_disagreement(self, X: Any, *, n_orders: int = 8, seed: int = 0) -> OrderDisagreement:
        """How far the conditionals are from those of one joint law: log p(row) in random orders.

        `n_orders`: how many, no two the same; as many as there are if there are fewer (default 8)
        `seed`: of the orders (default 0)
        """
        cells = self._cells(X)
        check_whole("n_orders", n_orders, least=2)
        check_seed("seed", seed)
        possible = _n_orders(len(self.schema_.targets), most=int(n_orders))
        return order_disagreement(self.model_, cells, n_orders=possible, seed=int(seed))

    def shift_report(
        self, train: Any, new: Any, *, target: str | None = None, level: float = 0.01
    ) -> ShiftReport:
        """How new rows differ from training rows, by the model's own densities.

        `train`: rows as in training, better ones held out from it
        `target`: the column whose law and expert weights are compared; None is the response, if
            there is one (default None)
        `level`: chance of naming any column where nothing moved (default 0.01)

        Expert weights are told for a linear network alone. Columns' own laws are those that fit the
        training rows, unless the model was fitted with extra_masking=1.0 and so has its own.
        """
        model = self.model_
        name = self.response_ if target is None else target
        if name is not None:
            self.schema_.place(name)
        cells = [self._cells(each) for each in (train, new)]
        linear = isinstance(model.network, LinearTableNetwork)
        drift = linear and name is not None
        weights = expert_weights(model, name) if drift and name else None
        return shift_report(
            model,
            *cells,
            target=name,
            weights=weights,
            marginals=self._marginals(cells[0]),
            level=level,
        )

    def _marginals(self, cells: Cells) -> IndependentColumns | None:
        """The marginal laws of these rows, for a model that no row without cells was shown to."""
        if self.recipe_.extra_masking == 1.0 or not cells.present.any(0).all():
            return None
        return independent_columns(cells, schema=self.schema_, families=self.families_)

    def column_similarities(self) -> ColumnSimilarity:
        """Cosines between the columns' encodings; those of several tables share one space.

        The columns of the k-th table are `tables_[k]`.
        """
        return similarity_of_columns(self.model_, self.schema_)

    def position_attention(
        self, X: Any, *, term: str = "both", member: int = 0
    ) -> PositionAttention:
        """Mean attention from each hidden column to all columns, in their order.

        `term`: "both", or "contextual" for attention without the encoding (default "both")
        `member`: of an ensemble (default 0)

        See `exfam.tables.position_attention.table_attention`.
        """
        check_whole("member", member, least=0)
        return table_attention(self.model_, self._cells(X), term=term, member=int(member))

    def experts(self, X: Any, targets: Any = None, *, member: Any = 0) -> TableExperts:
        """The weight and contribution of each cell to the outputs of each target, exactly.

        `targets`: names of columns; None is the response, or all columns without one (default None)
        `member`: of an ensemble (default 0)

        All rows at once: give some hundreds. Raises ExfamError for a deep network, where layer norm
        and ReLU make it inexact.
        """
        attention = attention_of(self.model_, member=member)
        return experts_of(attention, self._cells(X), self._targets(targets))

    def explain(self, X: Any, targets: Any = None, *, member: Any = 0) -> ExpertSummary:
        """Means over the rows of `X` of what each column's expert does for each target.

        `targets`: names of columns; None is the response, or all columns without one (default None)
        `member`: of an ensemble (default 0)

        Raises ExfamError for a deep network.
        """
        attention = attention_of(self.model_, member=member)
        return summarize_experts(attention, self._cells(X), self._targets(targets))

    def faithfulness(
        self, X: Any, y: Any = None, *, target: str | None = None, seed: int = 0
    ) -> dict[str, DeletionInsertion]:
        """Whether the expert view names the cells that matter: deleting and inserting in its order.

        `y`: the response, if it is not a column of `X` (default None)
        `target`: the column that is predicted; None is the response (default None)
        `seed`: of the random order and of permutations (default 0)

        The same is told of permutation importance and of a random order. Raises ExfamError for a
        deep network, and without a target.
        """
        model = self.model_
        name = self.response_ if target is None else target
        if name is None:
            raise ExfamError("`target` must name a column where there is no response, got None.")
        check_seed("seed", seed)
        cells = self._cells(X, y)
        return expert_faithfulness(model, cells, name, seed=int(seed))

    def _targets(self, targets: Any) -> tuple[str, ...]:
        if targets is not None:
            return checked_order(self.schema_, targets)
        return self.schema_.targets if self.response_ is None else (self.response_,)


def _n_orders(n_columns: int, *, most: int) -> int:
    """As many orders as asked for, or as there are."""
    there = 1
    for number in range(2, n_columns + 1):
        there *= number
        if there >= most:
            return most
    return there
