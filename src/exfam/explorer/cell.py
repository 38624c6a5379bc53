"""The page within a cell of a notebook: a frame that shows what is served beside it."""

import html

from rich.console import Console

# What a page's address ends in to be shown within another page of this machine.
CELL = "cell"
_HIGH = 720


def in_notebook() -> bool:
    """Whether results are shown in a notebook, as rich finds out."""
    return Console().is_jupyter


def framed(address: str) -> str:
    """A frame for a notebook's cell that shows the page of this address.

    >>> framed("http://127.0.0.1:8000/token/").count("127.0.0.1")
    2
    """
    source = html.escape(f"{address}?{CELL}")
    return (
        f'<iframe src="{source}" title="exfam explore" width="100%" height="{_HIGH}" '
        'style="border: 0" referrerpolicy="no-referrer" '
        'sandbox="allow-scripts allow-same-origin"></iframe>'
        f'<p><a href="{html.escape(address)}" target="_blank" rel="noreferrer">Open it in a page '
        "of its own</a>. It is served by this notebook's kernel, on the machine that the kernel "
        "runs on.</p>"
    )
