"""Bars of a table's models beside the paper's figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from exfam.plots import result_bars
from exfam_studies.common.rows import Row


def draw_bars(rows: Sequence[Row], folder: Path, *, experiment: str, metric: str) -> list[Path]:
    """One PNG for each task with rows of the metric; the files written."""
    written = []
    chosen = [row for row in rows if row.metric == metric and row.value is not None]
    for task in dict.fromkeys(row.task for row in chosen):
        path = folder / f"{experiment}-{task}-{metric}.png"
        _draw([row for row in chosen if row.task == task], path)
        written.append(path)
    return written


def _draw(rows: Sequence[Row], path: Path) -> None:
    papers = _figures([row.paper for row in rows])
    spread = np.nan_to_num(_figures([row.sd for row in rows]))
    figure = result_bars(
        [_label(row) for row in rows],
        _figures([row.value for row in rows]),
        metric=f"{rows[0].task}: {rows[0].metric}",
        spread=spread if spread.any() else None,
        paper=None if np.isnan(papers).all() else papers,
    )
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def _figures(figures: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if figure is None else figure for figure in figures], dtype=float)


def _label(row: Row) -> str:
    settings = ", ".join(str(value) for value in row.settings.values())
    return f"{row.model} ({settings})" if settings else row.model
