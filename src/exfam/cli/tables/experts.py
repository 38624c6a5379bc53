"""What each cell of a row counted for, exactly."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.tables.files import errors_of_files
from exfam.cli.tables.scores import chosen_columns
from exfam.tables.data.table_files import TableFile

AT_A_TIME = 256
# What the explained cell itself stands for: its column has the learned MASK token.
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
    (target,) = chosen_columns(model, chosen.of)
    rows = _rows(table, chosen.rows)
    for first in range(0, len(rows), AT_A_TIME):
        some = rows[first : first + AT_A_TIME]
        part = table.frame.take(some)
        with errors_of_files():
            experts = model.experts(part, [target])
        yield from _by_row(model, experts, part, some, target, chosen)


def _rows(table: TableFile, given: list[str] | None) -> np.ndarray:
    if given is None:
        return np.arange(len(table))
    for word in given:
        if not (word.isdecimal() and int(word) < len(table)):
            raise ExfamError(
                f"`--rows` must be rows of the file, 0 .. {len(table) - 1}, got {word!r}."
            )
    return np.array([int(word) for word in given])


def _by_row(
    model: Any, experts: Any, part: Any, rows: np.ndarray, target: str, chosen: Any
) -> Iterator[dict[str, Any]]:
    names = _outputs(model, target)
    weights = experts.weights[:, 0]
    added = (experts.experts.weights[..., None] * experts.experts.contributions).numpy()[:, 0]
    if not chosen.per_head:
        weights, added = weights.mean(1, keepdims=True), added.sum(1, keepdims=True)
    cells = [_cells(part, name, target) for name in experts.columns]
    for k, row in enumerate(rows.tolist()):
        for head in range(weights.shape[1]):
            weight = weights[k, head]
            order = np.argsort(-weight, kind="stable")[: chosen.top]
            order = order[weight[order] > 0]
            heads = {"head": [head + 1] * len(order)} if chosen.per_head else {}
            columns = [experts.columns[column] for column in order]
            yield {
                "row": [row] * len(order),
                **heads,
                "column": [NOTHING if name == target else name for name in columns],
                "cell": [cells[column][k] for column in order],
                "weight": weight[order].astype(np.float64),
                **{
                    name: added[k, head, order, output].astype(np.float64)
                    for output, name in enumerate(names)
                },
            }


def _outputs(model: Any, target: str) -> list[str]:
    """Names of what contributions add up to: logits of labels, or parameters of a family."""
    column = model.schema_.column(target)
    if column.labels is not None:
        return [f"{target}={label}" for label in column.labels.tolist()]
    n = model.families_[model.schema_.index(target)].n_params
    return [f"{target}_output{k + 1}" for k in range(n)]


def _cells(part: Any, name: str, target: str) -> list[str]:
    if name == target or name not in part.column_names:
        return [""] * int(part.num_rows)
    return ["" if cell is None else str(cell) for cell in part[name].to_pylist()]
