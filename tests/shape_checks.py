"""What checks shapes and types of exfam while its tests run.

Functions are decorated as their modules are imported. jaxtyping's own import hook does the same
at twice the price: it checks arguments and what is returned with a function each, and binds the
arguments of every call, also where no shape is given. Arguments and a result of types, shapes and
numbers' types that have passed together are not looked at again, which takes a third off the time
of the tests.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor

_typed = beartype(conf=BeartypeConf(violation_type=TypeCheckError))
_state = {"on": True}


def checked(function):
    """The function, its arguments and what it returns checked; a size has one value in a call."""
    hints = function.__annotations__
    # Types named in quotes are the class at hand, or imported for readers of types alone.
    left_out = {k for k, hint in hints.items() if isinstance(hint, str)}
    if inspect.isgeneratorfunction(function):  # else it would be checked when it starts
        left_out.add("return")
    function.__annotations__ = {k: hint for k, hint in hints.items() if k not in left_out}
    has_shapes = any(map(_has_shape, function.__annotations__.values()))
    results: list = []

    @functools.wraps(function)
    def result_of(*args, **kwargs):
        return results.pop() if results else function(*args, **kwargs)

    typed = _typed(result_of if has_shapes else function)
    function.__annotations__ = hints
    if not has_shapes:
        return typed
    passed: set = set()

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not _state["on"]:
            return function(*args, **kwargs)
        given = (_outline(args), _outline(kwargs))
        if given in passed:
            result = function(*args, **kwargs)
            if (given, _outline(result)) in passed:
                return result
            results.append(result)
        with jaxtyped("context"):
            result = typed(*args, **kwargs)
        passed.update((given, (given, _outline(result))))
        return result

    return call


def _outline(value: Any) -> Hashable:
    """All of a value that a check depends on, equal for values that pass the same checks."""
    kind = type(value)
    outline = _OUTLINES.get(kind)
    if outline is None:
        outline = _OUTLINES[kind] = _outline_of(kind)
    return outline(value)


def _outline_of(kind: type) -> Callable[[Any], Hashable]:
    if issubclass(kind, Tensor | np.ndarray):
        return lambda value: (kind, value.dtype, value.shape)
    if issubclass(kind, tuple | list):
        return lambda value: (kind, *map(_outline, value))
    if issubclass(kind, dict):
        return lambda value: (kind, *value, *map(_outline, value.values()))
    if issubclass(kind, str | bool):
        return lambda value: (kind, value)
    if issubclass(kind, Mapping | Set):
        return lambda _: object()  # equal to no other
    return lambda _: kind


_OUTLINES: dict[type, Callable[[Any], Hashable]] = {}


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
