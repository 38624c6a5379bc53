"""How new rows differ from training rows, by a table model's own densities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from exfam.checks import DataError, ExfamError, check_inside
from exfam.tables.answers.distributions import (
    chain_log_prob,
    column_distributions,
    pseudo_terms,
    table_blocks,
)
from exfam.tables.data import Cells
from exfam.tables.networks.table_network import TableModel
from exfam.tables.shift.moves import (
    MarginalShift,
    Moved,
    TargetShift,
    bonferroni,
    marginal_shift,
    moved,
    target_shift,
)

_WIDE = 400  # wider than any table: lines end where their text does


def shift_text(report: Mapping[str, Any]) -> str:
    """Tables of what is in `ShiftReport.as_dict`, without color; a dash for None."""
    rows = report["rows"]
    parts = [
        f"Whole rows, log p by the chain rule: {_number(rows['train'])} nats on train, "
        f"{_number(rows['new'])} on new, difference {_number(rows['difference'])} ± "
        f"{_number(rows['error'])} (z = {_z(rows['z'])}).",
        f"Flags (*): chance of any false one in a column of flags at most {report['level']:g} "
        "(Bonferroni).",
        _columns(report),
    ]
    if report["target"] is not None:
        parts.append(_target(report["target"]))
    if report["weights"] is not None:
        parts.append(_weights(report["weights"], report["drifted"]))
    return "\n\n".join(parts)


def _columns(report: Mapping[str, Any]) -> str:
    lines = [_column(column, report) for column in report["columns"]]
    header = [
        "column",
        "own distribution",
        "p",
        "",
        "log p given others",
        "difference",
        "z",
        "",
        "absent",
    ]
    return _table("Columns: train -> new", header, lines)


def _column(column: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    name, given, absent = column["name"], column["conditional"], column["absent"]
    own = column["marginal"]
    if "new_kl" in own:
        own_text = f"KL {_arrow(own['train_kl'], own['new_kl'])} nats"
    else:
        mean = _arrow(own.get("train_mean_shift"), own.get("new_mean_shift"))
        own_text = (
            f"mean {mean} sd, sd x {_arrow(own.get('train_sd_ratio'), own.get('new_sd_ratio'))}"
        )
    return [
        name,
        own_text,
        "-" if own["p"] is None else f"{own['p']:.2g}",
        "*" if name in report["shifted"] else "",
        _arrow(given["train"], given["new"]),
        f"{_number(given['difference'])} ± {_number(given['error'])}",
        _z(given["z"]),
        "*" if name in report["surprising"] else "",
        _arrow(absent["train"], absent["new"]),
    ]


def _target(target: Mapping[str, Any]) -> str:
    lines = []
    for key in ("predicted", "observed"):
        names = target["labels"] or ["mean"]
        lines += [
            [f"{key} {name}", *_move(move)] for name, move in zip(names, target[key], strict=True)
        ]
        if target[f"{key}_sd"] is not None:
            before, after = target[f"{key}_sd"]
            lines.append([f"{key} sd", _arrow(before, after), "", ""])
    return _table(f"Target {target['name']}", ["", "train -> new", "difference", "z"], lines)


def _weights(weights: Mapping[str, Any], drifted: Sequence[str]) -> str:
    lines = [[name, *_move(move), "*" if name in drifted else ""] for name, move in weights.items()]
    return _table("Mean expert weights", ["", "train -> new", "difference", "z", ""], lines)


def _move(move: Mapping[str, Any]) -> list[str]:
    difference = f"{_number(move['difference'])} ± {_number(move['error'])}"
    return [_arrow(move["train"], move["new"]), difference, _z(move["z"])]


def _table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(name, no_wrap=True)
    for line in lines:
        table.add_row(*line)
    out = StringIO()
    console = Console(file=out, width=_WIDE, color_system=None, markup=False, emoji=False)
    console.print(table)
    kept = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    return "\n".join([f"{title}:", *kept])


def _arrow(before: float | None, after: float | None) -> str:
    return f"{_number(before)} -> {_number(after)}"


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def _z(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"


Weights = Callable[[Cells], Float[np.ndarray, "rows columns"]]


@dataclass(frozen=True)
class ColumnShift:
    """How one column moved.

    `absent`: share of absent cells
    `conditional`: mean log p(cell | all other present cells of the row), in nats
    `marginal`: the cells beside the model's marginal distribution
    """

    name: str
    kind: str
    absent: Moved
    conditional: Moved
    marginal: MarginalShift

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        parts = {key: getattr(self, key).as_dict() for key in ("absent", "conditional", "marginal")}
        return {"name": self.name, "kind": self.kind, **parts}


@dataclass(frozen=True)
class ShiftReport:
    """How new rows differ from training rows; `str` gives tables, `as_dict` plain JSON.

    `rows`: mean log p(row) by the chain rule in the table's order, in nats
    `target`: the distribution of the target, predicted and observed; None without one
    `weights`: by column, the mean weight of its expert in predictions of the target; None where
        no weights were given
    `level`: of the tests behind `shifted`, `surprising` and `drifted`, over all columns together
    """

    columns: tuple[ColumnShift, ...]
    rows: Moved
    target: TargetShift | None
    weights: dict[str, Moved] | None
    level: float

    @property
    def shifted(self) -> tuple[str, ...]:
        """Columns whose own distribution moved: marginal p-values by Bonferroni's rule."""
        p = {column.name: column.marginal.p for column in self.columns}
        return bonferroni(p, level=self.level)

    @property
    def surprising(self) -> tuple[str, ...]:
        """Columns that fit the others of their row less or better: z tests by Bonferroni's rule.

        One column that moved alone surprises those that depend on it as well.
        """
        p = {column.name: column.conditional.p for column in self.columns}
        return bonferroni(p, level=self.level)

    @property
    def drifted(self) -> tuple[str, ...]:
        """Columns whose mean expert weight moved: z tests by Bonferroni's rule."""
        p = {name: move.p for name, move in (self.weights or {}).items()}
        return bonferroni(p, level=self.level)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; None for what is not a finite number."""
        weights = self.weights
        return {
            "level": self.level,
            "shifted": list(self.shifted),
            "surprising": list(self.surprising),
            "drifted": list(self.drifted),
            "rows": self.rows.as_dict(),
            "columns": [column.as_dict() for column in self.columns],
            "target": None if self.target is None else self.target.as_dict(),
            "weights": weights and {name: move.as_dict() for name, move in weights.items()},
        }

    def __str__(self) -> str:
        return shift_text(self.as_dict())


def shift_report(
    model: TableModel,
    train: Cells,
    new: Cells,
    *,
    target: str | None,
    weights: Weights | None = None,
    marginals: TableModel | None = None,
    level: float = 0.01,
) -> ShiftReport:
    """How p(row), each column, p(target) and the weights of experts moved from train to new rows.

    `train`: rows that the model was fitted to, or better rows held out from the fit: it knows the
        former too well, which looks like a shift of all columns in `surprising` and in `rows`
    `weights`: gives the weight of each column's expert in predictions of the target, in [0, 1], for
        some rows; None where the model has no exact experts (default None)
    `marginals`: whose distributions of a row without cells are the columns' own; None is `model`,
        which knows them only if it was fitted to rows of which all cells may be hidden (default
        None)
    `level`: chance that `shifted`, and likewise `surprising` and `drifted`, names any column if
        nothing moved (default 0.01)

    Standard errors take rows as independent. Raises DataError for an unknown target and without
    rows, ExfamError for weights without a target or of another shape, and for a level outside
    (0, 1).
    """
    for name, cells in (("train", train), ("new", new)):
        if not len(cells):
            raise DataError(f"`{name}` must hold at least one row, got none.")
    if weights is not None and target is None:
        raise ExfamError("`target` must name the column that `weights` predict, got None.")
    check_inside("level", level)
    return ShiftReport(
        _column_shifts(model, marginals or model, train, new),
        rows=moved(chain_log_prob(model, train), chain_log_prob(model, new)),
        target=None if target is None else target_shift(model, train, new, target=target),
        weights=None if weights is None else _weight_drift(weights, model.schema.names, train, new),
        level=level,
    )


def _column_shifts(
    model: TableModel, marginals: TableModel, train: Cells, new: Cells
) -> tuple[ColumnShift, ...]:
    schema = model.schema
    before, after = pseudo_terms(model, train), pseudo_terms(model, new)
    marginal = column_distributions(marginals, Cells.absent(1, len(schema)), schema.targets)
    return tuple(
        ColumnShift(
            column.name,
            column.kind,
            absent=moved(*(1.0 - cells.present[:, j] for cells in (train, new))),
            conditional=moved(before[:, j], after[:, j]),
            marginal=marginal_shift(marginal[column.name], train.value[:, j], new.value[:, j]),
        )
        for j, column in enumerate(schema.columns)
        if not column.input_only
    )


def _weight_drift(
    weights: Weights, names: tuple[str, ...], train: Cells, new: Cells
) -> dict[str, Moved]:
    before, after = (_all_weights(weights, cells) for cells in (train, new))
    return {name: moved(before[:, j], after[:, j]) for j, name in enumerate(names)}


def _all_weights(weights: Weights, cells: Cells) -> Float64[np.ndarray, "rows columns"]:
    blocks = table_blocks(len(cells), numbers=cells.code.shape[1])
    whole = np.concatenate([weights(cells[block]) for block in blocks]).astype(np.float64)
    if whole.shape != cells.code.shape:
        raise ExfamError(
            f"`weights` must give rows x columns = {cells.code.shape} numbers, got {whole.shape}."
        )
    return whole
