"""Reports: one HTML file that holds everything it shows."""

from exfam.report.page import Picture, Section, TableData, render_page, write_page

__all__ = ["Picture", "Section", "TableData", "render_page", "write_page"]
