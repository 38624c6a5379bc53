"""A figure as SVG that is part of an HTML page."""

import io
import re
from html import escape

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

__all__ = ["inline_svg"]

_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
_REFERENCES = re.compile(r'(\bid="|\bhref="#|url\(#)')
_HEAD = re.compile(r"<svg [^>]*?viewBox=\"(?P<box>[^\"]*)\"[^>]*>", re.DOTALL)


def inline_svg(figure: Figure, *, title: str, prefix: str) -> str:
    """The figure as an `<svg>` element whose ink is the color of the text around it.

    Ink is the color of its first axis' label, whatever is drawn in it.
    `prefix` starts the names of all its parts, so that several pictures fit on one page. No
    background, no link, no date: the same figure gives the same text.

    >>> svg = inline_svg(Figure((2, 1)), title="Nothing", prefix="a-")
    >>> svg.partition(" style")[0]
    '<svg viewBox="0 0 144 72" role="img" aria-label="Nothing"'
    """
    file = io.StringIO()
    # Outlines of letters need no font on the reader's machine; the salt makes names repeatable.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "exfam"}):
        figure.savefig(file, format="svg", metadata=_NO_METADATA, facecolor="none")
    svg = file.getvalue()
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _REFERENCES.sub(rf"\1{prefix}", svg).replace(_ink(figure), "currentColor")
    return _HEAD.sub(lambda found: _head(found["box"], title), svg, count=1).strip()


def _ink(figure: Figure) -> str:
    return to_hex(figure.axes[0].xaxis.label.get_color()) if figure.axes else "#000000"


def _head(box: str, title: str) -> str:
    # Points are 1/72 inch, pixels of a page 1/96. Black letters state no color: they inherit one.
    width = round(float(box.split()[2]) * 96 / 72)
    label = escape(title, quote=True)
    style = f"max-width: {width}px; fill: currentColor"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}" style="{style}">'
