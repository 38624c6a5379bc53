"""The default model of a table, one model for each column, and its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError
from exfam.estimator.gain import Gain
from exfam.families import Family
from exfam.tables.base.encode import TableCode
from exfam.tables.base.forest import Forest
from exfam.tables.base.later import LaterPool
from exfam.tables.base.linear_heads import LinearHead
from exfam.tables.base.pool import Pool
from exfam.tables.base.residual_network import ResidualNetwork
from exfam.tables.base.response import FoldMembers, ResponseModel
from exfam.tables.base.target_statistics import FoldStatistics
from exfam.tables.base.unit import Unit
from exfam.tables.base.views import GaussianFill
from exfam.tables.data import Cells, TableSchema

Arrays = Mapping[str, np.ndarray]
_HEAD = ("center", "spread", "weights", "bias", "shared", "products")


@dataclass(frozen=True, eq=False)
class TableBase:
    """p(cell | the other cells of its row that are there), by a model of each column.

    `code`, `fill`: of all columns that are seen; the response is none of them
    `columns`: the models, by the index of their column; of very many the response's alone
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
        return [torch.from_numpy(self.column(k).eta(cells))[None] for k in targets]

    def column(self, k: int) -> ResponseModel:
        """The model of a column.

        Raises ExfamError for a column that has none.
        """
        if k not in self.columns:
            raise ExfamError(
                f"the column to predict must have a model, got {self.schema.names[k]!r}, which has "
                "none: with a response, a table of many columns has a model of the response alone. "
                "Use MaskedTable, or give the column as the response."
            )
        return self.columns[k]

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


def response_state(model: ResponseModel) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All of one column's model but its code and its Gaussian, which columns share."""
    folds, arrays = [], _pool_arrays("pool", model.pool)
    if model.later is not None:
        arrays |= _pool_arrays("later", model.later.pool)
    for k, fold in enumerate(model.folds):
        own: dict[str, Any] = {}
        for name, member in vars(fold).items():
            if member is None:
                continue
            own[name] = _member_config(member)
            arrays |= {f"{k}.{name}.{part}": a for part, a in _member_arrays(member).items()}
        folds.append(own)
    config = {
        "folds": folds,
        "df": model.pool.df,
        "n_labels": model.n_labels,
        "unit": asdict(model.unit),
        "gain": None if model.gain is None else asdict(model.gain),
    }
    if (later := model.later) is not None:
        config["later"] = {"df": later.pool.df, "column": later.column, "last": later.last}
    return config, arrays


def response_from_state(
    config: Mapping[str, Any], arrays: Arrays, *, code: TableCode, fill: GaussianFill
) -> ResponseModel:
    """The model that `response_state` describes."""
    folds = []
    for k, own in enumerate(config["folds"]):
        members = {
            name: _member(name, member, within(arrays, f"{k}.{name}."))
            for name, member in own.items()
        }
        folds.append(FoldMembers(**{"ridge": None, **members}))
    pool = _pool(within(arrays, "pool."), config["df"])
    unit, gain, later = Unit(**config["unit"]), config.get("gain"), config.get("later")
    gain = None if gain is None else Gain(**gain)
    if later is not None:
        of_later = _pool(within(arrays, "later."), later["df"])
        later = LaterPool(of_later, int(later["column"]), float(later["last"]))
    return ResponseModel(code, fill, tuple(folds), pool, config["n_labels"], unit, gain, later)


def _pool_arrays(name: str, pool: Pool) -> dict[str, np.ndarray]:
    arrays = {f"{name}.weights": pool.weights, f"{name}.scale": pool.scale}
    return arrays if pool.by_gap is None else arrays | {f"{name}.by_gap": pool.by_gap}


def _pool(arrays: Arrays, df: Any) -> Pool:
    """Older folders have no third number of the scale, and nothing by gaps."""
    scale = np.pad(arrays["scale"], ((0, 0), (0, 3 - arrays["scale"].shape[1])))
    return Pool(arrays["weights"], scale, float(df), arrays.get("by_gap"))


def within(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with the prefix, by what follows it."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


def _member_config(member: Any) -> dict[str, Any]:
    if isinstance(member, LinearHead):
        return {"penalty": member.penalty, "validation": member.validation}
    if isinstance(member, ResidualNetwork):
        return {"n_features": member.n_features, "n_outputs": member.n_outputs}
    return {}


def _member_arrays(member: Any) -> dict[str, np.ndarray]:
    if isinstance(member, np.ndarray):
        return {"outputs": member}
    if isinstance(member, LinearHead):
        return {name: getattr(member, name) for name in _HEAD}
    if isinstance(member, ResidualNetwork):
        return {name: part.detach().cpu().numpy() for name, part in member.state_dict().items()}
    arrays: dict[str, np.ndarray] = member.arrays()
    return arrays


def _member(name: str, config: Mapping[str, Any], arrays: Arrays) -> Any:
    if name == "constant":
        return arrays["outputs"]
    if name in ("linear", "products", "ridge", "ordered"):
        held: dict[str, Any] = {part: arrays[part] for part in _HEAD}
        return LinearHead(**held, **config)
    if name == "network":
        network = ResidualNetwork(**config, generator=torch.Generator().manual_seed(0))
        network.load_state_dict({part: torch.from_numpy(a) for part, a in arrays.items()})
        return network.eval()
    if name == "statistics":
        return FoldStatistics.from_arrays(arrays)
    return Forest.from_arrays(arrays)
