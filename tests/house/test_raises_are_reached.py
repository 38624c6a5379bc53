"""Raise statements that no test reaches are found; `--check-raises` looks at a whole run."""

import ast
import importlib.util
import linecache

import pytest

import exfam.checks
from house.imports import Changing, change_imports, changed
from house.raises import REACHED, mark, places, unreached
from house.sources import FILES, PACKAGES, ROOT, parsed

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
    assert places(PATH, ast.fix_missing_locations(tree)) == before
    assert "REACHED.add" in ast.unparse(tree)


def test_all_files_are_looked_at():
    every = [place for path in FILES for place in places(path, parsed(path))]
    assert len(every) > 500 and unreached([]) == every
    assert unreached(every[1:]) == every[:1] and not unreached(every)


def test_modules_are_marked_as_they_are_imported(nothing_reached):
    spec = Changing([mark]).find_spec("exfam.checks", exfam.__path__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    with pytest.raises(ValueError, match="`kind` must be one of 'linear'"):
        again.check_choice("kind", "cubic", ["linear"])
    [place] = REACHED
    path, line = place.split(":")
    assert linecache.getline(str(ROOT / path), int(line)).startswith("        raise ExfamError")


def test_other_modules_are_left_alone():
    assert Changing([mark]).find_spec("json.decoder") is None


def test_modules_already_imported_are_reported():
    with pytest.raises(AssertionError, match=r"imported before .*exfam\.checks"):
        change_imports([mark])
