"""What checks shapes and types of exfam while its tests run.

Functions are decorated as their modules are imported. jaxtyping's own import hook does the same
at twice the price: it checks arguments and what is returned with a function each, and binds the
arguments of every call, also where no shape is given.
"""

import ast
import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped

_typed = beartype(conf=BeartypeConf(violation_type=TypeCheckError))
_state = {"on": True}


def checked(function):
    """The function, its arguments and what it returns checked; a size has one value in a call."""
    hints = function.__annotations__
    # Types named in quotes are the class at hand, or imported for readers of types alone.
    function.__annotations__ = {k: hint for k, hint in hints.items() if not isinstance(hint, str)}
    typed = _typed(function)
    function.__annotations__ = hints
    if not any(map(_has_shape, hints.values())):
        return typed

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not _state["on"]:
            return function(*args, **kwargs)
        with jaxtyped("context"):
            return typed(*args, **kwargs)

    return call


def checked_class(cls: type) -> type:
    """The class, its fields checked as it is made where it is a dataclass."""
    if is_dataclass(cls) and "__init__" in vars(cls):
        cls.__init__ = checked(cls.__init__)
    return cls


@contextmanager
def unchecked() -> Iterator[None]:
    """As outside of tests: shapes are not checked before the code's own checks."""
    _state["on"] = False
    try:
        yield
    finally:
        _state["on"] = True


def _has_shape(hint: Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(hint))


def decorate(tree: ast.Module, path: Path) -> None:
    """Decorate all functions and classes of a module but those marked `no_type_check`."""
    for node in _typed_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            # The last decorator comes first: others may hide the annotations.
            node.decorator_list.append(_decorator("checked", node))
        else:
            node.decorator_list.insert(0, _decorator("checked_class", node))


def _typed_nodes(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.iter_child_nodes(tree):
        is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if is_named and any("no_type_check" in ast.unparse(d) for d in node.decorator_list):
            continue
        yield from _typed_nodes(node)
        if is_named:
            yield node


def _decorator(name: str, node: ast.stmt) -> ast.expr:
    code = f"__import__({__name__!r}, fromlist=['_']).{name}"
    decorator = ast.parse(code, mode="eval").body
    for part in ast.walk(decorator):
        ast.copy_location(part, node)
    return decorator
