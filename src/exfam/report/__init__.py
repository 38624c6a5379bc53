"""Reports: one HTML file that holds everything it shows."""

from exfam.report.model_report import write_report
from exfam.report.page import (
    Facts,
    Pairs,
    Picture,
    Section,
    SideBySide,
    TableData,
    render_page,
    write_page,
)

__all__ = [
    "Facts",
    "Pairs",
    "Picture",
    "Section",
    "SideBySide",
    "TableData",
    "render_page",
    "write_page",
    "write_report",
]
