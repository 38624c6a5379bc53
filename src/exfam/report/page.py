"""One self-contained HTML page: words, tables and pictures, for light and dark screens."""

import base64
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from exfam import __version__
from exfam.checks import ExfamError
from exfam.files import write_atomically
from exfam.report.inline import inline_svg


@dataclass(frozen=True, eq=False)
class NamedPoints:
    """Named dots in a plane that readers search and zoom, the most important first.

    `weight`: areas of the dots, in any unit
    """

    names: Sequence[str]
    points: Float[np.ndarray, "names 2"]
    weight: Float[np.ndarray, "names"]

    def to_json(self) -> str:
        """As the page's script reads it: coordinates and areas from 0 to 1."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        x, y = ((self.points - low) / np.where(high > low, high - low, 1.0)).round(4).T.tolist()
        size = self.weight / (self.weight.max(initial=0.0) or 1.0)
        content = {"names": list(self.names), "x": x, "y": y, "size": size.round(4).tolist()}
        return json.dumps(content, ensure_ascii=False)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure and what it shows; screen readers read the `title` instead.

    `narrow`: another figure for screens that have no room for the first; `named`: dots of the
    figure, which a script makes a map to be searched and zoomed, where scripts run.
    """

    kind: ClassVar = "picture"
    title: str
    figure: Figure
    caption: str = ""
    narrow: Figure | None = None
    named: NamedPoints | None = None


@dataclass(frozen=True)
class Pairs:
    """A cell of words with a figure each, such as related items; an en dash if there are none."""

    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableData:
    """A table of finished words and figures. Columns named in `words` start at the left.

    `shares`: column -> for each row a number in [0, 1], drawn as a bar behind the cell.
    `marked`: numbers of rows that stand out.
    Raises ExfamError if a row has not one cell for each column.
    """

    kind: ClassVar = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Pairs]]
    words: Sequence[str] = ()
    caption: str = ""
    title: str = ""
    shares: Mapping[str, Sequence[float]] = field(default_factory=dict)
    marked: Collection[int] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ExfamError(
                    f"`rows` must have {len(self.columns)} cells each, one a column, "
                    f"got {len(row)} in row {number}."
                )

    @property
    def is_listed(self) -> bool:
        """Whether some cell has words with figures, so that narrow screens list the rows."""
        return any(isinstance(cell, Pairs) for row in self.rows for cell in row)


@dataclass(frozen=True)
class Facts:
    """Single figures, each under its name."""

    kind: ClassVar = "facts"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class SideBySide:
    """Parts next to each other where the screen is wide enough."""

    kind: ClassVar = "beside"
    inside: Sequence[TableData | Picture]


Part = TableData | Picture | Facts | SideBySide


@dataclass(frozen=True, eq=False)
class Section:
    """A heading, paragraphs, then tables and pictures."""

    title: str
    text: Sequence[str] = ()
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Summary:
    """What a page says first, in plain sentences; empty ones are left out.

    `quality`: how good the model is; `against`: beside what; `attention`: what attention adds;
    `careful`: what the reader should be careful about
    """

    quality: str = ""
    against: str = ""
    attention: str = ""
    careful: Sequence[str] = ()

    @property
    def entries(self) -> list[tuple[str, list[str]]]:
        """Headings with their sentences."""
        listed = {
            "How good": [self.quality],
            "Against what": [self.against],
            "What attention adds": [self.attention],
            "What to be careful about": list(self.careful),
        }
        kept = {name: list(filter(None, sentences)) for name, sentences in listed.items()}
        return [(name, sentences) for name, sentences in kept.items() if sentences]


NO_SUMMARY = Summary()


def left_out(title: str, why: str) -> Section:
    """A section that says why there is nothing in it."""
    return Section(title, text=[f"Left out: {why}"])


def render_page(
    title: str, *, lead: str, sections: Sequence[Section], summary: Summary = NO_SUMMARY
) -> str:
    """The page as HTML: styles and pictures inside, nothing loaded from elsewhere.

    Its policy allows one script, ours, by its hash, and that only where a picture has named dots.
    Words are escaped. The same arguments give the same text.

    >>> page = render_page("Ratings", lead="5 < 6 movies.", sections=[Section("Results")])
    >>> "Results</h2>" in page, "5 &lt; 6 movies." in page
    (True, True)
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files("exfam.report")
    template = folder.joinpath("page.html").read_text(encoding="utf-8")
    script = folder.joinpath("map.js").read_text(encoding="utf-8") if _has_map(sections) else ""
    page = environment.from_string(template).render(
        title=title,
        lead=lead,
        summary=summary.entries,
        sections=sections,
        version=__version__,
        svg=inline_svg,
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page.lstrip()


def _has_map(sections: Sequence[Section]) -> bool:
    """Whether some picture has named dots."""
    parts = [part for section in sections for part in section.parts]
    inside = [piece for part in parts if isinstance(part, SideBySide) for piece in part.inside]
    return any(isinstance(part, Picture) and part.named for part in [*parts, *inside])


def write_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    lead: str,
    sections: Sequence[Section],
    summary: Summary = NO_SUMMARY,
) -> Path:
    """Write the page, whole or not at all, and return its path."""
    page = render_page(title, lead=lead, sections=sections, summary=summary)
    return write_atomically(path, page)
