"""What all pictures share: ink, colors, axes, and names that can be drawn.

Lines and words have the color INK, so that a page can repaint them for dark screens; data have
colors that read on light and dark.
"""

import unicodedata
from collections.abc import Sequence
from io import BytesIO
from typing import Any
from urllib.parse import quote

import numpy as np
from jaxtyping import Num
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, FigureBase
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from exfam.checks import ExfamError

# A new figure, or None where axes were given; "Any" spares callers to ask which.
Drawn = Figure | Any

INK = "#24292f"
ON_DATA = "#10151c"
COLORS = ("#2f7ed8", "#e07a2f", "#3aa76d", "#b05cc6", "#c9a227")
MUTED = "#8b949e"
SHADES = LinearSegmentedColormap.from_list(
    "weights", ["#eef3fb", "#9cc3ee", "#2f7ed8", "#173f7a", "#0b1f40"]
)
_LINES = ("-", "--", ":")
# Starts the gid of a text that stands for a name with letters that the font lacks.
NAME_MARK = "name:"
_STAND_IN = "\N{WHITE SQUARE}"


def check_as_many(name: str, got: int, expected: int, *, of: str) -> None:
    """Raise ExfamError unless there is one for each of what is drawn."""
    if got != expected:
        raise ExfamError(f"`{name}` must be one for each of {expected} {of}, got {got}.")


class NotebookFigure(Figure):
    """A figure that notebooks show by themselves, whether pyplot is imported or not."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Twice as many dots as it takes place, for sharp screens."""
        content = BytesIO()
        self.savefig(content, format="png", dpi=2 * self.dpi)
        width, height = (round(side * self.dpi) for side in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}


def make_figure(*, width: float, height: float, ax: Axes | None = None) -> Drawn:
    """An empty figure that makes room for its labels; with `ax`, a figure in the place of these.

    Raises ExfamError for axes outside a grid, which have no place to share.
    """
    if ax is None:
        return NotebookFigure(figsize=(width, height), layout="constrained")
    place = ax.get_subplotspec()
    if place is None:
        raise ExfamError(
            "`ax` must be axes of a grid, such as those of plt.subplots(), for a picture of "
            "several panels. Leave `ax` out for a figure of its own."
        )
    ax.set_axis_off()
    return ax.figure.add_subfigure(place)


def one_panel(*, width: float, height: float, ax: Axes | None = None) -> tuple[Drawn, Axes]:
    """A figure of one plain panel; with `ax`, these axes made plain and their figure."""
    if ax is not None:
        return ax.figure, plain_axes(ax)
    figure = make_figure(width=width, height=height)
    return figure, plain_axes(figure.subplots())


def drawn(figure: FigureBase, ax: Axes | None) -> Drawn:
    """What a picture returns: the new figure, or None where the axes were given.

    A notebook that shows the figure of these axes shows it once then.
    """
    return figure if ax is None else None


def fix_layout(figure: FigureBase) -> None:
    """Make the layout of our own figure final: names are placed where it left the dots."""
    whole = figure.get_figure(root=True)
    whole.draw_without_rendering()
    if isinstance(whole, NotebookFigure):
        whole.set_layout_engine("none")


def plain_axes(axes: Axes) -> Axes:
    """Axes in INK on no background, open at the top and the right."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(INK)
    axes.tick_params(colors=INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(INK)
    return axes


def color_bar(mappable: ScalarMappable, axes: Axes | np.ndarray, **where: object) -> Colorbar:
    """A color bar without a frame; `where` goes to matplotlib."""
    first = np.atleast_1d(np.asarray(axes)).flat[0]
    bar: Colorbar = first.figure.colorbar(mappable, ax=axes, **where)
    plain_axes(bar.ax)
    bar.outline.set_visible(False)
    if bar.solids is not None:  # browsers leave seams between patches without edges
        bar.solids.set(edgecolor="face", linewidth=0.8)
    bar.minorticks_off()
    return bar


def shortened(name: object, *, most: int) -> str:
    """The name in one line of at most `most` letters, the last an ellipsis where it is longer."""
    text = " ".join(str(name).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def drawable(name: str) -> str:
    """The name with a square for each letter that matplotlib's font has no picture of."""
    if name.isascii() and name.isprintable():
        return name
    fonts = _fonts()

    def shown(letter: str) -> str:
        if letter.isprintable() and any(font.get_char_index(ord(letter)) for font in fonts):
            return letter
        # Accents, joiners and controls have no width of their own.
        return "" if unicodedata.category(letter)[0] in "MC" else _STAND_IN

    return "".join(map(shown, name))


def _fonts() -> list[FT2Font]:
    """Those that matplotlib writes with."""
    families = FontProperties().get_family()
    return [get_font(findfont(FontProperties(family=[family]))) for family in families]


def name_width(name: str, *, size: float) -> float:
    """Points that a name takes at this font size, about; letters that stand alone take one size."""
    font = _fonts()[0]
    font.set_size(size, 72)
    return sum(
        size
        if unicodedata.east_asian_width(letter) in "WF"
        else font.load_char(ord(letter)).linearHoriAdvance / 65536
        for letter in name
        if unicodedata.category(letter)[0] not in "MC"
    )


def write_name(text: Text, name: str) -> Text:
    """Let `text` show a name as it is: dollar signs are no formulas, unknown letters squares.

    A name with squares leaves its true spelling in the gid, for pages whose fonts have the letters.
    """
    shown = drawable(name)
    text.set_parse_math(False)
    text.set_text(shown)
    if shown != name:
        text.set_gid(NAME_MARK + quote(name, safe="", errors="replace"))
    return text


def name_ticks(axis: Axis, at: Num[np.ndarray, "names"], names: Sequence[str]) -> None:
    """Names at points of an axis."""
    axis.set_ticks(at, [drawable(name) for name in names])
    for tick, name in zip(axis.get_major_ticks(len(names)), names, strict=True):
        write_name(tick.label1, name)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows 0, 1, …, the first at the top."""
    name_ticks(axes.yaxis, np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def write_beside(axes: Axes, texts: Sequence[str], ends: Num[np.ndarray, "rows"]) -> None:
    """Texts at the right of what ends there in the rows 0, 1, …"""
    for row, (text, end) in enumerate(zip(texts, ends.tolist(), strict=True)):
        axes.annotate(text, (end, row), (8, 0), textcoords="offset points", va="center", color=INK)


def line_of(number: int) -> tuple[str, str]:
    """Style and color of the curve of that number: colors first, then other dashes."""
    return _LINES[number // len(COLORS) % len(_LINES)], COLORS[number % len(COLORS)]


def legend_beside(axes: Axes) -> None:
    """A legend at the right of the axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelcolor=INK)


def legend_above(axes: Axes) -> None:
    """A legend in one line above the axes, if anything has a name."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        axes.legend(
            handles, names, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(names),
            frameon=False, labelcolor=INK, borderaxespad=0.3, handletextpad=0.5,
        )  # fmt: skip
