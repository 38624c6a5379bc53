"""Whether predicted probabilities and intervals of columns come true."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from exfam.families.mixtures import Mixture
from exfam.report import cautions
from exfam.report.page import Part, Section, left_out
from exfam.report.sections.calibration import choice_calibration, value_calibration
from exfam.report.tables.column_section import scored_rows
from exfam.report.tables.table_material import TableMaterial
from exfam.report.words import clean
from exfam.scores.calibration import reliability, top_item
from exfam.tables.answers.distributions import column_distributions
from exfam.tables.data import LABEL_KINDS

_TITLE = "Calibration"
_MOST_COLUMNS = 3


class PredictedCells(NamedTuple):
    """The distributions of a column's cells that are there, and their values."""

    name: str
    labels: bool
    distribution: Mixture
    value: Float[torch.Tensor, "rows"]


def predicted_cells(material: TableMaterial) -> list[PredictedCells]:
    """Of the response, or of the first columns that are scored."""
    cells = material.scored
    return [] if cells is None else list(_predicted(material))


def _predicted(material: TableMaterial) -> Iterator[PredictedCells]:
    assert material.scored is not None
    for name in material.targets[:_MOST_COLUMNS]:
        value = material.scored.value[:, material.schema.index(name)]
        rows = np.flatnonzero(~np.isnan(value))
        if len(rows):
            part = material.scored[rows]
            distribution = column_distributions(material.model.model_, part, [name])[name]
            labels = material.schema.column(name).kind in LABEL_KINDS
            yield PredictedCells(name, labels, distribution, torch.from_numpy(value[rows].copy()))


def table_calibration_section(material: TableMaterial, predicted: list[PredictedCells]) -> Section:
    """Reliability of labels, integrals and intervals of numbers."""
    if not predicted:
        return left_out(_TITLE, "no data were given to compare predictions with.")
    text = [
        f"Of {scored_rows(material)}. A model is calibrated if what it gives 10 % happens one time "
        "in ten."
    ]
    if len(material.targets) > len(predicted):
        text.append(f"Of {len(material.targets)} columns the first {len(predicted)} are shown.")
    parts: list[Part] = []
    for cells in predicted:
        if not cells.labels:
            parts.append(value_calibration(cells.name, cells.distribution, cells.value))
            continue
        probability = cells.distribution.probs().double().numpy()
        own = cells.value.numpy().astype(np.int64)
        many = f"labels of “{clean(cells.name, most=30)}”"
        both = reliability(probability, own), top_item(probability, own)
        parts.append(choice_calibration(*both, one="label", many=many))
    return Section(_TITLE, text=text, parts=parts)


def careful_of_intervals(predicted: list[PredictedCells]) -> list[str]:
    """What to say where intervals of numbers hold too few or too many."""
    return [
        cautions.of_intervals(f"“{clean(cells.name, most=30)}”", cells.distribution, cells.value)
        for cells in predicted
        if not cells.labels
    ]
