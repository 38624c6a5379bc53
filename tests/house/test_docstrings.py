"""Docstrings become reStructuredText that Sphinx reads without warnings."""

import importlib.util

from house.sources import ROOT

_spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs" / "docstrings.py")
docstrings = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docstrings)


def test_entries_become_a_list_and_names_become_code():
    lines = ["Columns:", "`group`: of baskets", "`order`: to sort by,", "    if any", "", "After."]
    assert docstrings.as_restructured_text(lines) == [
        "Columns:",
        "",
        "- ``group``: of baskets",
        "- ``order``: to sort by,",
        "  if any",
        "",
        "After.",
        "",
    ]


def test_examples_stay_as_they_are():
    lines = [">>> f(`x`)", "`x`: 1", "", "`y` is code again"]
    assert docstrings.as_restructured_text(lines)[:2] == lines[:2]
    assert docstrings.as_restructured_text(lines)[3] == "``y`` is code again"
