"""A fitted model and what it says of data, as one self-contained HTML page."""

import os
from pathlib import Path
from typing import Any

from exfam.estimators.base import GroupEstimator
from exfam.report.page import Section, TableData, write_page

__all__ = ["write_report"]


def write_report(
    model: GroupEstimator,
    data: Any = None,
    *,
    path: str | os.PathLike[str],
    title: str | None = None,
    train: Any = None,
    baselines: bool = True,
    seed: int = 0,
) -> Path:
    """Write a page about a fitted model, and return its path.

    `data`: Groups, or whatever else the model reads, to score it on; without, the page tells of
        the model alone
    `train`: what cheap baselines are fitted on; half of the groups of `data` unless given
    `baselines`: whether to fit them (default True)
    `seed`: of samples of groups, halves and baselines (default 0)
    """
    sections = [_model_section(model)]
    if data is not None:
        inputs = model._inputs(data)
        parts = ", ".join(
            f"{name} {nats:.4f}" for name, nats in model.score_parts(inputs.groups).items()
        )
        sections.append(Section("Scores", text=[f"Nats an element: {parts}."]))
    return write_page(
        path,
        title=title or f"{type(model).__name__} model",
        lead="What the model is and what it says of the data.",
        sections=sections,
    )


def _model_section(model: GroupEstimator) -> Section:
    rows = [[name, str(value)] for name, value in model.get_params(deep=False).items()]
    return Section(
        "The model", parts=[TableData(["parameter", "value"], rows, words=["parameter", "value"])]
    )
