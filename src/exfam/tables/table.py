"""The joint model of tables."""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import Tags

from exfam.checks import DataError
from exfam.tables.answers.distributions import pseudo_terms
from exfam.tables.estimator.given import read_given, read_weight
from exfam.tables.estimator.joint import JointTable


class MaskedTable(TransformerMixin, JointTable):
    """Attention over the cells of a row as a joint model of all columns, none before the others.

    As a transformer it fills in missing cells.

    {parameters}

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
    # Without a response there is nothing to weigh or to mask.
    response_share = None
    unlabeled = "absent"

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
        held_out = None
        if validation is not None:
            held_out = read_given(validation, None, None, supervised=False)
        self._fit(given, None, validation=held_out, checkpoint=checkpoint)
        return self

    def transform(self, X: Any) -> Any:
        """The table with missing cells filled in, of the kind that was given; see `impute`."""
        return self.impute(X).frame

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which `transform` keeps.

        `input_features`: the same names (default None)

        Raises DataError for other names.
        """
        self._check_fitted()
        names = np.array(self.features_, dtype=object)
        given = names if input_features is None else np.array(input_features, dtype=object)
        if given.tolist() != names.tolist():
            raise DataError(
                f"`input_features` must be equal to the columns of training, {names.tolist()}, got "
                f"{input_features!r}."
            )
        return names

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log p(cell | all other cells of its row) in nats per cell; higher is better.

        The pseudo-log-likelihood, for each cell that is there; `y` is ignored. Raises DataError
        for a table without any.
        """
        terms = pseudo_terms(self.model_, self._cells(X))
        weight = read_weight(sample_weight, [len(terms)], several=False)
        present = ~np.isnan(terms)
        rows = np.ones(len(terms)) if weight is None else weight
        total = float((present.sum(1) * rows).sum())
        if not total:
            raise DataError("`X` must hold a cell in some row to score, got none.")
        return float((np.where(present, terms, 0.0).sum(1) * rows).sum() / total)
