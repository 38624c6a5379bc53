"""A figure as SVG that is part of an HTML page."""

import io
import re
from html import escape
from urllib.parse import unquote

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from exfam.plots.style import NAME_MARK

# Below this share of its size a picture is scrolled rather than shrunk: its words stay legible.
LEAST_SCALE = 0.75
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
_REFERENCES = re.compile(r'(\bid="|\bhref="#|url\(#)')
_HEAD = re.compile(r"<svg [^>]*?viewBox=\"(?P<box>[^\"]*)\"[^>]*>", re.DOTALL)
_FONT = re.compile(r"font-family: [^;\"]*;? ?")
_NAMED = re.compile(rf'<g id="{NAME_MARK}([^"]*)">\s*(<text[^>]*>)[^<]*</text>')
_DECIMALS = re.compile(r"(\d+\.\d{2})\d+")
_TURN = re.compile(r' transform="rotate\(-?0 [^"]*"')
_TAG = re.compile(r"<[^>]+>")


def inline_svg(figure: Figure, *, title: str, prefix: str) -> str:
    """The figure as an `<svg>` element whose ink is the color of the text around it.

    Ink is the color of its first axis' label, whatever is drawn in it. Words are words, in the
    font of the page. `prefix` starts the names of all its parts, so that several pictures fit on
    one page. No background, no link, no date: the same figure gives the same text.
    """
    file = io.StringIO()
    # The salt makes names repeatable.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "exfam"}):
        figure.savefig(file, format="svg", metadata=_NO_METADATA, facecolor="none")
    svg = file.getvalue()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _NAMED.sub(lambda found: f"<g>{found[2]}{escape(unquote(found[1]))}</text>", svg)
    ink = to_hex(figure.axes[0].xaxis.label.get_color()) if figure.axes else "#000000"
    svg = _REFERENCES.sub(rf"\1{prefix}", svg).replace(ink, "currentColor")
    svg = _TAG.sub(lambda tag: _DECIMALS.sub(r"\1", _TURN.sub("", _FONT.sub("", tag[0]))), svg)
    return _HEAD.sub(lambda found: _head(found["box"], title), svg, count=1).strip()


def _head(box: str, title: str) -> str:
    # Points are 1/72 inch, pixels of a page 1/96. Black letters state no color: they inherit one.
    width = float(box.split()[2]) * 96 / 72
    label = escape(title, quote=True)
    size = f"max-width: {width:.0f}px; min-width: {LEAST_SCALE * width:.0f}px"
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{label}" style="{size}; fill: currentColor">'
    )
