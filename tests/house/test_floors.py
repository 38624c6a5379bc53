"""Imports go down only."""

import ast

import pytest

from house.sources import FILES, PACKAGES, module_name, parsed

# Folders and files directly in exfam/, from the ground up. A file imports from floors below and
# from its own folder; rooms of one floor, the slices among them, do not import each other.
BUILDING = (
    {"checks", "lazy"},
    {"files"},
    {"dates", "folders", "layers", "literals"},
    {"columns"},
    {"families", "geometry", "groups", "kernels"},
    {"embeddings", "encodings"},
    {"attention", "experts", "scores"},
    {"catalog", "conditionals"},
    {"likelihoods", "reading", "simulators"},
    {"spark", "training"},
    {"estimator"},
    {"positions", "vectors"},
    {"efa", "fields", "language", "tables", "words"},
    {"plots"},
    {"report"},
    {"explorer"},
    {"cli"},
    {"__main__"},
)
FLOORS = {room: floor for floor, rooms in enumerate(BUILDING) for room in rooms}
SOURCE = PACKAGES[0]
OURS = [path for path in FILES if path.is_relative_to(SOURCE)]


def imported_modules(tree: ast.Module, package: str) -> list[tuple[int, str]]:
    """Line and full name of every exfam module that is imported, inside functions too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, f"{alias.name}.") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            head = ".".join([*base, node.module or ""]).strip(".") if node.level else node.module
            found += [(node.lineno, f"{head}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in {"import_module", "__import__"}:
                found.append((node.lineno, str(node.args[0].value)))
    return [(line, name) for line, name in found if name.split(".")[0].startswith("exfam")]


def upward(tree: ast.Module, module: str, package: str) -> list[str]:
    """What is wrong with the imports of one module, in words."""
    room = module.split(".")[1]
    wrong = []
    for line, name in imported_modules(tree, package):
        if name.split(".")[0] != "exfam":
            wrong.append(f"{module}:{line} imports {name}: the library does not know its studies")
            continue
        target = name.split(".")[1]
        if name == "exfam.__version__":
            continue
        if target not in FLOORS:  # `from exfam import X`: the public face is above everything
            wrong.append(f"{module}:{line} imports {name}: import from the module it lives in")
        elif target != room and FLOORS[target] >= FLOORS[room]:
            wrong.append(f"{module}:{line} imports {name}, which is not on a floor below")
    return wrong


def wrong_imports(path) -> list[str]:
    module = module_name(path)
    if module == "exfam":
        early = imported_modules(parsed(path), "exfam")
        return [f"exfam/__init__.py loads lazily, got {name} in line {n}" for n, name in early]
    room = module.split(".")[1]
    if room not in FLOORS:
        return [f"name the floor of src/exfam/{room} in {__file__}"]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return upward(parsed(path), module, package)


def test_imports_go_down_only():
    wrong = [line for path in OURS for line in wrong_imports(path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("statement", "is_upward"),
    [
        ("from exfam.report.page import write_page", True),
        ("def late():\n    import exfam.fields.efa", True),
        ("from ..fields import draws", True),
        ("import importlib\nimportlib.import_module('exfam.cli')", True),
        ("from exfam.tables.data import cells", True),
        ("from exfam import EFA", True),
        ("from exfam_studies.common.rows import Row", True),
        ("from .explain import explain", False),
        ("from exfam.efa.networks.context import Head", False),
        ("from ..groups import Groups", False),
    ],
)
def test_an_upward_import_is_found_and_a_downward_one_allowed(statement, is_upward):
    assert bool(upward(ast.parse(statement), "exfam.efa.efa", "exfam.efa")) == is_upward
