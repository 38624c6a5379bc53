"""A name means one thing, and says what it is."""

import ast
import re
from collections import defaultdict

import pytest

from house.sources import FILES, PACKAGES, parsed, shown

SOURCE = PACKAGES[0]
OURS = [path for path in FILES if path.is_relative_to(SOURCE)]
ROOMS = sorted({path.relative_to(SOURCE).parts[0] for path in OURS} - {"__init__.py"})
# What every command's module has.
INTERFACES = {"form", "run"}
# Rooms in which something still has to be named anew: the aim is that there is none.
NOT_YET_APART: set[str] = set()
NOT_YET_SINGLE: set[str] = set()
NOT_YET_PLAIN: set[str] = set()
TOLD = re.compile(r"(^|_)(told|tells?)(_|$)", re.IGNORECASE)


def public_names(tree: ast.Module) -> set[str]:
    """Classes and functions that a file defines at its top without an underscore before them."""
    named = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {name for name in named if not name.startswith("_")}


def identifiers(tree: ast.Module) -> set[str]:
    """All names of variables, arguments, attributes, functions and classes.

    But for `tell`, which files of Python have as a method.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg | ast.keyword):
            names.add(node.arg or "")
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names - {"tell"}


def room(path) -> str:
    return path.relative_to(SOURCE).parts[0]


def test_a_public_name_is_defined_once():
    files = defaultdict(list)
    for path in OURS:
        if room(path) not in NOT_YET_APART:
            for name in public_names(parsed(path)) - INTERFACES:
                files[name].append(shown(path))
    assert not {name: paths for name, paths in files.items() if len(paths) > 1}


@pytest.mark.parametrize("name", [name for name in ROOMS if name not in NOT_YET_SINGLE])
def test_a_file_name_stands_once_in_a_room(name):
    files = defaultdict(list)
    for path in OURS:
        if room(path) == name and path.name != "__init__.py":
            files[path.name].append(shown(path))
    assert not {file: paths for file, paths in files.items() if len(paths) > 1}


@pytest.mark.parametrize("name", [name for name in ROOMS if name not in NOT_YET_PLAIN])
def test_names_say_what_a_thing_is(name):
    wrong = {
        shown(path): found
        for path in OURS
        if room(path) == name and (found := sorted(filter(TOLD.search, identifiers(parsed(path)))))
    }
    assert not wrong, "name the thing: a log-probability, a state, a result"


@pytest.mark.parametrize("name", ["told", "_tell", "log_probs_told", "Tells"])
def test_a_vague_name_is_found(name):
    assert any(map(TOLD.search, identifiers(ast.parse(f"def f(x):\n    return x.{name}"))))


def test_public_names_are_those_that_a_file_defines():
    tree = ast.parse("from x import f\nclass G: ...\ndef h(): ...\ndef _i(): ...")
    assert public_names(tree) == {"G", "h"}
