"""Square matrices as heat maps."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots.style import INK, SIGNED, make_figure, plain_axes

__all__ = ["matrix_map"]


def matrix_map(matrix: Float[np.ndarray, "rows columns"], *, label: str) -> Figure:
    """The entries of a matrix by color, 0 in between; the first row at the top.

    Raises ExfamError for an empty matrix.

    >>> matrix_map(np.eye(3), label="Q").axes[0].get_title()
    'Q'
    """
    if not matrix.size:
        raise ExfamError(f"`matrix` must have an entry to draw, got shape {matrix.shape}.")
    figure = make_figure(width=5.4, height=4.6)
    axes = plain_axes(figure.subplots())
    most = float(np.abs(matrix).max())
    image = axes.imshow(matrix, cmap=SIGNED, vmin=-most, vmax=most, interpolation="nearest")
    axes.set_title(label, fontsize=10, color=INK)
    axes.set_xlabel("column", color=INK)
    axes.set_ylabel("row", color=INK)
    plain_axes(figure.colorbar(image, ax=axes).ax)
    return figure
