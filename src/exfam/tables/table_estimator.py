"""What all estimators of tables share: reading tables, fitting, saving and loading."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from exfam.checks import DataError, with_types
from exfam.estimator.base import Estimator
from exfam.estimator.declared import attribute
from exfam.estimator.seen import Overlap, Seen, overlap
from exfam.families import Family, family_from_config, family_to_config
from exfam.groups.hashing import row_hashes
from exfam.tables.choice import Trial, best_of, fit_table, recipes_of
from exfam.tables.column_families import check_label_families, check_support, column_families
from exfam.tables.data import Cells, RawTable, TableSchema, encode, read_table
from exfam.tables.declarations import TableColumnKinds, TableModelParameters, TableTraining
from exfam.tables.inputs import (
    Given,
    encode_all,
    has_names,
    is_several,
    name_shell,
    read_response,
    with_column,
    without_column,
)
from exfam.tables.missing import missing_shares, warn_of_missing
from exfam.tables.networks.assemble import TableSettings
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.plan import Response, learn_columns, split_rows
from exfam.tables.training import Recipe, TablePlan, empty_model
from exfam.training.checkpoints import checkpoint_path
from exfam.training.history import History

__all__ = ["TableEstimator"]

# Bins, or knots, of a column of numbers: one for so many rows, at least and at most these.
# Bins are as many as rows can fill; of knots more than a few cost more by chance than they tell.
_ROWS_A_BIN, _BINS = 16, (8, 32)
_ROOTS_A_KNOT, _KNOTS = 6, (4, 16)


class TableEstimator(
    TableColumnKinds, TableModelParameters, TableTraining, Estimator, BaseEstimator, ABC
):
    """Estimators of p(cell | the other cells of its row that are there).

    A table is a frame (pandas, polars, pyarrow, a mapping of columns) or an array; a missing cell
    (NaN, None, NA, null) is absent, in training and after. A list of tables is fitted as one: their
    columns are matched by name.
    """

    unlabeled: str = attribute()
    response_share: float | None = attribute()

    members_: list[MaskedTableModel] = attribute()
    schema_: TableSchema = attribute()
    families_: tuple[Family, ...] = attribute()
    settings_: TableSettings = attribute()
    response_: str | None = attribute()
    tables_: tuple[tuple[str, ...], ...] = attribute()
    histories_: list[History] = attribute()
    recipe_: Recipe = attribute()
    missing_share_: float = attribute()
    most_missing_: float = attribute()
    trials_: tuple[Trial, ...] = attribute()
    n_features_in_: int = attribute()

    def __sklearn_tags__(self) -> Tags:
        """Arrays are taken as well as frames; missing cells, texts and categories as they are."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags

    @property
    def model_(self) -> MaskedTableModel:
        """The fitted model: all members of the ensemble."""
        check_is_fitted(self)
        return self.members_[0]

    @property
    def vocabulary_(self) -> dict[str, np.ndarray]:
        """The labels of each column that has labels, in the order of their codes."""
        return {
            column.name: column.labels
            for column in self.schema_.columns
            if column.labels is not None
        }

    @property
    def features_(self) -> tuple[str, ...]:
        """The columns of `X`, of all tables, in the order of first appearance."""
        return tuple(
            column.name
            for column in self.schema_.columns
            if column.name != self.response_ and column.part_of is None
        )

    def seen_in_fit(self, X: Any, y: Any = None) -> Overlap:
        """Which rows of `X` the model was fitted on, or its epoch was chosen by.

        The response may be a column of `X`, or given beside it. Rows are the same if all cells are,
        which new rows can be by chance: `Overlap` has the number to expect. All are unknown (NaN)
        of models that older versions saved.
        """
        return self._seen(self._cells(X, y))

    def _seen(self, cells: Cells) -> Overlap:
        return overlap(self, row_hashes(cells.value))

    def _fit(
        self,
        given: Given,
        response: Response | None,
        *,
        validation: Cells | None,
        schema: TableSchema,
        checkpoint: str | Path | None,
    ) -> None:
        """Fit to all tables and keep what was learned."""
        families = column_families(schema, response, self.families)
        cells = encode_all(schema, given.whole, unknown=self.unknown)
        place = None if response is None else schema.place(response.name)
        own = [] if response is None or response.family is None else [response.name]
        for name in [*own, *(self.families or {})]:
            column = schema.place(name)
            check_support(name, families[column], cells, column)
        weight = given.weight
        both = [cells] if validation is None else [cells, validation]
        self.seen_ = Seen.of([row_hashes(part.value) for part in both])
        if validation is None:
            present = cells.present
            eligible = np.asarray(present.any(1) if place is None else present[:, place])
            kept, held = split_rows(eligible, fraction=self.validation_fraction, seed=self.seed)
            validation = cells[held] if len(held) else None
            cells, weight = cells[kept], None if weight is None else weight[kept]
        # A fit that fails must not leave the last one's members beside this one's schema.
        self.__dict__.pop("members_", None)
        plan = TablePlan(
            schema=schema,
            cells=cells,
            response=place,
            families=families,
            weight=weight,
            validation=validation,
            checkpoint=checkpoint_path(checkpoint),
        )
        fitted, self.trials_ = fit_table(self, plan)
        self.recipe_ = best_of(self.trials_) if self.trials_ else recipes_of(self, plan)[0]
        self.schema_, self.families_, self.settings_ = schema, families, fitted.settings
        self.response_ = None if response is None else response.name
        self.tables_ = tuple(table.names for table in given.tables)
        missing = missing_shares(given.tables, self.features_)
        self.missing_share_, self.most_missing_ = float(missing.mean()), float(missing.max())
        self.histories_ = [fitted.history]
        self.members_ = [fitted.model]

    def _learn(self, given: Given, response: Response | None) -> TableSchema:
        tables, n_bins, n_knots = given.whole, self.n_bins, self.n_bins
        if n_bins == "auto":
            n_rows = sum(table.n_rows for table in tables)
            n_bins = np.clip(n_rows // _ROWS_A_BIN, *_BINS)
            n_knots = np.clip(round(n_rows**0.5 / _ROOTS_A_KNOT), *_KNOTS)
        schema = learn_columns(
            tables,
            response,
            kinds=self.kinds,
            date_format=self.date_format,
            numeric=self.numeric,
            n_bins=int(n_bins),
            n_knots=int(n_knots),
        )
        if not schema.targets:
            raise DataError(
                "`X` must have a column besides dates, got dates alone. Dates are inputs: give "
                "what they are to tell of, or days since a date as a number."
            )
        return schema

    def _remember_features(self, X: Any, y: Any, given: Given) -> None:
        """What scikit-learn keeps of the columns of `X`."""
        if is_several(X):
            names = list(dict.fromkeys(name for table in given.tables for name in table.names))
            shell: Any = name_shell(names)
        else:
            shell = name_shell(given.tables[0].names) if has_names(X) else X
        try:
            validate_data(self, shell, y, reset=True, skip_check_array=True)
        except ValueError as error:  # scikit-learn's own
            raise DataError(f"{error} Give `y`, the response of each row.") from error

    def _features(self, X: Any) -> Cells:
        """Rows to predict for, by the columns of `X` in training; no response among them.

        Raises DataError for other columns.
        """
        table = self._read(X, joint=False)
        return self._encoded(table)

    def _cells(self, X: Any, y: Any = None, *, becomes: Mapping[str, str] | None = None) -> Cells:
        """Whole rows: the response may be a column of `X`, or given beside it.

        `becomes`: what a warning says of labels that training did not have, see `encode`
        """
        table = self._read(X, joint=True)
        if y is not None:
            if self.response_ is None or self.response_ in table.names:
                raise DataError(
                    "`y` must be None where there is no response, or it is in `X`, got "
                    f"{type(y).__name__}. Give the response once."
                )
            column = read_response(y, name=self.response_, n_rows=table.n_rows)
            table = with_column(table, self.response_, column)
        return self._encoded(table, becomes=becomes)

    def _encoded(self, table: RawTable, *, becomes: Mapping[str, str] | None = None) -> Cells:
        warn_of_missing(
            table,
            self.features_,
            fitted=self.missing_share_,
            most=self.most_missing_,
            extra_masking=self.recipe_.extra_masking,
        )
        return encode(self.schema_, table, unknown=self.unknown, becomes=becomes)

    def _read(self, X: Any, *, joint: bool) -> RawTable:
        check_is_fitted(self)
        if is_several(X):
            raise DataError(
                f"`X` must be one table, got a list of {len(X)}. Give each by itself: several are "
                "one only in `fit`."
            )
        table = read_table(X)
        response = self.response_ if joint and has_names(X) else None
        own = without_column(table, response)
        if not self._may_lack_columns:
            self._check_columns(X, own)
        if own.names:
            own = self._renamed(own, named=has_names(X))
        if response in table.names:
            assert response is not None
            own = with_column(own, response, table.columns[response])
        return own

    @property
    def _may_lack_columns(self) -> bool:
        if self.missing_columns == "auto":
            return len(self.tables_) > 1
        return self.missing_columns == "absent"

    def _check_columns(self, X: Any, table: RawTable) -> None:
        shell = name_shell(table.names) if has_names(X) else X
        try:
            validate_data(self, shell, reset=False, skip_check_array=True)
        except ValueError as error:
            told = str(error).rstrip().rstrip(".")
            raise DataError(
                f"{told}. Columns are matched by name; pass missing_columns='absent' to predict "
                "from some of them."
            ) from error

    def _renamed(self, table: RawTable, *, named: bool) -> RawTable:
        """Columns without names, then or now, are matched by place."""
        names = self.features_
        by_place = not named or not hasattr(self, "feature_names_in_")
        if not by_place:
            return table
        if len(table.names) != len(names):
            raise DataError(
                f"`X` must have {len(names)} columns where they are matched by place, got "
                f"{len(table.names)}. Give a frame with names."
            )
        columns = zip(names, table.columns.values(), strict=True)
        return RawTable(names, dict(columns), n_rows=table.n_rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a saved model needs besides parameters and members: plain JSON, and tensors."""
        schema = self.schema_.to_config()
        config = {
            "columns": [{**each, "labels": None} for each in schema["columns"]],
            "dates": schema["dates"],
            "families": [family_to_config(family) for family in self.families_],
            "settings": asdict(self.settings_),
            "response": self.response_,
            "tables": [list(names) for names in self.tables_],
            "feature_names": getattr(self, "feature_names_in_", np.array([])).tolist(),
            "missing_share": self.missing_share_,
            "most_missing": self.most_missing_,
            "recipe": asdict(self.recipe_),
            "trials": [asdict(trial) for trial in self.trials_],
        }
        return config, {}

    def _restore(self, config: Any, tensors: Any, vocabulary: Any) -> None:
        """Take back what `_state` gave."""
        held = [{**each, "labels": vocabulary.get(each["name"])} for each in config["columns"]]
        self.schema_ = TableSchema.from_config({**config, "columns": held})
        self.families_ = tuple(family_from_config(each) for each in config["families"])
        check_label_families(self.schema_, self.families_)
        # JSON knows no tuples.
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["settings"].items()
        }
        self.settings_ = with_types(TableSettings(**settings))
        self.response_ = config["response"]
        self.tables_ = tuple(tuple(names) for names in config["tables"])
        # Older files do not say them; then nothing is far more.
        self.missing_share_ = float(config.get("missing_share", 1.0))
        self.most_missing_ = float(config.get("most_missing", 1.0))
        self.recipe_ = with_types(Recipe(**config["recipe"]))
        self.trials_ = tuple(
            Trial(**{**trial, "recipe": Recipe(**trial["recipe"])}) for trial in config["trials"]
        )
        self.n_features_in_ = len(self.features_)
        if config["feature_names"]:
            self.feature_names_in_ = np.array([str(n) for n in config["feature_names"]], object)

    def _restored_member(self, config: Any) -> MaskedTableModel:
        return empty_model(self.schema_, self.families_, self.settings_)
