"""Raise statements that no test reaches are found; `--check-raises` looks at a whole run."""

import ast
import re

import pytest

from house.imports import changed
from house.raises import REACHED, mark, places, unreached
from house.sources import FILES, PACKAGES, shown

CODE = """def f(x):
    if x == "é": raise ValueError(x)
    if x:
        raise KeyError(
            x
        )
    try:
        raise OSError("no") from None
    except OSError as error:
        raise
"""
PATH = PACKAGES[0] / "some.py"


@pytest.fixture
def nothing_reached():
    """Nothing that these tests reach counts as reached."""
    before = set(REACHED)
    REACHED.clear()
    yield
    REACHED.clear()
    REACHED.update(before)


@pytest.fixture
def function():
    names = {}
    exec(changed(CODE.encode(), PATH, [mark]), names)
    return names["f"]


@pytest.mark.parametrize(
    ("value", "message", "lines"), [("é", "é", {2}), (1, "1", {4}), (0, "no", {8, 10})]
)
def test_those_reached_are_distinguished(nothing_reached, function, value, message, lines):
    with pytest.raises(Exception, match=message) as caught:
        function(value)
    assert {f"src/exfam/some.py:{line}" for line in lines} == REACHED
    assert caught.traceback[-1].lineno + 1 in lines


def test_marks_move_no_line():
    tree = ast.parse(CODE)
    before = places(PATH, tree)
    mark(tree, PATH)
    assert places(PATH, tree) == before


def test_all_files_are_looked_at():
    every = [
        f"{shown(path)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if re.match(r" *raise\b", line)  # as the first word of a line, in no prose
    ]
    assert len(every) > 500 and unreached([]) == every
    assert unreached(every[1:]) == every[:1] and not unreached(every)
