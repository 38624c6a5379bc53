"""All kinds of data: every module of this folder has its own as `KIND`."""

import importlib
import pkgutil

from benchmarks.arena.kind import Kind


def all_kinds() -> dict[str, Kind]:
    """The kinds by name."""
    modules = [
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
    ]
    return {module.KIND.name: module.KIND for module in modules}
