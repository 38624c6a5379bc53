"""The source files of exfam, of its studies and of their tests, for the tests that read them."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src" / "exfam", ROOT / "studies" / "src" / "exfam_studies")
NAMES = tuple(package.name for package in PACKAGES)
FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@functools.lru_cache(maxsize=1)  # all trees would fill the memory
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements right below a node, whose expressions are not looked at."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    (package,) = (package for package in PACKAGES if path.is_relative_to(package))
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def dotted(node: ast.AST) -> str:
    """`np.random.seed` for the expression that reads so, "" for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""
