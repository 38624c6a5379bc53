"""Docstrings become reStructuredText that Sphinx reads; their first lines are sentences."""

import docstrings
import pytest
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from sphinx.ext.autosummary import extract_summary

from house.reference import documented


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


def summary(docstring):
    """The line that a table of the reference shows: what Sphinx takes for the first sentence."""
    settings = get_default_settings(Parser)
    return extract_summary(docstrings.as_restructured_text(docstring.splitlines()), settings)


def cut(line):
    """Whether a line ends in the middle of a formula, a bracket or a list."""
    pairs = ("()", "[]", "{}")
    return (
        not line.endswith((".", ".``", "?"))
        or line.endswith((" .", ".."))
        or line.count("``") % 2
        or any(line.count(left) != line.count(right) for left, right in pairs)
    )


@pytest.mark.parametrize(
    ("docstring", "is_cut"),
    [
        ("The mean of each row.", False),
        ("The mean (in nats. Of each row).", True),
        ("y | others ~ N(h . sum of h, s).", True),
        ("Labels 1 ... n of a column.", True),
        ("No full stop", True),
    ],
)
def test_a_formula_cut_in_two_is_noticed(docstring, is_cut):
    assert cut(summary(docstring)) == is_cut


def test_first_lines_of_the_reference_are_sentences():
    """Each begins on the first line, ends on it, and is whole where the reference cites it."""
    wrong = {}
    for name, text in documented():
        first, shown = text.split("\n")[0], summary(text)
        plain = [line.replace("`", "").replace("\\", "") for line in (first, shown)]
        if cut(shown) or not plain[0].startswith(plain[1]) or not first.endswith((".", "?")):
            wrong[name] = first
    assert not wrong
