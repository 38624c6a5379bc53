"""What a report is to be about, and what a builder puts on its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exfam.report.page import Section, Summary


@dataclass(frozen=True, eq=False)
class ReportRequest:
    """Data as the caller gave them, and how to treat them.

    `data`: what the model is scored on, or None; `train`: what baselines are fitted on, or None
    `baselines`: whether to fit baselines at all; `seed`: of random choices
    """

    data: Any = None
    train: Any = None
    baselines: bool = True
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ReportContent:
    """A page but for its title: one sentence on what it is about, what matters first, sections."""

    lead: str
    summary: Summary
    sections: Sequence[Section]
