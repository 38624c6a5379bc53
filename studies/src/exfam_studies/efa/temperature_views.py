"""Figure 6 of "Exponential Family Attention": the latent factor model by neighbors, beside EFA."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from exfam.plots import setting_curve
from exfam_studies.common.rows import Row

__all__ = ["draw_figure_6"]

# Model -> its name in the figure.
LINES = {
    "efa-l1": "EFA, 1 layer",
    "efa-l2": "EFA, 2 layers",
    "efa-l4": "EFA, 4 layers",
    "efa-ensemble": "EFA, ours",
    "ridge": "ridge",
}


def draw_figure_6(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Test errors of the latent factor model against k, of other models as lines; the file.

    `rows` of one task; none is written where they have no latent factor model.
    """
    errors = [row for row in rows if row.metric == "mse" and "days" not in row.settings]
    curve = [row for row in errors if row.model.startswith("latent-factor-k")]
    if not curve:
        return []
    by_model = {row.model: row for row in errors}
    drawn = [by_model[model] for model in LINES if model in by_model]
    figure = setting_curve(
        np.array([float(row.settings["k"]) for row in curve]),
        np.array([_value(row) for row in curve]),
        name="latent factor",
        setting_name="nearest cities that the latent factor model sees, k",
        metric="test MSE (°F squared)",
        spread=_numbers([row.sd for row in curve]),
        paper=_numbers([row.paper for row in curve]),
        references={_name(row): _value(row) for row in drawn},
    )
    path = folder / "efa-temperature-figure-6.png"
    figure.savefig(path, format="png", dpi=120, facecolor="white")
    return [path]


def _name(row: Row) -> str:
    paper = "" if row.paper is None else f" (paper: {row.paper:.2f})"
    return LINES[row.model] + paper


def _value(row: Row) -> float:
    return float("nan") if row.value is None else row.value


def _numbers(figures: Sequence[float | None]) -> Float[np.ndarray, "rows"]:
    return np.array([np.nan if figure is None else figure for figure in figures], dtype=float)
