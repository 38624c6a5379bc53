"""The page that one can touch: a fitted model answers "what if" in a browser, on this machine."""

from exfam.explorer.serve import explore

__all__ = ["explore"]
