"""Collecting tests at a price that all processes can pay: each of them collects all tests."""

import gc

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Doctests are looked for where there is one, and other modules are imported when used.

    But for packages: one that imports a module while pytest does would have it twice.
    """
    collectors = yield
    if file_path.suffix != ".py" or file_path.name == "__init__.py":
        return collectors
    if b">>> " in file_path.read_bytes():
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays: a third of the time would go to look for garbage among it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
