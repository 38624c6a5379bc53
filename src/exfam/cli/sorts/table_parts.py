"""What each cell adds to a prediction of a model of tables that has a base."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.families import Family, RoundedRootStudentT, SinhStudentT
from exfam.tables.data import Column

# Rows of an explanation that stand for no cell.
AVERAGE_ROW, REST = "(average row)", "(rest)"


def contributions_by_row(
    contributions: Any, *, cells: np.ndarray, rows: np.ndarray, outputs: list[str], top: int | None
) -> Iterator[dict[str, Any]]:
    """For each row what an average row has, each cell adds, the largest first, and the rest.

    All of them add up to the prediction; `top` leaves out the smaller cells.
    `cells`: the texts of the cells by column and row
    """
    n = len(outputs)
    parts = contributions.parts[:, 0, :, :n]
    start, rest = contributions.start[:, 0, :n], contributions.rest[:, 0, :n]
    seen = [k for k, name in enumerate(contributions.columns) if name not in contributions.targets]
    columns = np.array(contributions.columns, dtype=object)
    for k, row in enumerate(rows):
        own = parts[k, seen]
        order = np.argsort(-np.linalg.norm(own, axis=1), kind="stable")[:top]
        index = np.array(seen, dtype=np.int64)[order]
        added = np.concatenate([start[k, None], own[order], rest[k, None]])
        yield {
            "row": [int(row)] * len(added),
            "column": [AVERAGE_ROW, *columns[index], REST],
            "cell": ["", *cells[index, k], ""],
            "size": np.linalg.norm(added, axis=1),
            **dict(zip(outputs, added.T, strict=True)),
        }


def output_names(column: Column, family: Family) -> list[str]:
    """What contributions add up to: logits of labels, or a number on its family's scale."""
    name = column.name
    if column.labels is not None:
        return [f"{name}={label}" for label in column.labels.tolist()]
    if isinstance(family, RoundedRootStudentT):
        return [f"root_{name}"]
    if isinstance(family, SinhStudentT):
        return [f"asinh_{name}"]
    return [name if family.has_mean else f"log_{name}"]
