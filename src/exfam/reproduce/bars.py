"""Bars of a table's models beside the paper's figures."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from exfam.reproduce.rows import Row

__all__ = ["draw_bars"]

OURS, OTHERS, PAPER = "#2b6cb0", "#a0aec0", "#c05621"


def draw_bars(rows: Sequence[Row], path: Path, *, metrics: Sequence[str], title: str) -> None:
    """One panel a task: the rows of its first metric among `metrics`, paper figures as diamonds.

    Nothing is drawn if no row has one of the metrics.
    """
    panels = _panels(rows, metrics)
    if not panels:
        return
    height = sum(0.6 + 0.24 * len(panel) for panel in panels)
    figure = Figure(figsize=(9.0, 1.0 + height), layout="constrained")
    FigureCanvasAgg(figure)
    ratios = [2.5 + len(panel) for panel in panels]
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for panel, axis in zip(panels, axes, strict=True):
        _draw(panel, axis)
    figure.suptitle(title)
    with matplotlib.rc_context({"svg.hashsalt": "exfam"}):
        figure.savefig(path, dpi=120)


def _panels(rows: Sequence[Row], metrics: Sequence[str]) -> list[list[Row]]:
    panels = []
    for task in dict.fromkeys(row.task for row in rows):
        of_task = [row for row in rows if row.task == task and row.value is not None]
        metric = next((m for m in metrics if any(row.metric == m for row in of_task)), None)
        if metric is not None:
            panels.append([row for row in of_task if row.metric == metric])
    return panels


def _draw(panel: Sequence[Row], axis: Axes) -> None:
    places = list(range(len(panel)))[::-1]
    axis.barh(
        places,
        [row.value or 0.0 for row in panel],
        xerr=[row.sd or 0.0 for row in panel],
        color=[OURS if row.model.startswith("efa") else OTHERS for row in panel],
    )
    printed = [
        (row.paper, place)
        for row, place in zip(panel, places, strict=True)
        if row.paper is not None
    ]
    if printed:
        papers, heights = zip(*printed, strict=True)
        axis.scatter(papers, heights, marker="D", s=28, color=PAPER, label="paper")
        axis.legend(loc="lower right", fontsize="small", frameon=False)
    axis.set_yticks(places, [_label(row) for row in panel], fontsize="small")
    figures = [row.value or 0.0 for row in panel] + [paper for paper, _ in printed]
    margin = 0.15 * (max(figures) - min(figures)) or 0.1
    # Differences matter, not the distance to zero.
    axis.set_xlim(min(figures) - margin, max(figures) + margin)
    axis.set_title(f"{panel[0].task}: {panel[0].metric}", fontsize="medium", loc="left")
    axis.spines[["top", "right"]].set_visible(False)


def _label(row: Row) -> str:
    settings = ", ".join(str(value) for value in row.settings.values())
    return f"{row.model} ({settings})" if settings else row.model
