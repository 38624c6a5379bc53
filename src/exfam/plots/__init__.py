"""Pictures: one function a figure, each returning a `matplotlib.figure.Figure` to show or save."""

from exfam.plots.attention import attention_map
from exfam.plots.bars import result_bars
from exfam.plots.curves import learning_curve
from exfam.plots.means import means_by_case
from exfam.plots.style import INK
from exfam.plots.vectors import vector_map

__all__ = ["INK", "attention_map", "learning_curve", "means_by_case", "result_bars", "vector_map"]
