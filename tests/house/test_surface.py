"""What is public is what is said to be public."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import exfam
from house.sources import FILES, module_name, parsed

MODULES = [module_name(path) for path in FILES]
PUBLIC = [
    name
    for name in MODULES
    if name != "exfam" and not any(part.startswith("_") for part in name.split("."))
]


def defined_names(name: str) -> set[str]:
    """Public classes and functions that a module itself defines at its top."""
    body = parsed(FILES[MODULES.index(name)]).body
    named = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {each for each in named if not each.startswith("_")}


def test_the_public_names_are_sorted_and_importable():
    assert exfam.__all__ == sorted(set(exfam.__all__))
    assert dir(exfam) == exfam.__all__
    for name in exfam.__all__:
        assert getattr(exfam, name) is not None


def test_a_public_name_is_the_one_its_module_defines():
    for name in set(exfam.__all__) - {"__version__"}:
        value = getattr(exfam, name)
        assert getattr(value, "__name__", name) == name
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith("exfam.")


def test_a_name_that_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="module 'exfam' has no attribute 'Nothing'"):
        _ = exfam.Nothing


@pytest.mark.parametrize("name", PUBLIC)
def test_every_module_says_what_is_public(name):
    module = importlib.import_module(name)
    tree = parsed(FILES[MODULES.index(name)])
    if ast.get_docstring(tree) and len(tree.body) == 1:
        return  # a folder's docstring and nothing else
    assert hasattr(module, "__all__"), f"{name} has no __all__"
    assert len(module.__all__) == len(set(module.__all__)), "listed twice"
    missing = [each for each in module.__all__ if not hasattr(module, each)]
    assert not missing, "listed, not defined"
    hidden = defined_names(name) - set(module.__all__)
    assert not hidden, "neither listed in __all__ nor marked private by an underscore"


def test_importing_exfam_loads_nothing_heavy():
    code = (
        "import sys, exfam; dir(exfam); "
        "print(sorted({'torch', 'sklearn', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_changelog_knows_the_version():
    changelog = (FILES[0].parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {exfam.__version__}" in changelog
