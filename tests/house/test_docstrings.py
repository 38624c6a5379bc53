"""Docstrings become reStructuredText that Sphinx reads without warnings."""

import docstrings
import pytest


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["Columns:", "`group`: of baskets", "`order`: to sort by,", "    if any", "", "After."],
            ["Columns:", "", "- ``group``: of baskets", "- ``order``: to sort by,", "  if any"]
            + ["", "After.", ""],
        ),
        ([">>> f(`x`)", "`x`: 1", "", "`y` it is"], [">>> f(`x`)", "`x`: 1", "", "``y`` it is"]),
        (["`a | b` is |a| at least"], [r"``a | b`` is \|a\| at least"]),
    ],
    ids=["entries are a list", "examples stay", "bars are bars"],
)
def test_lines_become_restructured_text(lines, expected):
    assert docstrings.as_restructured_text(lines)[: len(expected)] == expected
