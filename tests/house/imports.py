"""Modules of exfam and its studies, changed as they are imported; nothing is stored."""

import ast
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

from house.sources import NAMES

# Given the parsed file and its path, it changes the first in place.
Change = Callable[[ast.Module, Path], None]


def changed(source: bytes, path: Path, changes: Sequence[Change]) -> CodeType:
    """The source's code after all changes; lines keep their numbers."""
    tree = ast.parse(source)
    for change in changes:
        change(tree, path)
    return compile(tree, str(path), "exec", dont_inherit=True)


class Changing(MetaPathFinder):
    """Finds modules of exfam as the other finders do, and changes them."""

    def __init__(self, changes: Sequence[Change]):
        self.changes = changes

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in NAMES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            self._change(spec.loader)
        return spec

    def _change(self, loader: SourceFileLoader) -> None:
        def code(fullname):
            path = Path(loader.get_filename(fullname))
            return changed(path.read_bytes(), path, self.changes)

        loader.get_code = code


def change_imports(changes: Sequence[Change]) -> None:
    """From now on, modules of exfam are changed as they are imported."""
    early = [name for name in sys.modules if name.partition(".")[0] in NAMES]
    assert not early, f"imported before they could be changed: {early}"
    sys.meta_path.insert(0, Changing(changes))
    # By collecting doctests the packages themselves would be imported past all finders.
    for name in NAMES:
        importlib.import_module(name)
