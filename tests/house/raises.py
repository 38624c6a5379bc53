"""Raise statements of exfam that no test of a run reached.

Each is preceded by a mark when its module is imported: a run at full speed shows which were
reached, where tracing every line of every function would double its time.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from house.sources import FILES, parsed, shown

REACHED: set[str] = set()


def raises(tree: ast.Module) -> list[ast.Raise]:
    """All raise statements, as they follow in the file."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def places(path: Path, tree: ast.Module) -> list[str]:
    return [f"{shown(path)}:{node.lineno}" for node in raises(tree)]


def mark(tree: ast.Module, path: Path) -> None:
    """Put a mark before each raise statement, in the same line."""
    _Marks(path).visit(tree)


class _Marks(ast.NodeTransformer):
    def __init__(self, path: Path):
        self.path = path

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        line = f"{shown(self.path)}:{node.lineno}"
        code = f"__import__({__name__!r}, fromlist=['_']).REACHED.add({line!r})"
        noted = ast.Expr(ast.parse(code, mode="eval").body)
        for part in ast.walk(noted):
            ast.copy_location(part, node)
        return [noted, node]


def unreached(reached: Iterable[str]) -> list[str]:
    reached = set(reached)
    every = (line for path in FILES for line in places(path, parsed(path)))
    return [line for line in every if line not in reached]
