"""The columns of a table that a fit has finished, kept in the folder of its checkpoint."""

from hashlib import sha256
from typing import Any

import numpy as np

from exfam.estimator.plain import identified
from exfam.tables.base.encode import TableCode
from exfam.tables.base.fill import GaussianFill
from exfam.tables.base.response import ResponseModel
from exfam.tables.base.stored import response_from_state, response_state, within
from exfam.tables.estimator.plan import TablePlan
from exfam.training.checkpoints import CheckpointFolder

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "unknown", "decision", "device", "missing_columns")


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
