"""How a page becomes a notebook: each block of Python is a cell, and all else is text between them.

Pages stay plain Markdown, which any viewer shows; Sphinx runs their cells and adds what these print
and draw. A page may name data that it needs, in a comment at its top:

    <!-- needs: movielens/u.data -->

Where neither the folder of EXFAM_DATA nor the cache has them, its code is shown and not run, and
the page says so.
"""

import atexit
import logging
import os
import re
import shutil
import tempfile
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from exfam.reading.public_sets.published import find_file

BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"\A<!-- needs: (.+?) -->\n")
NOT_RUN = """
```{note}
The code of this page was not run here: it reads public data that this build did not have. Below are
its lines alone, without what they print and draw.
```
"""
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def read_page(text: str) -> NotebookNode:
    """The page as a notebook, without code cells where its data are missing.

    >>> [cell.cell_type for cell in read_page("Text\\n```python\\n1 + 1\\n```\\nand more.").cells]
    ['markdown', 'code', 'markdown']
    """
    needs = NEEDS.match(text)
    if needs and not all(map(find_file, needs[1].split())):
        cells = [new_markdown_cell(_noted(text))]
    else:
        # Text and code by turns, since the pattern has one group.
        parts = [part.strip("\n") for part in BLOCK.split(text)]
        cells = [
            new_code_cell(part) if number % 2 else new_markdown_cell(part)
            for number, part in enumerate(parts)
            if part
        ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # the same in every build
    # Without code no kernel is started.
    runs = any(cell.cell_type == "code" for cell in cells)
    settings = {} if runs else {"mystnb": {"execution_mode": "off"}}
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL, **settings})


def plain_kernels() -> None:
    """Let kernels start without anybody's own settings, and say nothing but errors."""
    folder = Path(tempfile.mkdtemp(prefix="exfam-docs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    profile = folder / "profile_default"
    profile.mkdir()
    (profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n")
    os.environ["IPYTHONDIR"] = str(folder)
    logging.getLogger("traitlets").setLevel(logging.WARNING)


def _noted(text: str) -> str:
    """The page with a note under its title."""
    title = re.search(r"^# .*\n", text, re.MULTILINE)
    end = title.end() if title else 0
    return text[:end] + NOT_RUN + text[end:]
