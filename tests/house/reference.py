"""What the reference of the documentation shows: everything public, with its docstring."""

import importlib
import inspect
import re
from collections.abc import Iterator

import exfam
from house.sources import ROOT

PAGES = sorted(path for path in (ROOT / "docs" / "api").glob("*.rst") if path.stem != "index")
LISTED = re.compile(r"^   ~?([A-Za-z_][\w.]*)$", re.MULTILINE)
MODULE = re.compile(r"automodule:: (\S+)")


def documented() -> Iterator[tuple[str, str]]:
    """Name and docstring of each function, class and method of the reference and of `exfam`."""
    for name, thing in sorted(_listed().items()):
        yield name, inspect.getdoc(thing) or ""
        if inspect.isclass(thing):
            yield from ((f"{name}.{key}", text) for key, text in _methods(thing))


def _listed() -> dict[str, object]:
    names = [f"exfam.{name}" for name in exfam.__all__]
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        names += [f"exfam.{name}" for name in LISTED.findall(text)]
        for module in MODULE.findall(text):
            public = getattr(importlib.import_module(module), "__all__", ())
            names += [f"{module}.{name}" for name in public]
    things = {name: _found(name) for name in names}
    return {n: t for n, t in things.items() if inspect.isclass(t) or inspect.isroutine(t)}


def _found(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def _methods(owner: type) -> Iterator[tuple[str, str]]:
    """Those of its own, with what they say of themselves."""
    for key, value in vars(owner).items():
        bare = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not key.startswith("_") and inspect.isfunction(bare) and (text := inspect.getdoc(bare)):
            yield key, text
