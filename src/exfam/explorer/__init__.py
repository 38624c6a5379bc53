"""The page that one can touch: a fitted model answers "what if" in a browser, on this machine."""

from exfam.explorer.exported.page import ExportedPage, write_explorer
from exfam.explorer.serve import explore

__all__ = ["ExportedPage", "explore", "write_explorer"]
