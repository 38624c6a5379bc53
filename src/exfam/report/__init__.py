"""Reports: one HTML file that holds everything it shows."""

from exfam.report.model_report import write_report
from exfam.report.page import (
    Facts,
    NamedPoints,
    Pairs,
    Picture,
    Section,
    SideBySide,
    Summary,
    TableData,
    render_page,
    write_page,
)

__all__ = [
    "Facts",
    "NamedPoints",
    "Pairs",
    "Picture",
    "Section",
    "SideBySide",
    "Summary",
    "TableData",
    "render_page",
    "write_page",
    "write_report",
]
