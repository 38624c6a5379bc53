"""Estimators of tables: reading, fitting, saving and loading."""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from exfam.checks import DataError, with_types
from exfam.estimator.base import Estimator, attribute
from exfam.estimator.gain import Gain
from exfam.estimator.plain import from_plain
from exfam.estimator.rules import checkpoint_path
from exfam.estimator.seen import Overlap, Seen, overlap
from exfam.families import Family, family_from_config, family_to_config
from exfam.groups.arrange import row_hashes
from exfam.tables import data
from exfam.tables.answers.distributions import TableModel
from exfam.tables.base.table_base import TableBase, within
from exfam.tables.data.table_files import read_marked, table_of
from exfam.tables.estimator.choice import Trial, best_recipe, fit_table, recipes_of
from exfam.tables.estimator.declarations import (
    TableBaseParameters,
    TableColumnKinds,
    TableFit,
    TableModelParameters,
    TableTraining,
)
from exfam.tables.estimator.fit_base import base_fits, fit_table_base
from exfam.tables.estimator.given import (
    GivenTables,
    is_several,
    missing_shares,
    name_shell,
    read_response,
    warn_of_lacking,
    warn_of_missing,
    with_column,
    without_column,
)
from exfam.tables.estimator.plan import (
    Recipe,
    Response,
    TablePlan,
    check_label_families,
    check_support,
    column_families,
    learn_columns,
    split_rows,
)
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.parts import TableSettings
from exfam.training.history import History


