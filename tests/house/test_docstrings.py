"""Docstrings become reStructuredText that Sphinx reads without warnings."""

import docstrings


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


def test_bars_are_bars():
    lines = ["`a | b` is |a| at least"]
    assert docstrings.as_restructured_text(lines)[0] == r"``a | b`` is \|a\| at least"
