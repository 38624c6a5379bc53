"""Pictures: one function a figure, each returning a `matplotlib.figure.Figure` to show or save."""

from exfam.plots.attention import attention_map, layer_map
from exfam.plots.calibration import coverage_curve, integral_histogram, reliability_diagram
from exfam.plots.counts import histogram
from exfam.plots.curves import learning_curve, missing_curves
from exfam.plots.experts import expert_bars
from exfam.plots.fields import crps_by_site, field_map, site_attention_map
from exfam.plots.item_map import item_map
from exfam.plots.positions import accuracy_by_distance, position_matrices, position_scatter
from exfam.plots.rows import interval_rows, means_by_case, result_bars
from exfam.plots.style import INK

__all__ = [
    "INK",
    "accuracy_by_distance",
    "attention_map",
    "coverage_curve",
    "crps_by_site",
    "expert_bars",
    "field_map",
    "histogram",
    "integral_histogram",
    "interval_rows",
    "item_map",
    "layer_map",
    "learning_curve",
    "means_by_case",
    "missing_curves",
    "position_matrices",
    "position_scatter",
    "reliability_diagram",
    "result_bars",
    "site_attention_map",
]
