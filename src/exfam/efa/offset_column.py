"""The column of exposures of estimators whose values may have one."""

from dataclasses import replace
from typing import Any

from exfam.checks import ExfamError
from exfam.columns.parts import FrameColumns
from exfam.efa.inputs import Inputs
from exfam.estimator.base import Declared, parameter
from exfam.estimator.rules import ColumnName, OrNone, listed
from exfam.likelihoods.exposure import offset_named


class OffsetColumn(Declared, section="Columns of a frame (not needed for `Groups`)"):
    """Read as an attribute of elements, which the schema keeps apart; before a `GroupEstimator`."""

    offset: str | None = parameter(
        OrNone(ColumnName()),
        "the column of the logarithms of exposures (days observed, persons at risk), which are "
        "added to values' first parameters: for families with a log link, such as Poisson",
        default=None,
    )

    def _check_parameters(self) -> None:
        estimator: Any = super()
        estimator._check_parameters()
        attributes: Any = getattr(self, "attributes", ())
        if self.offset is not None and self.offset in listed(attributes):
            raise ExfamError(
                f"`offset` must not be among `attributes`, got {self.offset!r} in both. The model "
                "sees an exposure by itself."
            )

    def _columns(self) -> FrameColumns | None:
        estimator: Any = super()
        columns: FrameColumns | None = estimator._columns()
        if columns is None or self.offset is None:
            return columns
        return replace(columns, attributes=[*listed(columns.attributes), self.offset])

    def _read(self, X: Any, **coding: Any) -> Inputs:
        estimator: Any = super()
        with offset_named(self.offset):
            read: Inputs = estimator._read(X, **coding)
        return read
