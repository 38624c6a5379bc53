"""Clouds of word vectors: singular values, and lengths beside frequencies."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Num
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from exfam.checks import ExfamError
from exfam.plots import style

# Words that are drawn as dots, and bands of frequency whose medians are joined.
_MOST_DOTS, _BANDS = 1500, 16


def spectrum_curves(
    spectra: Mapping[str, Float[np.ndarray, "_"]],
    *,
    width: float = 4.6,
    ax: Axes | None = None,
) -> style.Drawn:
    """Singular values of matrices, the largest first, each over the root of their mean square.

    `spectra`: name -> values. A line at 1 is where all would be if all directions were alike.
    Raises ExfamError without a matrix.

    >>> figure = spectrum_curves({"center": np.array([3.0, 2.0, 1.0])})
    >>> figure.axes[0].get_xlabel()
    'direction'
    """
    if not spectra:
        raise ExfamError("`spectra` must hold the values of at least one matrix, got none.")
    figure, axes = style.one_panel(width=width, height=3.2, ax=ax)
    axes.axhline(1.0, color=style.MUTED, lw=1, ls="--")
    for number, (name, values) in enumerate(spectra.items()):
        dashes, color = style.line_of(number)
        size = float(np.sqrt(np.mean(np.square(values)))) or 1.0
        axes.plot(np.arange(1, len(values) + 1), values / size, dashes, color=color, label=name)
    axes.set(xlabel="direction", ylabel="singular value", xscale="log")
    axes.set_ylim(bottom=0.0)
    _name_powers(axes)
    if len(spectra) > 1:
        style.legend_above(axes)
    return style.drawn(figure, ax)


def length_by_frequency(
    length: Float[np.ndarray, "words"],
    frequency: Num[np.ndarray, "_"],
    *,
    label: str,
    seed: int,
    width: float = 4.6,
    ax: Axes | None = None,
) -> style.Drawn:
    """Lengths of words' vectors over how often the words occur, with the running median.

    `frequency`: counts or ranks, above 0; `label`: what they are. Of many words some are drawn,
    chosen by `seed`.

    >>> lengths = np.array([1.0, 2.0, 3.0])
    >>> counts = np.array([30, 20, 10])
    >>> len(length_by_frequency(lengths, counts, label="count", seed=0).axes[0].lines)
    2
    """
    style.check_as_many("frequency", len(frequency), len(length), of="lengths")
    figure, axes = style.one_panel(width=width, height=3.2, ax=ax)
    n = len(length)
    random = np.random.default_rng(seed)
    some = random.choice(n, _MOST_DOTS, replace=False) if n > _MOST_DOTS else np.arange(n)
    axes.plot(frequency[some], length[some], ".", color=style.COLORS[0], ms=3, alpha=0.35)
    order = np.argsort(frequency, kind="stable")
    bands = np.array_split(order, min(_BANDS, n))
    middle = [(np.median(frequency[band]), np.median(length[band])) for band in bands]
    axes.plot(*zip(*middle, strict=True), color=style.INK, lw=1.8)
    axes.set(xlabel=label, ylabel="length of the vector", xscale="log")
    axes.set_ylim(bottom=0.0)
    _name_powers(axes)
    return style.drawn(figure, ax)


def _name_powers(axes: Axes) -> None:
    """Whole numbers at the powers of ten alone."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
