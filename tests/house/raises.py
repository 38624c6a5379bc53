"""Raise statements of exfam that no test of a run reached."""

import ast

import coverage

from house.sources import FILES, parsed, shown


def raises(tree: ast.Module) -> list[tuple[int, int]]:
    """First and last line of every raise statement."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return sorted((node.lineno, node.end_lineno or node.lineno) for node in found)


def unreached(tree: ast.Module, executed: set[int]) -> list[int]:
    return [first for first, last in raises(tree) if executed.isdisjoint(range(first, last + 1))]


def all_unreached(data: coverage.CoverageData) -> list[str]:
    return [
        f"{shown(path)}:{line}"
        for path in FILES
        for line in unreached(parsed(path), set(data.lines(str(path)) or ()))
    ]
