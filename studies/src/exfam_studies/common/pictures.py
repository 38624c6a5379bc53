"""Pictures of an experiment's rows: bars beside the paper's figures, or curves by a setting."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from exfam.plots import result_bars
from exfam.plots.style import legend_beside, line_of, make_figure, plain_axes
from exfam_studies.common.rows import Row, grouped


def draw_rows(
    rows: Sequence[Row], folder: Path, *, experiment: str, plotted: Mapping[str, str | None]
) -> None:
    """One PNG for each task and metric: bars, or curves where `plotted` names a setting for it."""
    for metric, setting in plotted.items():
        chosen = [row for row in rows if row.metric == metric and row.value is not None]
        for task, own in grouped(chosen, attrgetter("task")).items():
            figure = _bars(own) if setting is None else _curves(own, setting)
            save_picture(figure, folder / f"{experiment}-{task}-{metric}.png")


def save_picture(figure: Figure, path: Path) -> None:
    """Write a PNG, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def _bars(rows: Sequence[Row]) -> Figure:
    papers, spread = _figures(rows, "paper"), np.nan_to_num(_figures(rows, "sd"))
    return result_bars(
        _labels(rows),
        _figures(rows, "value"),
        metric=f"{rows[0].task}: {rows[0].metric}",
        spread=spread if spread.any() else None,
        paper=None if np.isnan(papers).all() else papers,
    )


def _curves(rows: Sequence[Row], setting: str) -> Figure:
    """A curve for each model and its other settings; what lacks the setting is a line across."""
    curves: dict[str, list[Row]] = {}
    for row, label in zip(rows, _labels(rows, setting), strict=True):
        curves.setdefault(label, []).append(row)
    figure = make_figure(width=7.6, height=4.2)
    axes = plain_axes(figure.subplots())
    for number, (label, own) in enumerate(curves.items()):
        style, color = line_of(number)
        if setting not in own[0].settings:
            axes.axhline(own[0].value or 0.0, color=color, lw=1, label=label)
            continue
        own.sort(key=lambda row: float(row.settings[setting]))
        x = [float(row.settings[setting]) for row in own]
        y, spread = _figures(own, "value"), np.nan_to_num(_figures(own, "sd"))
        axes.plot(x, y, style, marker="o", color=color, label=label)
        axes.errorbar(x, y, yerr=spread, fmt="none", ecolor=color, capsize=3)
    axes.set_xlabel(setting)
    axes.set_ylabel(f"{rows[0].task}: {rows[0].metric}")
    legend_beside(axes)
    return figure


def _figures(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows], dtype=float)  # None becomes NaN


def _labels(rows: Sequence[Row], but: str | None = None) -> list[str]:
    """Models with those settings, words and whole numbers, that are not alike in all rows."""
    every = dict.fromkeys(name for row in rows for name in row.settings)
    unlike = [name for name in every if len({row.settings.get(name) for row in rows} - {None}) > 1]
    labels = []
    for row in rows:
        own = [row.settings.get(name) for name in unlike if name != but]
        shown = ", ".join(str(value) for value in own if isinstance(value, str | int))
        labels.append(f"{row.model} ({shown})" if shown else row.model)
    return labels
