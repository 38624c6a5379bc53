"""Collecting tests at a price that all processes can pay: each of them collects all tests."""

import gc
import importlib

import pytest
from _pytest.doctest import DoctestModule

from house.sources import ROOT


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Doctests are looked for where there is one, and other modules are imported when used."""
    collectors = yield
    if file_path.suffix != ".py":
        return collectors
    if b">>> " not in file_path.read_bytes():
        return [each for each in collectors if not isinstance(each, DoctestModule)]
    # Pytest would import a module again that its package has imported, and past all finders.
    for folder in ("src", "studies/src"):
        if file_path.is_relative_to(ROOT / folder):
            parts = file_path.relative_to(ROOT / folder).with_suffix("").parts
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    return collectors


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays: a third of the time would go to look for garbage among it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
