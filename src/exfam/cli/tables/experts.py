"""What each cell of a row counted for, exactly."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.tables.errors import told_of
from exfam.cli.tables.predictions import chosen_column
from exfam.tables.data.table_files import TableFile

__all__ = ["table_experts"]

AT_A_TIME = 256
# What the cell in question itself stands for: its place has the learned MASK token.
NOTHING = "(nothing)"


def table_experts(model: Any, table: TableFile, chosen: Any) -> Iterator[dict[str, Any]]:
    """Weight and contribution of each cell to the outputs of a column, the largest first.

    Raises ExfamError for a model without a response if no column is chosen, for rows that are not
    there and for a deep network.
    """
    if chosen.of is None and model.response_ is None:
        raise ExfamError(
            f"`--of` must name the column to explain, got none. The model has no response: its "
            f"columns are {', '.join(map(repr, model.schema_.targets))}."
        )
    (target,) = chosen_column(model, chosen.of)
    rows = _rows(table, chosen.rows)
    for first in range(0, len(rows), AT_A_TIME):
        some = rows[first : first + AT_A_TIME]
        part = table.frame.take(some)
        with told_of():
            experts = model.experts(part, [target])
        yield from _told(model, experts, part, some, target, chosen)


def _rows(table: TableFile, given: list[str] | None) -> np.ndarray:
    if given is None:
        return np.arange(len(table))
    for word in given:
        if not (word.isdecimal() and int(word) < len(table)):
            raise ExfamError(
                f"`--rows` must be rows of the file, 0 .. {len(table) - 1}, got {word!r}."
            )
    return np.array([int(word) for word in given])


def _told(
    model: Any, experts: Any, part: Any, rows: np.ndarray, target: str, chosen: Any
) -> Iterator[dict[str, Any]]:
    names = _outputs(model, target)
    weights = experts.weights[:, 0]
    adds = (experts.experts.weights[..., None] * experts.experts.contributions).numpy()[:, 0]
    if not chosen.per_head:
        weights, adds = weights.mean(1, keepdims=True), adds.sum(1, keepdims=True)
    cells = [_cells(part, name, target) for name in experts.columns]
    for place, row in enumerate(rows.tolist()):
        for head in range(weights.shape[1]):
            weight = weights[place, head]
            order = np.argsort(-weight, kind="stable")[: chosen.top]
            order = order[weight[order] > 0]
            heads = {"head": [head + 1] * len(order)} if chosen.per_head else {}
            yield {
                "row": [row] * len(order),
                **heads,
                "column": [
                    NOTHING if experts.columns[k] == target else experts.columns[k] for k in order
                ],
                "cell": [cells[k][place] for k in order],
                "weight": weight[order].astype(np.float64),
                **{
                    name: adds[place, head, order, output].astype(np.float64)
                    for output, name in enumerate(names)
                },
            }


def _outputs(model: Any, target: str) -> list[str]:
    """Names of what contributions add up to: logits of labels, or parameters of a law."""
    column = model.schema_.column(target)
    if column.labels is not None:
        return [f"{target}={label}" for label in column.labels.tolist()]
    n = model.families_[model.schema_.place(target)].n_params
    return [f"{target}_output{k + 1}" for k in range(n)]


def _cells(part: Any, name: str, target: str) -> list[str]:
    if name == target or name not in part.column_names:
        return [""] * int(part.num_rows)
    return ["" if cell is None else str(cell) for cell in part[name].to_pylist()]