class TableEstimator(
    TableColumnKinds,
    TableModelParameters,
    TableBaseParameters,
    TableTraining,
    TableFit,
    Estimator,
    BaseEstimator,
    ABC,
):
    """Estimators of p(cell | the other cells of its row that are there)."""

    unlabeled: str = attribute()
    response_share: float | None = attribute()

    base_: TableBase | None = attribute()
    members_: list[MaskedTableModel] = attribute()
    schema_: data.TableSchema = attribute()
    families_: tuple[Family, ...] = attribute()
    settings_: TableSettings | None = attribute()
    response_: str | None = attribute()
    tables_: tuple[tuple[str, ...], ...] = attribute()
    histories_: list[History] = attribute()
    recipe_: Recipe | None = attribute()
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
    def model_(self) -> TableModel:
        """The fitted model: the base, or all members of an ensemble of attention networks."""
        self._check_fitted()
        return self.members_[0] if self.base_ is None else self.base_

    @property
    def gain_(self) -> Gain | None:
        """What network and trees added to linear predictors of the response, on held-out rows.

        None without a response or with base="none".
        """
        self._check_fitted()
        if self.base_ is None or self.response_ is None:
            return None
        return self.base_.columns[self.schema_.index(self.response_)].gain

    @property
    def vocabulary_(self) -> dict[str, np.ndarray]:
        """The labels of each column that has labels, in the order of their codes."""
        columns = self.schema_.columns
        return {column.name: column.labels for column in columns if column.labels is not None}

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

        The response may be a column of `X`, or given beside it. Rows are the same if all cells are.
        """
        return self._seen(self._cells(X, y)).like(X)

    def _seen(self, cells: data.Cells) -> Overlap:
        return overlap(self, row_hashes(cells.value))

    def _check_response(self, column: data.Column) -> None:
        """Raise ExfamError for parameters that do not fit the response as it was learned."""

    def _fit(
        self,
        given: GivenTables,
        response: Response | None,
        *,
        validation: GivenTables | None,
        checkpoint: str | Path | None,
    ) -> None:
        schema = learn_columns(self, given.whole, response)
        if response is not None:
            self._check_response(schema.column(response.name))
        plan = self._plan(given, response, schema, validation, checkpoint)
        # A fit that fails must not leave the last one's members beside this one's schema.
        self.__dict__.pop("members_", None)
        members = self._fit_base(plan) if base_fits(self, plan) else self._fit_attention(plan)
        self.schema_ = schema
        self.response_ = None if response is None else response.name
        self.tables_ = tuple(table.names for table in given.tables)
        missing = missing_shares(given.tables, self.features_)
        self.missing_share_, self.most_missing_ = float(missing.mean()), float(missing.max())
        self.members_ = members

    def _fit_base(self, plan: TablePlan) -> list[MaskedTableModel]:
        self.base_ = fit_table_base(self, plan)
        self.families_, self.settings_, self.recipe_ = self.base_.families, None, None
        self.histories_, self.trials_ = [], ()
        return []

    def _fit_attention(self, plan: TablePlan) -> list[MaskedTableModel]:
        model, history, self.trials_ = fit_table(self, plan)
        self.recipe_ = best_recipe(self.trials_) if self.trials_ else recipes_of(self, plan)[0]
        self.families_, self.settings_ = plan.families, model.network.settings
        self.base_, self.histories_ = None, [history]
        return [model]

    def _plan(
        self,
        given: GivenTables,
        response: Response | None,
        schema: data.TableSchema,
        validation: GivenTables | None,
        checkpoint: str | Path | None,
    ) -> TablePlan:
        families = column_families(schema, response, self.families or {})
        cells = data.encode_all(schema, given.whole, unknown=self.unknown)
        held_out = None
        if validation is not None:
            held_out = data.encode_all(schema, validation.whole, unknown=self.unknown)
        own = [] if response is None or response.family is None else [response.name]
        for name in [*own, *(self.families or {})]:
            column = schema.index(name)
            check_support(name, families[column], cells.value[:, column])
        weight, index = given.weight, None if response is None else schema.index(response.name)
        fitted_on = [part.value for part in (cells, held_out) if part is not None]
        self.seen_ = Seen.of(list(map(row_hashes, fitted_on)))
        self.data_counts_ = {"rows": sum(map(len, fitted_on)), "columns": len(schema)}
        if held_out is None:
            present = cells.present
            eligible = np.asarray(present.any(1) if index is None else present[:, index])
            kept, held = split_rows(eligible, fraction=self.validation_fraction, seed=self.seed)
            held_out = cells[held] if len(held) else None
            cells, weight = cells[kept], None if weight is None else weight[kept]
        path = checkpoint_path(checkpoint)
        return TablePlan(schema, cells, index, families, weight, held_out, path)

    def _remember_features(self, X: Any, y: Any, given: GivenTables) -> None:
        names = dict.fromkeys(name for table in given.tables for name in table.names)
        shell = name_shell(list(names)) if is_several(X) or data.has_names(X) else X
        try:
            validate_data(self, shell, y, reset=True, skip_check_array=True)
        except ValueError as error:  # scikit-learn's own
            raise DataError(f"{error} Give `y`, the response of each row.") from error

    def _cells(
        self, X: Any, y: Any = None, *, joint: bool = True, becomes: Mapping[str, str] | None = None
    ) -> data.Cells:
        """The rows of `X`, and beside them of `y`, unless it may be a column (`joint`)."""
        table = self._read(X, joint=joint)
        if y is not None:
            if self.response_ is None or self.response_ in table.names:
                raise DataError(
                    "`y` must be None where there is no response, or it is in `X`, got "
                    f"{type(y).__name__}. Give the response once."
                )
            column = read_response(y, name=self.response_, n_rows=table.n_rows)
            table = with_column(table, self.response_, column)
        warn_of_missing(self, table)
        return data.encode_table(self.schema_, table, unknown=self.unknown, becomes=becomes)

    def _read(self, X: Any, *, joint: bool = True) -> data.RawTable:
        self._check_fitted()
        if is_several(X):
            raise DataError(
                f"`X` must be one table, got a list of {len(X)}. Give each by itself: several are "
                "one only in `fit`."
            )
        left_out = None if joint else self.response_
        X = table_of(X, self.dialect, schema=self.schema_, without=left_out)
        table, named = read_marked(X, self.dialect), data.has_names(X)
        response = self.response_ if joint and named else None
        own = without_column(table, response)
        if not self._may_lack_columns:
            try:
                # Names alone are compared, not their order: columns are matched by name.
                shell = name_shell(self._in_order_of_fit(own.names)) if named else X
                validate_data(self, shell, reset=False, skip_check_array=True)
            except ValueError as error:
                message = str(error).rstrip().rstrip(".")
                raise DataError(
                    f"{message}. Columns are matched by name; pass missing_columns='absent' to "
                    "predict from some of them."
                ) from error
        elif self.missing_columns == "auto" and named:
            warn_of_lacking(self, own)
        if own.names and not (named and hasattr(self, "feature_names_in_")):
            # Columns without names, now or in training, are matched by position.
            names = self.features_
            if len(own.names) != len(names):
                raise DataError(
                    f"`X` must have {len(names)} columns where they are matched by position, got "
                    f"{len(own.names)}. Give a frame with names."
                )
            columns = zip(names, own.columns.values(), strict=True)
            own = data.RawTable(dict(columns), own.n_rows)
        if response in table.names:
            assert response is not None
            own = with_column(own, response, table.columns[response])
        return own

    def _in_order_of_fit(self, names: Iterable[str]) -> list[str]:
        index = {name: k for k, name in enumerate(self.features_)}
        return sorted(names, key=lambda name: index.get(name, len(index)))

    @property
    def _may_lack_columns(self) -> bool:
        by_itself = len(self.tables_) > 1 or self.base_ is not None
        return self.missing_columns == "absent" or (self.missing_columns == "auto" and by_itself)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        schema = self.schema_.to_config()
        config = {
            "columns": [column | {"labels": None} for column in schema["columns"]],
            "dates": schema["dates"],
            "families": [family_to_config(family) for family in self.families_],
            "settings": None if self.settings_ is None else asdict(self.settings_),
            "response": self.response_,
            "tables": [list(names) for names in self.tables_],
            "feature_names": getattr(self, "feature_names_in_", np.array([])).tolist(),
            "missing_share": self.missing_share_,
            "most_missing": self.most_missing_,
            "recipe": None if self.recipe_ is None else asdict(self.recipe_),
            "trials": [asdict(trial) for trial in self.trials_],
            "base": None,
        }
        if self.base_ is None:
            return config, {}
        config["base"], arrays = self.base_.to_state()
        return config, {f"base.{name}": torch.from_numpy(a) for name, a in arrays.items()}

    def _restore(self, config: Any, tensors: Any, vocabulary: Any) -> None:
        columns = [c | {"labels": vocabulary.get(c["name"])} for c in config["columns"]]
        self.schema_ = data.TableSchema.from_config({**config, "columns": columns})
        self.families_ = tuple(family_from_config(family) for family in config["families"])
        check_label_families(self.schema_, self.families_)
        self.response_ = config["response"]
        self.tables_ = tuple(tuple(names) for names in config["tables"])
        # Older files lack them; then nothing is far more.
        self.missing_share_ = float(config.get("missing_share", 1.0))
        self.most_missing_ = float(config.get("most_missing", 1.0))
        self._restore_model(config, tensors)
        self.trials_ = tuple(
            Trial(**{**trial, "recipe": Recipe(**trial["recipe"])}) for trial in config["trials"]
        )
        self.n_features_in_ = len(self.features_)
        if config["feature_names"]:
            self.feature_names_in_ = np.array([str(n) for n in config["feature_names"]], object)

    def _restore_model(self, config: Any, tensors: Any) -> None:
        if "base" not in config:  # older versions had none
            self.base = self.parameters_["base"] = "none"
        self.base_, self.settings_, self.recipe_ = None, None, None
        if (base := config.get("base")) is not None:
            arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
            own = within(arrays, "base.")
            self.base_ = TableBase.from_state(self.schema_, self.families_, base, own)
            self.members_, self.histories_ = [], []
            return
        self.settings_ = with_types(TableSettings(**from_plain(config["settings"])))
        self.recipe_ = with_types(Recipe(**config["recipe"]))

    def _restored_member(self, config: Any) -> MaskedTableModel:
        assert self.settings_ is not None
        own, generator = (self.schema_, self.settings_), torch.Generator().manual_seed(0)
        return build_masked_table(*own, families=self.families_, cells=None, generator=generator)
