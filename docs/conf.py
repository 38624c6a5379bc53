"""How Sphinx builds the documentation: python -m sphinx -W docs out/docs."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from cells import plain_kernels  # noqa: E402
from docstrings import as_restructured_text  # noqa: E402

import exfam  # noqa: E402

# One thread: the gallery's small fits gain nothing from more.
os.environ.setdefault("OMP_NUM_THREADS", "1")
plain_kernels()

project = "exfam"
author = "The exfam developers"
copyright = "2026, the exfam developers"
version = release = exfam.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "formulas",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["results/*", "gallery/*", "examples/*.ipynb"]
source_suffix = {".rst": "restructuredtext"}
# Blocks of Python in Markdown are run, each page in a kernel and an empty folder of its own.
nb_custom_formats = {".md": "cells.read_page"}
nb_execution_mode = "force"
nb_execution_in_temp = True
# An error is a warning, which fails the build, with its traceback.
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "warn"
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nitpicky = False

html_theme = "furo"
html_title = f"exfam {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["exfam.css"]

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE / "gallery")],
    "gallery_dirs": ["examples"],
    "filename_pattern": re.escape(os.sep),
    "ignore_pattern": r"__init__\.py",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1,
    "abort_on_example_error": True,
    "write_computation_times": False,
}


def setup(app):
    """Sphinx calls this when it starts."""
    app.connect("autodoc-process-docstring", _rewrite)
    app.connect("autodoc-skip-member", _skip_routing)


def _rewrite(app, what, name, obj, options, lines):
    lines[:] = as_restructured_text(lines)


def _skip_routing(app, what, name, obj, skip, options):
    # Inherited from scikit-learn: their texts refer to pages that are not ours.
    inherited = name in ("get_metadata_routing", "fit_transform", "set_output")
    return skip or inherited or name.endswith("_request") or None
