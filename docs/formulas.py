"""Formulas drawn while pages are built, as SVG in the page: no script, nothing from the network.

Matplotlib sets them, in the color of the text around; see its "Writing mathematical expressions".
"""

import re
from functools import cache
from html import escape
from typing import Any

from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath, TextToPath

SIZE = 20
FONT = FontProperties(size=SIZE, math_fontfamily="cm")
# Heights over that of the text around, whose letters are larger than those of formulas.
SCALE = 1.1 / SIZE


@cache
def drawn(latex: str) -> str:
    """A formula as an element of HTML, its baseline on that of the text."""
    text = f"${' '.join(latex.split())}$"
    width, height, below = TextToPath().get_text_width_height_descent(text, FONT, ismath=True)
    steps = []
    for points, kind in TextPath((0, 0), text, prop=FONT).iter_segments():
        # The second axis of SVG points down.
        pairs = points.reshape(-1, 2) * (1, -1)
        step = {1: "M", 2: "L", 3: "Q", 4: "C"}.get(int(kind), "Z")
        numbers = " ".join(f"{x:.1f} {y:.1f}" for x, y in pairs)
        steps.append(step if step == "Z" else step + numbers)
    size = f"width:{SCALE * width:.2f}em;height:{SCALE * height:.2f}em"
    return (
        f'<svg class="formula" role="img" aria-label="{escape(latex)}" '
        f'viewBox="0 {below - height:.1f} {width:.1f} {height:.1f}" '
        f'style="{size};vertical-align:{-SCALE * below:.2f}em"><path d="{"".join(steps)}"/></svg>'
    )


def inline(writer: Any, node: nodes.math) -> None:
    """Within a line."""
    writer.body.append(drawn(node.astext()))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """In lines of their own, which break at wide gaps."""
    parts = re.split(r"\\qquad|\\\\", node.astext().replace(r"\frac", r"\dfrac"))
    shown = " ".join(f"<span>{drawn(part)}</span>" for part in parts if part.strip())
    writer.body.append(f'<div class="formulas">{shown}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Sphinx calls this when it starts."""
    app.add_html_math_renderer("drawn", (inline, None), (block, None))
