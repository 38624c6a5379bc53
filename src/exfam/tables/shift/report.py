"""How new rows differ from training rows, by a table model's own densities, and as text."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from io import StringIO
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from exfam.checks import DataError, check_inside
from exfam.columns.results import PlottedResult
from exfam.tables.answers.distributions import (
    TableModel,
    chain_log_prob,
    column_distributions,
    pseudo_terms,
)
from exfam.tables.data import Cells
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
    rows, drifted = report["rows"], report["drifted"]
    own, given = ["column", "own distribution", "p", ""], ["log p given others", "difference", "z"]
    header = [*own, *given, "", "absent"]
    parts = [
        f"Whole rows, log p by the chain rule: {_number(rows['train'])} nats on train, "
        f"{_number(rows['new'])} on new, difference {_number(rows['difference'])} ± "
        f"{_number(rows['error'])} (z = {_number(rows['z'], 1)}).",
        f"Flags (*): chance of any false one in a column of flags at most {report['level']:g} "
        "(Bonferroni).",
        _table("Columns: train -> new", header, [_column(c, report) for c in report["columns"]]),
    ]
    header = ["", "train -> new", "difference", "z"]
    if (target := report["target"]) is not None:
        parts.append(_table(f"Target {target['name']}", header, _target(target)))
    if (weights := report["weights"]) is not None:
        lines = [[name, *_move(m), "*" if name in drifted else ""] for name, m in weights.items()]
        parts.append(_table("Mean expert weights", [*header, ""], lines))
    return "\n\n".join(parts)


def _column(column: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    name, own, absent = column["name"], column["marginal"], column["absent"]
    if "new_kl" in own:
        own_text = f"KL {_arrow(own['train_kl'], own['new_kl'])} nats"
    else:
        center, unit = ("median", "width") if "new_width_ratio" in own else ("mean", "sd")
        shift = _arrow(own.get(f"train_{center}_shift"), own.get(f"new_{center}_shift"))
        ratio = _arrow(own.get(f"train_{unit}_ratio"), own.get(f"new_{unit}_ratio"))
        own_text = f"{center} {shift} {unit}, {unit} x {ratio}"
    return [
        name,
        own_text,
        "-" if own["p"] is None else f"{own['p']:.2g}",
        "*" if name in report["shifted"] else "",
        *_move(column["conditional"]),
        "*" if name in report["surprising"] else "",
        _arrow(absent["train"], absent["new"]),
    ]


def _target(target: Mapping[str, Any]) -> list[list[str]]:
    lines = []
    for key in ("predicted", "observed"):
        moves = zip(target["labels"] or ["mean"], target[key], strict=True)
        lines += [[f"{key} {name}", *_move(move)] for name, move in moves]
        if target[f"{key}_sd"] is not None:
            lines.append([f"{key} sd", _arrow(*target[f"{key}_sd"]), "", ""])
    return lines


def _move(move: Mapping[str, Any]) -> list[str]:
    difference = f"{_number(move['difference'])} ± {_number(move['error'])}"
    return [_arrow(move["train"], move["new"]), difference, _number(move["z"], 1)]


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


def _number(number: float | None, digits: int = 3) -> str:
    return "-" if number is None else f"{number:.{digits}f}"


def _plain(value: Any) -> Any:
    """Plain JSON; None for what is not a finite number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Moved):
        names = ("train", "train_error", "new", "new_error", "difference", "error", "z")
        return {name: _plain(getattr(value, name)) for name in names}
    if is_dataclass(value):
        value = vars(value)
    return {name: _plain(own) for name, own in value.items()} if isinstance(value, dict) else value


Weights = Callable[[Cells], Float[np.ndarray, "rows columns"]]


@dataclass(frozen=True)
class ColumnShift:
    """How one column moved.

    `absent`: share of absent cells
    `conditional`: mean log p(cell | all other present cells of the row), in nats
    """

    name: str
    kind: str
    absent: Moved
    conditional: Moved
    marginal: MarginalShift


