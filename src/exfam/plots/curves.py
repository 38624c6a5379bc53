"""Curves: losses by epoch, scores by how much is missing."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from exfam.checks import ExfamError
from exfam.plots.style import (
    COLORS,
    MUTED,
    Drawn,
    drawn,
    legend_above,
    legend_beside,
    line_of,
    one_panel,
)
from exfam.training.history import History


def learning_curve(
    history: History,
    *,
    references: Mapping[str, float] | None = None,
    width: float = 7.0,
    ax: Axes | None = None,
) -> Drawn:
    """Training and validation loss by epoch, in nats per element; a ring marks the epoch kept.

    `references`: label -> loss, drawn as dashed lines, such as the best possible one. `width` is in
    inches. Raises ExfamError for a history without epochs.

    >>> from exfam.training.history import Epoch
    >>> history = History((Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True),), "max_epochs")
    >>> learning_curve(history).axes[0].get_xlabel()
    'epoch'
    """
    if not len(history):
        raise ExfamError("`history` must hold at least one epoch to draw, got none.")
    figure, axes = one_panel(width=width, height=1.4 + 0.34 * width, ax=ax)
    rows = history.to_dict()
    curves = {"training": rows["train_nats"], "validation": rows["validation_nats"]}
    for (name, curve), color in zip(curves.items(), (COLORS[1], COLORS[0]), strict=True):
        numbers = np.array(curve, dtype=float)
        if np.isfinite(numbers).any():
            axes.plot(rows["epoch"], numbers, ".-", color=color, label=name)
    if history.best is not None:
        kept = curves["validation"][history.rows.index(history.best)]
        (ring,) = axes.plot(history.best.epoch, kept, "o", color=COLORS[0], ms=11, label="kept")
        ring.set_fillstyle("none")
    _draw_references(axes, references)
    axes.set(xlabel="epoch", ylabel="loss (nats per element)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(axes)
    return drawn(figure, ax)


def missing_curves(
    shares: Float[np.ndarray, "shares"],
    scores: Mapping[str, Float[np.ndarray, "_"]],
    *,
    metric: str,
    references: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Drawn:
    """A score of each model by the share of cells that were hidden from it, in [0, 1].

    `scores`: by model; NaN where there is none
    `metric`: what the scores are, such as "accuracy"
    `references`: label -> score, drawn as dashed lines, such as that of the most frequent label

    Raises ExfamError without models, for shares outside [0, 1], and unless each model has a score
    for each share.

    >>> shares = np.array([0.0, 0.5])
    >>> figure = missing_curves(shares, {"trees": np.array([0.8, 0.6])}, metric="accuracy")
    >>> figure.axes[0].get_xlabel()
    'share of cells hidden'
    """
    if not len(shares) or not ((shares >= 0) & (shares <= 1)).all():
        raise ExfamError(f"`shares` must be in [0, 1], got {shares.tolist()}.")
    if not scores:
        raise ExfamError("`scores` must hold at least one model to draw, got none.")
    order = np.argsort(shares)
    figure, axes = one_panel(width=8.0, height=4.0, ax=ax)
    for number, (name, values) in enumerate(scores.items()):
        if len(values) != len(shares):
            raise ExfamError(
                f"`scores` must be one a share, got {len(values)} of {name!r} for {len(shares)}."
            )
        style, color = line_of(number)
        axes.plot(shares[order], values[order], style, marker="o", color=color, label=name)
    _draw_references(axes, references)
    legend_beside(axes)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set(xlabel="share of cells hidden", ylabel=metric)
    return drawn(figure, ax)


def _draw_references(axes: Axes, references: Mapping[str, float] | None) -> None:
    """Dashed lines at values with names."""
    for label, value in (references or {}).items():
        axes.axhline(value, color=MUTED, ls="--", lw=1.5, label=label)
