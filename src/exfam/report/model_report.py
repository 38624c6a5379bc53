"""A fitted model and what it says of data, as one self-contained HTML page."""

import os
from pathlib import Path
from typing import Any

from exfam.checks import check_seed
from exfam.files import check_page_path
from exfam.report.contents import ReportRequest
from exfam.report.kinds import builder_of
from exfam.report.page import write_page
from exfam.report.words import clean


def write_report(
    model: Any,
    data: Any = None,
    *,
    path: str | os.PathLike[str],
    title: str | None = None,
    train: Any = None,
    baselines: bool = True,
    seed: int = 0,
) -> Path:
    """Write one HTML page, below 2 MB, about a fitted model and its data; return its path.

    First it says how good the model is, beside what, what attention adds, and what to be careful
    about. What does not apply is left out, large data are sampled, and the page says so.

    `model`: fitted, of groups or of tables
    `data`: a frame, a path or Groups, whatever the model reads; without it the page is about the
        model alone (default None)
    `title`: of the page; the estimator's name unless given (default None)
    `train`: what the baselines are fitted on, such as the model's training data; part of
        `data` unless given (default None)
    `baselines`: whether to fit cheap baselines at all (default True)
    `seed`: of samples, halves, baselines and random spreads (default 0)

    Raises ExfamError for a path that ends in another suffix than .html, a model that no report is
    written about or data without a target, and what the model raises for data it cannot take.

    >>> from exfam.efa.baselines import Marginal
    >>> frame = {"user": [1, 1, 2], "movie": ["a", "b", "a"]}
    >>> model = Marginal(group="user", item="movie").fit(frame)
    >>> import tempfile
    >>> write_report(model, frame, path=Path(tempfile.mkdtemp(), "report.html")).name
    'report.html'
    """
    check_seed("seed", seed)
    check_page_path("path", path)
    request = ReportRequest(data, train, baselines=baselines, seed=seed)
    content = builder_of(model)(model, request)
    return write_page(
        path,
        title=clean(title or f"{type(model).__name__}: a report", most=120),
        lead=content.lead,
        summary=content.summary,
        sections=content.sections,
    )
