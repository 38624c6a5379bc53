"""Every `raise` of exfam is reached by some test of the run that just went by."""

import ast

import coverage
import pytest

from house.sources import FILES, parsed, shown


def raises(tree: ast.Module) -> list[tuple[int, int]]:
    """First and last line of every raise statement."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return sorted((node.lineno, node.end_lineno or node.lineno) for node in found)


def unreached(tree: ast.Module, executed: set[int]) -> list[int]:
    return [first for first, last in raises(tree) if executed.isdisjoint(range(first, last + 1))]


def test_a_raise_that_was_not_reached_is_found():
    tree = ast.parse(
        "def f(x):\n    if x:\n        raise E(\n            x\n        )\n    raise F"
    )
    assert unreached(tree, {1, 2, 3}) == [6]
    assert unreached(tree, {1, 2, 6}) == [3]
    assert unreached(tree, {1, 2, 4, 6}) == []


def test_every_raise_is_reached(request):
    if not request.config.getoption("--check-raises"):
        pytest.skip("only with --check-raises, after the whole suite")
    measured = coverage.Coverage.current()
    assert measured is not None, "run as: coverage run -m pytest --check-raises"
    data = measured.get_data()
    missing = [
        f"{shown(path)}:{line}"
        for path in FILES
        for line in unreached(parsed(path), set(data.lines(str(path)) or ()))
    ]
    assert not missing, "no test reaches these raise statements:\n" + "\n".join(missing)
