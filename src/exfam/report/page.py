"""One self-contained HTML page: words, tables and pictures, for light and dark screens."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from exfam import __version__
from exfam.checks import ExfamError
from exfam.files import write_atomically
from exfam.report.inline import inline_svg

__all__ = ["Picture", "Section", "TableData", "render_page", "write_page"]


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure and what it shows; `title` is also read aloud in its place."""

    title: str
    figure: Figure
    caption: str = ""


@dataclass(frozen=True)
class TableData:
    """A table of finished words and figures. Columns named in `words` start at the left.

    Raises ExfamError if a row has not one cell for each column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ExfamError(
                    f"`rows` must have {len(self.columns)} cells each, one a column, "
                    f"got {len(row)} in row {number}."
                )


@dataclass(frozen=True, eq=False)
class Section:
    """A heading, paragraphs, then tables and pictures."""

    title: str
    text: Sequence[str] = ()
    parts: Sequence[TableData | Picture] = ()


def render_page(title: str, *, lead: str, sections: Sequence[Section]) -> str:
    """The page as HTML: styles and pictures inside, no scripts, nothing loaded from elsewhere.

    Words are escaped. The same arguments give the same text.

    >>> page = render_page("Ratings", lead="5 < 6 movies.", sections=[Section("Results")])
    >>> "<h2>Results</h2>" in page, "5 &lt; 6 movies." in page
    (True, True)
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("exfam.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        lead=lead,
        sections=[
            (section, [(part, _drawn(part, f"p{s}-{n}-")) for n, part in enumerate(section.parts)])
            for s, section in enumerate(sections)
        ],
        version=__version__,
    )


def _drawn(part: TableData | Picture, prefix: str) -> Markup | None:
    if isinstance(part, TableData):
        return None
    return Markup(inline_svg(part.figure, title=part.title, prefix=prefix))


def write_page(
    path: str | os.PathLike[str], *, title: str, lead: str, sections: Sequence[Section]
) -> Path:
    """Write the page, whole or not at all, and return its path."""
    return write_atomically(path, render_page(title, lead=lead, sections=sections))
