"""A fitted model and what it says of data, as one self-contained HTML page."""

import os
from pathlib import Path
from typing import Any

from exfam.checks import check_seed
from exfam.efa.group_estimator import GroupEstimator
from exfam.report.evaluation import evaluate
from exfam.report.material import Material, gather_material
from exfam.report.page import write_page
from exfam.report.sections.attention import attention_section
from exfam.report.sections.calibration import calibration_section
from exfam.report.sections.data import data_section
from exfam.report.sections.items import complements_section, map_section
from exfam.report.sections.model import model_section
from exfam.report.sections.scores import score_section
from exfam.report.words import clean, quantity


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
    """Write one HTML page, below 2 MB, about a fitted model and its data; return its path.

    What does not apply is left out, large data are sampled, and the page says so.

    `data`: Groups, a frame or a path, whatever the model reads; without it the page is about the
        model alone (default None)
    `title`: of the page; the estimator's name unless given (default None)
    `train`: what the baselines are fitted on, such as the model's training data; half of the
        groups of `data` unless given (default None)
    `baselines`: whether to fit cheap baselines at all (default True)
    `seed`: of samples, halves, baselines and random spreads (default 0)

    Raises ExfamError for data without a target, and what the model raises for data it cannot take.

    >>> from exfam.efa.baselines import Marginal
    >>> frame = {"user": [1, 1, 2], "movie": ["a", "b", "a"]}
    >>> model = Marginal(group="user", item="movie").fit(frame)
    >>> import tempfile
    >>> write_report(model, frame, path=Path(tempfile.mkdtemp(), "report.html")).name
    'report.html'
    """
    check_seed("seed", seed)
    material = gather_material(model, data, train, baselines=baselines, seed=seed)
    scored = material.scored
    evaluation = None if scored is None else evaluate(model, scored, calibration=True)
    return write_page(
        path,
        title=clean(title or f"{type(model).__name__}: a report", most=120),
        lead=_lead(material),
        sections=[
            data_section(material),
            model_section(material),
            score_section(material, evaluation),
            calibration_section(material, evaluation),
            attention_section(material),
            map_section(material),
            complements_section(material),
        ],
    )


def _lead(material: Material) -> str:
    parts = ["items"] if material.has_items else []
    parts += [f"“{clean(spec.column, most=30)}”" for spec in material.model.schema_.values[:3]]
    what = f"{type(material.model).__name__}, {material.model.direction}, of {' and '.join(parts)}"
    if material.data is None:
        return f"{what}, without data."
    return f"{what}, on {quantity(len(material.data), 'group')} of data."
