"""The default model of a table: one column's model for each that can be predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family
from exfam.tables.base.encode import TableCode
from exfam.tables.base.fill import GaussianFill
from exfam.tables.base.response import ResponseModel
from exfam.tables.base.stored import response_from_state, response_state, within
from exfam.tables.data import Cells, TableSchema


@dataclass(frozen=True, eq=False)
class TableBase:
    """p(cell | the other cells of its row that are there), by a model of each column.

    `code`, `fill`: of all columns that are seen; the response is none of them
    `columns`: the models, by the index of their column
    """

    schema: TableSchema
    families: tuple[Family, ...]
    code: TableCode
    fill: GaussianFill
    columns: Mapping[int, ResponseModel]

    def eta(
        self, cells: Cells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its family by row; one member."""
        return [torch.from_numpy(self.columns[k].eta(cells))[None] for k in targets]

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain configuration, and arrays."""
        config, arrays = self.code.to_state()
        arrays |= {f"fill.{name}": array for name, array in self.fill.arrays().items()}
        states = {}
        for k, model in self.columns.items():
            states[str(k)], own = response_state(model)
            arrays |= {f"column{k}.{name}": array for name, array in own.items()}
        return {"code": config, "models": states}, arrays

    @classmethod
    def from_state(
        cls, schema: TableSchema, families: Sequence[Family], config: Any, arrays: Any
    ) -> "TableBase":
        code = TableCode.from_state(config["code"], arrays)
        fill = GaussianFill(**within(arrays, "fill."))
        columns = {}
        for name, own in config["models"].items():
            seen, known = without_own(code, fill, int(name))
            columns[int(name)] = response_from_state(
                own, within(arrays, f"column{name}."), code=seen, fill=known
            )
        return cls(schema, tuple(families), code, fill, columns)


def without_own(code: TableCode, fill: GaussianFill, column: int) -> tuple[TableCode, GaussianFill]:
    """The code and the Gaussian of all columns but this one."""
    if column not in code.columns:
        return code, fill
    dropped = code.column_of_number == code.columns.index(column)
    return code.without(column), fill.without(dropped)
