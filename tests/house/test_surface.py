"""What is public is what is said to be public."""

import importlib
import inspect
import subprocess
import sys

import pytest

import exfam
from house.sources import FILES, module_name

MODULES = [module_name(path) for path in FILES]
# Folders; in files, names without an underscore are those that other files may import.
PACKAGES = [
    name
    for name, path in zip(MODULES, FILES, strict=True)
    if path.name == "__init__.py" and name != "exfam"
]


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


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_has_the_names_that_it_lists(name):
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", [])
    assert len(listed) == len(set(listed)) and all(hasattr(module, each) for each in listed)


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
