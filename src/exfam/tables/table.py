"""The joint model of tables."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags

from exfam.checks import DataError, ExfamError, check_whole
from exfam.estimator.record import recorded
from exfam.positions import PositionAttention
from exfam.tables.answers.conditional import (
    GivenCells,
    TableConditional,
    conditional,
    given_cells,
    sample_rows,
)
from exfam.tables.answers.decisions import TableImputation, impute, imputed_table
from exfam.tables.answers.distributions import (
    checked_columns,
    independent_columns,
    pseudo_terms,
)
from exfam.tables.answers.orders import OrderDisagreement, order_disagreement, row_log_prob
from exfam.tables.answers.similarity import ColumnSimilarity, column_similarity
from exfam.tables.base.contributions import (
    ContributionSummary,
    TableContributions,
    cell_contributions,
    importance,
    summarize,
)
from exfam.tables.data import Cells, decode_all, read_table
from exfam.tables.data.table_files import table_of
from exfam.tables.estimator.base import TableEstimator
from exfam.tables.estimator.given import read_given, read_weight
from exfam.tables.experts.faithfulness import DeletionInsertion, faithfulness
from exfam.tables.experts.table_attention import (
    ExpertSummary,
    TableExperts,
    attention_of_table,
    expert_importance,
    summarize_experts,
    table_attention,
)
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.shift.report import ShiftReport, shift_report


class JointTable(TableEstimator):
    """Estimators of tables, and what they say of any columns given any others.

    A table may hold any of the columns; the response is one more, by its name in `response_`.
    """

    def impute(self, X: Any, *, rule: str = "mean", level: float = 0.9) -> TableImputation:
        """The table with its missing cells filled in, each from the others of its row.

        `rule`: of numbers and counts, "mean" (rounded, of counts) or "median"; labels without order
            are the most probable ones, ordered ones the medians
        `level`: of the intervals, in (0, 1)

        Filled cells of a row are not a joint draw (see `sample`). Labels that training did not have
        stay as they are, with a warning that counts them.
        """
        self._check_fitted()
        X = table_of(X, self.dialect, schema=self.schema_)
        names = self.schema_.names
        becomes = dict.fromkeys(names, "stay as they are, and count as missing")
        imputed = impute(self.model_, self._cells(X, becomes=becomes), rule=rule, level=level)
        table = read_table(X)
        own = table.names if set(table.names) <= set(names) else self._read(X).names
        by_name = dict(zip(table.names, own, strict=True))
        return imputed_table(X, table, by_name, self.schema_, imputed).like(X)

    def conditional(
        self, of: Any, *, given: Any = None, order: Any = None, seed: int = 0
    ) -> TableConditional:
        """The distribution of some columns given any others.

        `given`: a mapping of column to one value, or a table of rows; cells of the columns `of` in
            it are ignored; None is a row of which nothing is known. In a mapping, `Between` and
            `OneOf` are conditions on a column whose value is not known
        `order`: of the columns `of` in the chain rule of their joint distribution, None for the
            mean over random orders
        `seed`: of the draws that many conditions at once need

        Conditions hold one after another, in their order in `given`, each given those before it.
        Sets of labels are summed over exactly, ranges by 32 nodes each. Where that would be more
        than 1,024 combinations, values of further conditions are drawn, and errors are those of
        means over about as many draws.
        """
        known = self._given(given)
        unknown = self.unknown
        answer = conditional(self.model_, known, of=of, order=order, unknown=unknown, seed=seed)
        return answer.like(given)

    def sample(
        self, n: int = 1, *, given: Any = None, order: Any = None, seed: int = 0
    ) -> dict[str, np.ndarray]:
        """`n` rows drawn by the chain rule; one array per column.

        `given`: cells that are known and conditions, as in `conditional`; `n` draws for each of its
            rows, all rows of the first draw first. Of several conditions, one of 32 candidates is
            drawn by its weight, which is close to their joint distribution; of one, exactly it
        `order`: of the columns, the same for all draws; None is a random order for every draw
        """
        known = self._given(given)
        check_whole("n", n)
        if known.conditions:
            repeated = replace(known, cells=known.cells[np.tile(np.arange(len(known.cells)), n)])
            rows = repeated.particles(self.model_, seed=seed, drawn=True).drawn(1, seed=int(seed))
            draws = sample_rows(self.model_, rows, n=1, seed=seed, order=order)
        else:
            draws = sample_rows(self.model_, known.cells, n=n, seed=seed, order=order)
        return decode_all(self.schema_, draws)

    def log_prob(
        self, X: Any, *, order: Any = None, n_orders: int | None = None, seed: int = 0
    ) -> Float64[np.ndarray, "rows"]:
        """log p(row) in nats, by the chain rule: each cell given those before it.

        `order`: names of columns, others being left out of the row; None is all columns in several
            orders, of whose probabilities the mean is taken
        `n_orders`, `seed`: how many random orders, None for 8; 1 is the columns' own order

        A missing cell is no term. Each order gives a distribution of rows and so does their mean,
        which is never below the mean of their log-probabilities. Orders differ as far as the
        model's conditionals are not those of one joint distribution, see `order_disagreement`.
        """
        cells = self._cells(X)
        return row_log_prob(self.model_, cells, order=order, n_orders=n_orders, seed=seed)

    def pseudo_log_likelihood(self, X: Any) -> Float64[np.ndarray, "rows"]:
        """Sum over the cells of a row of log p(cell | all other cells), in nats.

        Not the log-probability of the row: each cell is both predicted and seen by the others.
        """
        return np.nansum(pseudo_terms(self.model_, self._cells(X)), axis=1)

    def order_disagreement(self, X: Any, *, n_orders: int = 8, seed: int = 0) -> OrderDisagreement:
        """How far the conditionals are from one joint distribution: log p(row) in random orders."""
        answer = order_disagreement(self.model_, self._cells(X), n_orders=n_orders, seed=seed)
        return answer.like(X)

    def shift_report(
        self, train: Any, new: Any, *, target: str | None = None, level: float = 0.01
    ) -> ShiftReport:
        """How new rows differ from training rows, by the model's own densities.

        `train`: rows as in training, better ones held out from it
        `target`: the column whose distribution and expert weights are compared; None is the
            response, if there is one
        `level`: chance of naming any column where nothing moved

        Expert weights are those of a linear network alone. Columns' own distributions are those
        that fit the training rows, or the model's own if it was fitted with extra_masking=1.0.
        """
        before, after = (self._cells(table) for table in (train, new))
        return self._shift(before, after, target=target, level=level).like(new)

    def _shift(
        self, before: Cells, after: Cells, *, target: str | None = None, level: float = 0.01
    ) -> ShiftReport:
        name = self.response_ if target is None else target
        weights: Callable[[Cells], np.ndarray] | None = None
        attention = self.members_[0] if self.members_ else None
        if name is not None and attention and isinstance(attention.network, LinearTableNetwork):
            weights = partial(attention.expert_weights, target=self.schema_.index(name))
        model = marginals = self.model_
        hides = self.recipe_ is None or self.recipe_.extra_masking == 1.0
        if not hides and before.present.any(0).all():
            marginals = independent_columns(before, schema=self.schema_, families=self.families_)
        return shift_report(
            model, before, after, target=name, weights=weights, marginals=marginals, level=level
        )

    def column_similarities(self) -> ColumnSimilarity:
        """Cosines between the columns' encodings; those of several tables share one space.

        Raises ExfamError for an encoding without vectors.
        """
        vectors = (
            self._attention("vectors of columns")
            .network.tokens.positions.detach()
            .double()
            .cpu()
            .numpy()
        )
        if not vectors.any():
            raise ExfamError(
                "`encoding` must give columns vectors to compare, 'learned' or 'sinusoidal', got "
                "one that gives none. Fit with encoding='learned'."
            )
        return self._framed(column_similarity(vectors, self.schema_.names))

    def position_attention(
        self, X: Any, *, term: str = "both", member: int = 0
    ) -> PositionAttention:
        """Mean attention from each hidden column to all columns, in their order.

        `term`: "both", or "contextual" for attention without the encoding

        In its own column a target sees its MASK token; absent cells have weight 0.
        """
        attention = self._attention("attention between columns")
        return table_attention(attention, self._cells(X), term=term, member=member)

    def experts(
        self, X: Any, targets: Any = None, *, member: Any = 0
    ) -> TableExperts | TableContributions:
        """What each cell adds to the outputs of each target, exactly.

        Of a base, `TableContributions`; of the attention network of base="none", the weight and the
        contribution of each expert, of one `member` of an ensemble.

        `targets`: names of columns; None is the response, or all columns without one

        All rows at once: give some hundreds. Raises ExfamError for a deep network.
        """
        cells, names = self._cells(X), self._targets(targets)
        if self.base_ is not None:
            return cell_contributions(self.base_, cells, names).like(X)
        return attention_of_table(self.model_, member=member).explained(cells, names).like(X)

    def explain(
        self, X: Any, targets: Any = None, *, member: Any = 0
    ) -> ExpertSummary | ContributionSummary:
        """Means over the rows of `X` of what each column adds, as in `experts`."""
        cells, names = self._cells(X), self._targets(targets)
        if self.base_ is not None:
            return summarize(self.base_, cells, names).like(X)
        attention = attention_of_table(self.model_, member=member)
        return summarize_experts(attention, cells, names).like(X)

    def faithfulness(
        self, X: Any, y: Any = None, *, target: str | None = None, seed: int = 0
    ) -> dict[str, DeletionInsertion]:
        """Whether the expert view names the cells that matter: deleting and inserting in its order.

        `y`: the response, if it is not a column of `X`
        `target`: the column that is predicted; None is the response

        Beside "experts" there are the curves of "permutation" importance and of a "random" order.
        """
        model = self.model_
        name = self.response_ if target is None else target
        if name is None:
            raise ExfamError("`target` must name a column where there is no response, got None.")
        cells = self._cells(X, y)
        if self.base_ is not None:
            importances = {"experts": importance(self.base_, cells, name)}
        else:
            importances = {"experts": expert_importance(model, cells, name)}
        return faithfulness(model, cells, name, importances=importances, seed=seed)

    def _attention(self, what: str) -> MaskedTableModel:
        self._check_fitted()
        if not self.members_:
            raise ExfamError(
                f"`base` must be 'none' for {what}, got a model with a base, which has no "
                "attention network. Fit with base='none'."
            )
        return self.members_[0]

    def _given(self, given: Any) -> GivenCells:
        self._check_fitted()
        return given_cells(self.schema_, given, unknown=self.unknown)

    def _targets(self, targets: Any) -> tuple[str, ...]:
        if targets is None and self.response_ is not None:
            return (self.response_,)
        return checked_columns(self.schema_, targets, argument="targets")


class MaskedTable(OneToOneFeatureMixin, TransformerMixin, JointTable):
    """A joint model of all columns of a table, none before the others.

    By default linear predictors, a small network and boosted trees of each column, pooled; with
    base="none" attention over the cells of a row. As a transformer it fills in missing cells.

    {parameters}

    After `fit`: `base_` (the default model, None with base="none"), `schema_`, `families_`,
    `tables_` (the columns of each table); of the attention network `members_` (one model that
    holds the whole ensemble), `settings_`, `recipe_` and `trials_` (what was chosen by validation),
    `history_`.
    Source of base="none": "Bidirectional attention as a mixture of continuous word experts",
    section 4.

    >>> table = {"sky": ["clear", "clouds"] * 10, "celsius": [21.0, 12.0, 25.0, 14.0] * 5}
    >>> model = MaskedTable(progress=False).fit(table)
    >>> model.conditional(["sky"], given={"celsius": 13.0}).probs("sky").shape
    (1, 2)
    """

    kind = "masked-table"
    # Without a response there is nothing to weigh or to mask.
    response_share = None
    unlabeled = "absent"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @recorded
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        validation: Any = None,
        checkpoint: str | Path | None = None,
    ) -> "MaskedTable":
        """Fit to a table, or to a list of tables whose columns are matched by name; `y` is ignored.

        A table may also be the path of a file that `exfam.read` takes.

        `sample_weight`: of every row, >= 0, a list for several tables; a row of weight 0 is left
            out
        `validation`: a table or tables that choose when to stop
        `checkpoint`: a folder from which a fit that was interrupted or killed goes on
        """
        self._check_parameters()
        X = table_of(X, self.dialect)
        given = read_given(X, None, sample_weight, supervised=False, dialect=self.dialect)
        self._remember_features(X, y, given)
        held_out = None
        if validation is not None:
            validation = table_of(validation, self.dialect)
            held_out = read_given(validation, None, None, supervised=False, dialect=self.dialect)
        self._fit(given, None, validation=held_out, checkpoint=checkpoint)
        return self

    def transform(self, X: Any) -> Any:
        """The table with missing cells filled in, of the kind that was given; see `impute`."""
        return self.impute(X).frame

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log p(cell | all other cells of its row) in nats per cell; higher is better.

        The pseudo-log-likelihood, for each cell that is there; `y` is ignored.
        """
        terms = pseudo_terms(self.model_, self._cells(X))
        weight = read_weight(sample_weight, [len(terms)], several=False)
        present = ~np.isnan(terms)
        rows = np.ones(len(terms)) if weight is None else weight
        total = float((present.sum(1) * rows).sum())
        if not total:
            raise DataError("`X` must hold a cell in some row to score, got none.")
        return float((np.where(present, terms, 0.0).sum(1) * rows).sum() / total)
