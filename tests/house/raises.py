"""Raise statements of exfam that no test of a run reached.

Each is preceded by a mark when its module is imported: a run at full speed shows which were
reached, where tracing every line of every function would double its time.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from house.sources import FILES, blocks, shown

REACHED: set[str] = set()


def raises(node: ast.AST) -> Iterator[ast.Raise]:
    """All raise statements, as they follow in the file."""
    for block in blocks(node):
        for statement in block:
            if isinstance(statement, ast.Raise):
                yield statement
            yield from raises(statement)


def places(path: Path, tree: ast.Module) -> list[str]:
    return [f"{shown(path)}:{node.lineno}" for node in raises(tree)]


def mark(tree: ast.AST, path: Path) -> None:
    """Put a mark before each raise statement, in the same line."""
    for block in blocks(tree):
        for statement in block:
            mark(statement, path)
        block[:] = [new for statement in block for new in _marked(statement, path)]


def _marked(statement: ast.stmt, path: Path) -> list[ast.stmt]:
    if not isinstance(statement, ast.Raise):
        return [statement]
    line = f"{shown(path)}:{statement.lineno}"
    code = f"__import__({__name__!r}, fromlist=['_']).REACHED.add({line!r})"
    noted = ast.Expr(ast.parse(code, mode="eval").body)
    for part in ast.walk(noted):
        ast.copy_location(part, statement)
    return [noted, statement]


@functools.cache
def all_places() -> tuple[str, ...]:
    return tuple(line for path in FILES for line in places(path, ast.parse(path.read_bytes())))


def unreached(reached: Iterable[str]) -> list[str]:
    reached = set(reached)
    return [line for line in all_places() if line not in reached]
