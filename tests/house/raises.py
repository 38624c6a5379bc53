"""Raise statements of exfam that no test of a run reached.

Each is preceded by a mark when its module is imported: a run at full speed tells which were
reached, where tracing every line of every function would double its time.
"""

import ast
import importlib
import sys
from collections.abc import Iterable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path

from house.sources import FILES, parsed, shown

REACHED: set[str] = set()


def raises(tree: ast.Module) -> list[ast.Raise]:
    """All raise statements, as they follow in the file."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def places(path: Path, tree: ast.Module) -> list[str]:
    return [f"{shown(path)}:{node.lineno}" for node in raises(tree)]


def marked(source: bytes, path: Path) -> bytes:
    """The source with a mark before each raise statement, in the same line."""
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for place, node in reversed(list(zip(places(path, tree), raises(tree), strict=True))):
        line, column = lines[node.lineno - 1], node.col_offset
        mark = f"__import__({__name__!r}, fromlist=['_']).REACHED.add({place!r}); ".encode()
        lines[node.lineno - 1] = line[:column] + mark + line[column:]
    return b"".join(lines)


class Marking(MetaPathFinder):
    """Finds modules of exfam as the other finders do, and marks their raise statements."""

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "exfam":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            _mark(spec.loader)
        return spec


def _mark(loader: SourceFileLoader) -> None:
    def code(fullname):
        # Always from the source: stored bytecode has no marks, and none with marks is stored.
        path = Path(loader.get_filename(fullname))
        return loader.source_to_code(marked(path.read_bytes(), path), str(path))

    loader.get_code = code


def watch() -> None:
    """From now on, note which raise statements are reached."""
    early = [name for name in sys.modules if name.partition(".")[0] == "exfam"]
    assert not early, f"imported before their raise statements could be marked: {early}"
    sys.meta_path.insert(0, Marking())
    # By collecting doctests the package itself would be imported past all finders.
    importlib.import_module("exfam")


def unreached(reached: Iterable[str]) -> list[str]:
    known = set(reached)
    every = (place for path in FILES for place in places(path, parsed(path)))
    return [place for place in every if place not in known]
