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
TOLD = re.compile(r"(^|_)(told|tells?)(_|$)", re.IGNORECASE)


def public_names(tree: ast.Module) -> set[str]:
    """Classes and functions that a file defines at its top without an underscore before them."""
    named = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {name for name in named if not name.startswith("_")}


def identifiers(tree: ast.Module) -> set[str]:
    """Names of variables, arguments, attributes and so on."""
    fields = ("id", "arg", "attr", "name")
    names = {getattr(node, field, None) for node in ast.walk(tree) for field in fields}
    return {name for name in names if isinstance(name, str)}


def room(path) -> str:
    return path.relative_to(SOURCE).parts[0]


def test_a_public_name_is_defined_once():
    files = defaultdict(list)
    for path in OURS:
        for name in public_names(parsed(path)) - INTERFACES:
            files[name].append(shown(path))
    assert not {name: paths for name, paths in files.items() if len(paths) > 1}


@pytest.mark.parametrize("name", ROOMS)
def test_a_file_name_stands_once_in_a_room_and_names_say_what_a_thing_is(name):
    paths = [path for path in OURS if room(path) == name]
    files = [path.name for path in paths if path.name != "__init__.py"]
    assert len(files) == len(set(files))
    # What is in no text is in no name: few files are parsed.
    near = [path for path in paths if re.search("told|tell", path.read_text("utf-8"), re.I)]
    vague = {shown(path): sorted(filter(TOLD.search, identifiers(parsed(path)))) for path in near}
    assert not any(vague.values()), f"name the thing: a log-probability, a state: {vague}"


def test_vague_and_public_names_are_found():
    for name in ("told", "tell", "_tell", "log_probs_told", "Tells"):
        assert any(map(TOLD.search, identifiers(ast.parse(f"def f(x):\n    return x.{name}"))))
    tree = ast.parse("from x import f\nclass G: ...\ndef h(): ...\ndef _i(): ...")
    assert public_names(tree) == {"G", "h"}
