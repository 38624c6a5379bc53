"""Pictures: one function a figure, each returning a `matplotlib.figure.Figure` to show or save."""

from exfam.plots.agreement import agreement_curves
from exfam.plots.attention import attention_map, layer_map
from exfam.plots.bars import result_bars
from exfam.plots.calibration import coverage_curve, integral_histogram, reliability_diagram
from exfam.plots.counts import histogram
from exfam.plots.curves import learning_curve
from exfam.plots.experts import expert_bars
from exfam.plots.fields import crps_by_site, field_map, site_attention_map
from exfam.plots.intervals import interval_rows
from exfam.plots.item_map import item_map
from exfam.plots.layers import layer_curves
from exfam.plots.matrices import matrix_map
from exfam.plots.means import means_by_case
from exfam.plots.missing import missing_curves
from exfam.plots.positions import accuracy_by_distance, position_matrices, position_scatter
from exfam.plots.rates import rate_curve
from exfam.plots.score_points import score_points
from exfam.plots.settings import setting_curve
from exfam.plots.style import INK
from exfam.plots.vectors import vector_map

__all__ = [
    "INK",
    "accuracy_by_distance",
    "agreement_curves",
    "attention_map",
    "coverage_curve",
    "crps_by_site",
    "expert_bars",
    "field_map",
    "histogram",
    "integral_histogram",
    "interval_rows",
    "item_map",
    "layer_curves",
    "layer_map",
    "learning_curve",
    "matrix_map",
    "means_by_case",
    "missing_curves",
    "position_matrices",
    "position_scatter",
    "rate_curve",
    "reliability_diagram",
    "result_bars",
    "score_points",
    "setting_curve",
    "site_attention_map",
    "vector_map",
]