@dataclass(frozen=True, repr=False)
class ShiftReport(PlottedResult):
    """How new rows differ from training rows; `str` gives tables, `as_dict` plain JSON.

    `rows`: mean log p(row) by the chain rule in the table's order, in nats
    `weights`: by column, the mean weight of its expert in predictions of the target
    `level`: of the tests behind `shifted`, `surprising` and `drifted`, over all columns together
    """

    columns: tuple[ColumnShift, ...]
    rows: Moved
    target: TargetShift | None
    weights: dict[str, Moved] | None
    level: float

    picture = "shift_rows"

    def to_dict(self) -> dict[str, np.ndarray]:
        """By column: `absent_train`, `absent_new` and what moved, with the p-values of both tests.

        `nats_train`, `nats_new`: mean log p(cell | all other cells of its row).
        """
        columns = self.columns
        return {
            "column": np.array([column.name for column in columns], dtype=object),
            "kind": np.array([column.kind for column in columns], dtype=object),
            "absent_train": np.array([column.absent.train for column in columns]),
            "absent_new": np.array([column.absent.new for column in columns]),
            "p_marginal": np.array([column.marginal.p for column in columns]),
            "nats_train": np.array([column.conditional.train for column in columns]),
            "nats_new": np.array([column.conditional.new for column in columns]),
            "p_conditional": np.array([column.conditional.p for column in columns]),
        }

    @property
    def shifted(self) -> tuple[str, ...]:
        """Columns whose own distribution moved: marginal p-values by Bonferroni's rule."""
        p = {column.name: column.marginal.p for column in self.columns}
        return bonferroni(p, level=self.level)

    @property
    def surprising(self) -> tuple[str, ...]:
        """Columns that fit the others of their row less or better: z tests by Bonferroni's rule."""
        p = {column.name: column.conditional.p for column in self.columns}
        return bonferroni(p, level=self.level)

    @property
    def drifted(self) -> tuple[str, ...]:
        """Columns whose mean expert weight moved: z tests by Bonferroni's rule."""
        p = {name: move.p for name, move in (self.weights or {}).items()}
        return bonferroni(p, level=self.level)

    def as_dict(self) -> dict[str, Any]:
        plain = {"level": self.level, "rows": self.rows, "columns": self.columns}
        plain |= {key: getattr(self, key) for key in ("shifted", "surprising", "drifted")}
        plain = _plain(plain | {"target": self.target, "weights": self.weights})
        for column in plain["columns"]:
            marginal = column["marginal"]
            for key in ("kl", "mean_shift", "sd_ratio", "median_shift", "width_ratio"):
                if pair := marginal.pop(key):
                    marginal |= {f"train_{key}": pair[0], f"new_{key}": pair[1]}
        return plain

    def __str__(self) -> str:
        return shift_text(self.as_dict())


def shift_report(
    model: TableModel,
    train: Cells,
    new: Cells,
    *,
    target: str | None,
    weights: Weights | None,
    marginals: TableModel,
    level: float,
) -> ShiftReport:
    """What `JointTable.shift_report` says, by `weights` of experts and the columns' `marginals`."""
    for name, cells in (("train", train), ("new", new)):
        if not len(cells):
            raise DataError(f"`{name}` must hold at least one row, got none.")
    check_inside("level", level)
    drift = None
    if weights is not None:
        names, pairs = model.schema.names, zip(weights(train).T, weights(new).T, strict=True)
        drift = {name: moved(*pair) for name, pair in zip(names, pairs, strict=True)}
    schema = model.schema
    before, after = pseudo_terms(model, train), pseudo_terms(model, new)
    marginal = column_distributions(marginals, Cells.absent(1, len(schema)), schema.targets)
    columns = [
        ColumnShift(
            column.name,
            column.kind,
            absent=moved(*(1.0 - cells.present[:, j] for cells in (train, new))),
            conditional=moved(before[:, j], after[:, j]),
            marginal=marginal_shift(marginal[column.name], train.value[:, j], new.value[:, j]),
        )
        for j, column in enumerate(schema.columns)
        if not column.input_only
    ]
    return ShiftReport(
        tuple(columns),
        rows=moved(chain_log_prob(model, train), chain_log_prob(model, new)),
        target=None if target is None else target_shift(model, train, new, target=target),
        weights=drift,
        level=level,
    )
