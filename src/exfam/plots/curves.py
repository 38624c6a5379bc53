"""Losses by epoch."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from exfam.checks import ExfamError
from exfam.plots.style import COLORS, draw_references, legend_above, make_figure, plain_axes
from exfam.training.history import History

__all__ = ["learning_curve"]


def learning_curve(
    history: History, *, references: Mapping[str, float] | None = None, width: float = 7.0
) -> Figure:
    """Training and validation loss by epoch, in nats an element; a ring marks the epoch kept.

    `references`: label -> loss, drawn as dashed lines, such as the best possible one.
    `width`: of the figure, in inches (default 7.0)

    Raises ExfamError for a history without epochs.

    >>> from exfam.training.history import Epoch
    >>> history = History((Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True),), "max_epochs")
    >>> learning_curve(history).axes[0].get_xlabel()
    'epoch'
    """
    if not len(history):
        raise ExfamError("`history` must hold at least one epoch to draw, got none.")
    figure = make_figure(width=width, height=1.4 + 0.34 * width)
    axes = plain_axes(figure.subplots())
    told = history.to_dict()
    curves = {"training": told["train_nats"], "validation": told["validation_nats"]}
    for (name, curve), color in zip(curves.items(), (COLORS[1], COLORS[0]), strict=True):
        numbers = np.array(curve, dtype=float)
        if np.isfinite(numbers).any():
            axes.plot(told["epoch"], numbers, ".-", color=color, label=name)
    if history.best is not None:
        kept = curves["validation"][history.rows.index(history.best)]
        (ring,) = axes.plot(history.best.epoch, kept, "o", color=COLORS[0], ms=11, label="kept")
        ring.set_fillstyle("none")
    draw_references(axes.axhline, references)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss (nats per element)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(axes)
    return figure
