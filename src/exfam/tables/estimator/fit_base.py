"""The default model of a table, fitted column by column, kept in a checkpoint."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from exfam.checks import ExfamError
from exfam.estimator.plain import identified
from exfam.families import Family, Gaussian, NegativeBinomial, StudentT
from exfam.tables.base.encode import TableCode, learn_code
from exfam.tables.base.fit_response import fit_response
from exfam.tables.base.response import ResponseModel
from exfam.tables.base.response_task import Members, ResponseTask, held_by_fold, later_rows
from exfam.tables.base.table_base import (
    TableBase,
    response_from_state,
    response_state,
    within,
    without_own,
)
from exfam.tables.base.views import GaussianFill, learn_fill
from exfam.tables.data import Cells, Column
from exfam.tables.estimator.plan import TablePlan
from exfam.training.checkpoints import CheckpointFolder
from exfam.training.progress import StepProgress

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "unknown", "decision", "device", "missing_columns")

# Beside a response, other columns are predicted by the linear model of so many rows, fewer where
# there are many columns, so that their cost does not grow with the square of the columns.
_ROWS_OF_OTHERS, _FEWEST_OF_OTHERS, _CELLS_OF_OTHERS = 2000, 500, 40_000
# Of a table of more columns than these the response alone has a model: the cost of models of the
# others grows with the square of their number.
_MOST_WITH_OTHERS = 100
# Families of a response that leave open on which scale it is Student's t, and how heavy its tails.
_FAMILIES_OF_BASE = ("auto", "student-t")
# Folds that each column of a joint model has.
_FOLDS_OF_JOINT = 2
# So many columns of a joint model choose how large their trees are; in others the choice, and the
# small steps that follow it, gained nothing for two fifths of the time.
_SIZED_OF_JOINT = 16
# Gaussian numbers of a few thousand rows reach so many times the distance between their deciles.
_FAR = 1.5


class KeptColumns:
    """What a fit goes on from; nothing is kept without a folder.

    Raises CheckpointError for the folder of another fit.
    """

    def __init__(self, estimator: Any, plan: TablePlan) -> None:
        self._folder: CheckpointFolder | None = None
        self._states: dict[str, Any] = {}
        self._arrays: dict[str, np.ndarray] = {}
        given = identified(plan.checkpoint, estimator, irrelevant=_IRRELEVANT)
        if given is not None:
            self._folder = CheckpointFolder.of(given, fingerprint={"rows": _digest(plan)})
            if (kept := self._folder.load()) is not None:
                self._arrays, self._states = kept

    def model(self, column: int, *, code: TableCode, fill: GaussianFill) -> ResponseModel | None:
        """The model of a column that was finished before; None of any other."""
        state = self._states.get(str(column))
        if state is None:
            return None
        arrays = within(self._arrays, f"{column}.")
        return response_from_state(state, arrays, code=code, fill=fill)

    def add(self, column: int, model: ResponseModel) -> None:
        if self._folder is None:
            return
        state, arrays = response_state(model)
        self._states[str(column)] = state
        self._arrays |= {f"{column}.{name}": array for name, array in arrays.items()}
        self._folder.save(self._arrays, self._states)


def _digest(plan: TablePlan) -> str:
    """Of all that is fitted to."""
    total = sha256()
    held = None if plan.validation is None else plan.validation.value
    for array in (plan.cells.value, plan.weight, held):
        total.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def base_fits(estimator: Any, plan: TablePlan) -> bool:
    """Whether the parameters leave the model of each column open, so that there is a base.

    Raises ExfamError if they name settings of the attention network as well.
    """
    if estimator.base == "none" or estimator.families or estimator.numeric == "binned":
        return False
    if getattr(estimator, "family", "auto") not in _FAMILIES_OF_BASE:
        return False
    columns = zip(plan.schema.columns, plan.families, strict=True)
    fits = all(_has_base(column, family) for column, family in columns if not column.input_only)
    if fits:
        _check_others(estimator)
    return fits


def _check_others(estimator: Any) -> None:
    """Raise ExfamError for a parameter of the attention network that would have no effect."""
    for name, declaration in estimator.declared.items():
        given = getattr(estimator, name)
        is_other = "attention network" in (declaration.section or "")
        if is_other and given != declaration.default:
            raise ExfamError(
                f"`{name}` must be left as it is with base='auto', which has no attention "
                f"network, got {given!r}. Pass base='none' for the attention network."
            )


def _has_base(column: Column, family: Family) -> bool:
    if column.labels is not None:
        return True
    kinds = (NegativeBinomial,) if column.kind == "count" else (Gaussian, StudentT)
    return not column.binned and type(family) in kinds


@dataclass(frozen=True, eq=False)
class _Fit:
    """All rows of a fit, those that validation holds among them, in the order of time or as given.

    `in_order`: whether pools of later rows are chosen by the last rows
    `time`: the column of dates that they are in the order of; without one all rows to come are
        later, and whole stretches of rows are held out
    `counted`: the column of which it is open whether its numbers are counts
    """

    plan: TablePlan
    cells: Cells
    weight: Float64[np.ndarray, "rows"]
    validation: Bool[np.ndarray, "rows"]
    in_order: bool
    time: int | None
    seed: int
    counted: int | None


def fit_table_base(estimator: Any, plan: TablePlan) -> TableBase:
    """A model of every column that can be predicted; of a response with all its members."""
    fit = _rows_of(estimator, plan)
    inputs = [k for k in range(len(plan.schema)) if k != plan.response]
    code = learn_code(fit.cells, plan.schema, inputs)
    fill = learn_fill(code.numbers(code.values(fit.cells)))
    targets = [plan.schema.index(name) for name in plan.schema.targets]
    if plan.response is not None and len(plan.schema) > _MOST_WITH_OTHERS:
        targets = plan.targets
    columns: dict[int, ResponseModel] = {}
    families, kept = list(plan.families), KeptColumns(estimator, plan)
    with StepProgress("column", total=len(targets), shown=estimator.progress) as bar:
        for k in targets:
            seen, known = without_own(code, fill, k)
            model = kept.model(k, code=seen, fill=known)
            if model is None:
                own = _task(fit, k, code=seen, fill=known)
                model = fit_response(own, _members(estimator, plan, k), seed=fit.seed)
                kept.add(k, model)
            columns[k] = model
            families[k] = columns[k].family
            bar.advance()
    return TableBase(plan.schema, tuple(families), code, fill, columns)


def _members(estimator: Any, plan: TablePlan, column: int) -> Members:
    """All members of the response or, without one, of every column."""
    if plan.response is not None and column != plan.response:
        return Members(network=False, trees=False)
    sized = plan.response is not None or plan.targets.index(column) < _SIZED_OF_JOINT
    return Members(network=not estimator.fast, sized=sized)


def _rows_of(estimator: Any, plan: TablePlan) -> _Fit:
    cells, weight = plan.cells, plan.weight
    weight = np.ones(len(cells)) if weight is None else weight
    is_held = np.zeros(len(cells), dtype=bool)
    if plan.validation is not None:
        held = plan.validation
        cells = Cells.concatenate([cells, held])
        weight = np.append(weight, np.ones(len(held)))
        is_held = np.append(is_held, np.ones(len(held), dtype=bool))
    time = plan.schema.index(plan.schema.dates[0].name) if plan.schema.dates else None
    in_order = bool(estimator.in_order) or time is not None
    if time is not None:
        order = _order_of_time(cells.value[:, time])
        cells, weight, is_held = cells[order], weight[order], is_held[order]
    counted = plan.response
    if counted is not None:
        is_declared = plan.schema.columns[counted].name in (estimator.kinds or {})
        counted = None if is_declared or getattr(estimator, "family", "auto") != "auto" else counted
    return _Fit(plan, cells, weight, is_held, in_order, time, int(estimator.seed), counted)


def _order_of_time(date: Float64[np.ndarray, "rows"]) -> np.ndarray:
    """The rows by date, those without one first."""
    return np.argsort(np.where(np.isnan(date), -np.inf, date), kind="stable")


def _task(fit: _Fit, column: int, *, code: TableCode, fill: GaussianFill) -> ResponseTask:
    """What the model of one column is fitted to: the rows in which it is present."""
    plan, learned = fit.plan, fit.plan.schema.columns[column]
    random = np.random.default_rng([fit.seed, column])
    rows = np.flatnonzero(fit.cells.present[:, column])
    is_other = plan.response is not None and column != plan.response
    most = _CELLS_OF_OTHERS // len(plan.schema)
    most = min(_ROWS_OF_OTHERS, max(_FEWEST_OF_OTHERS, most))
    if is_other and len(rows) > most:
        rows = np.sort(random.choice(rows, most, replace=False))
    n_labels = None if learned.labels is None else len(learned.labels)
    if not len(rows):
        return _of_no_rows(len(plan.schema), n_labels, code=code, fill=fill)
    y = fit.cells.value[rows, column]
    # By dates it is known which rows are later; without them whole stretches stand for these.
    in_stretches = fit.in_order and fit.time is None
    held = held_by_fold(len(rows), random=random, in_order=in_stretches)
    own_held = fit.validation[rows]
    if own_held.any() and not own_held.all():
        held = own_held[None]
    elif plan.response is None:
        held = held[:_FOLDS_OF_JOINT]
    elif is_other:
        held = held[:1]
    return ResponseTask(
        code,
        fill,
        cells=fit.cells[rows],
        y=y,
        weight=fit.weight[rows],
        n_labels=n_labels,
        later=later_rows(len(rows)) if fit.in_order else None,
        ordered=learned.kind == "ordinal",
        scales=_scales(learned, y, may_be_counts=column == fit.counted),
        held=held,
        time=fit.time,
    )


def _scales(
    column: Column, y: Float64[np.ndarray, "rows"], *, may_be_counts: bool
) -> tuple[str, ...]:
    if column.kind == "count":
        return ("root",)
    if column.labels is not None:
        return ("identity",)
    scales: tuple[str, ...] = ("identity",)
    if bool((y > 0).all()):
        scales = ("identity", "log")
    elif _reach_far(y):
        scales = ("identity", "asinh")
    are_counts = may_be_counts and bool(((y >= 0) & (y == np.rint(y))).all())
    return (*scales, "root") if are_counts else scales


def _reach_far(y: Float64[np.ndarray, "rows"]) -> bool:
    """Whether some numbers lie further out than Gaussian ones do."""
    low, center, high = np.quantile(y, [0.1, 0.5, 0.9]) if len(y) else np.zeros(3)
    return bool((np.abs(y - center) > _FAR * (high - low)).any())


def _of_no_rows(
    n_columns: int, n_labels: int | None, *, code: TableCode, fill: GaussianFill
) -> ResponseTask:
    """Labels that were declared and never seen: as if each had been, in a row of nothing else."""
    assert n_labels is not None
    return ResponseTask(
        code,
        fill,
        cells=Cells.absent(n_labels, n_columns),
        y=np.arange(float(n_labels)),
        weight=np.ones(n_labels),
        n_labels=n_labels,
        held=np.ones((1, n_labels), dtype=bool),
    )
