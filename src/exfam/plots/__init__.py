"""Pictures: one function for each, which returns a `matplotlib.figure.Figure` to show or save.

Notebooks show it by themselves, and its `axes` can be adjusted. With `ax`, a picture is drawn in
the place of axes of your own, and nothing is returned: your figure shows it, once.
"""

from exfam.plots.attention import attention_map, layer_map, position_matrices
from exfam.plots.communities import association_map, known_curves
from exfam.plots.conditionals import conditional_band, conditional_shares
from exfam.plots.curves import learning_curve, missing_curves
from exfam.plots.distributions import (
    coverage_curve,
    histogram,
    integral_bars,
    integral_histogram,
    reliability_diagram,
)
from exfam.plots.fields import crps_by_site, field_map, site_attention_map
from exfam.plots.item_map import item_map
from exfam.plots.results import (
    association_dots,
    conditional_bars,
    forecast_fan,
    interval_dots,
    position_maps,
    presence_bars,
    recommendation_bars,
    relation_bars,
    sensing_bars,
    shift_rows,
    similar_bars,
    similarity_map,
)
from exfam.plots.rows import expert_bars, interval_rows, means_by_case, result_bars
from exfam.plots.stations import plan_map, series_band
from exfam.plots.style import INK
from exfam.plots.sums import (
    column_bars,
    community_bars,
    contribution_bars,
    explanation_bars,
    field_bars,
    size_bars,
    sum_bars,
    value_bars,
)
from exfam.plots.word_vectors import length_by_frequency, spectrum_curves

__all__ = [
    "INK",
    "association_dots",
    "association_map",
    "attention_map",
    "column_bars",
    "community_bars",
    "conditional_band",
    "conditional_bars",
    "conditional_shares",
    "contribution_bars",
    "coverage_curve",
    "crps_by_site",
    "expert_bars",
    "explanation_bars",
    "field_bars",
    "field_map",
    "forecast_fan",
    "histogram",
    "integral_bars",
    "integral_histogram",
    "interval_dots",
    "interval_rows",
    "item_map",
    "known_curves",
    "layer_map",
    "learning_curve",
    "length_by_frequency",
    "means_by_case",
    "missing_curves",
    "plan_map",
    "position_maps",
    "position_matrices",
    "presence_bars",
    "recommendation_bars",
    "relation_bars",
    "reliability_diagram",
    "result_bars",
    "sensing_bars",
    "series_band",
    "shift_rows",
    "similar_bars",
    "similarity_map",
    "site_attention_map",
    "size_bars",
    "spectrum_curves",
    "sum_bars",
    "value_bars",
]
