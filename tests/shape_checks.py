"""What checks shapes and types of exfam while its tests run.

Functions are decorated as their modules are imported; what checks one is written when it is first
called, since most processes call few of all. jaxtyping's own import hook does the same at twice the
price: it checks arguments and what is returned with a function each, and binds the arguments of
every call, also where no shape is given. Arguments and a result of types, shapes and numbers' types
that have passed together are not looked at again, which takes a third off the time of the tests.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor

from house.sources import blocks

_typed = beartype(conf=BeartypeConf(violation_type=TypeCheckError))
_state = {"on": True}


def checked(function):
    """The function, its arguments and what it returns checked; a size has one value in a call."""
    if any(map(_has_shape, function.__annotations__.values())):
        return _checked_with_shapes(function)
    typed = None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal typed
        if typed is None:
            typed = _checker(function, function)
        return typed(*args, **kwargs)

    return call


def _checked_with_shapes(function):
    results: list = []
    passed: dict[Hashable, set[Hashable]] = {}  # outlines of results by those of arguments
    typed = None

    @functools.wraps(function)
    def result_of(*args, **kwargs):
        return results.pop() if results else function(*args, **kwargs)

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal typed
        if not _state["on"]:
            return function(*args, **kwargs)
        given: Hashable = _outlines(args)
        if kwargs:
            given = (given, *kwargs, *_outlines(kwargs.values()))
        known = passed.get(given)
        if known is not None:
            result = function(*args, **kwargs)
            if _outline(result) in known:
                return result
            results.append(result)
        if typed is None:
            typed = _checker(function, result_of)
        with jaxtyped("context"):
            result = typed(*args, **kwargs)
        passed.setdefault(given, set()).add(_outline(result))
        return result

    return call


def _checker(function, stand_in):
    """What checks the types of a function's arguments and result, and calls its stand-in."""
    hints = function.__annotations__
    # Types named in quotes are the class at hand, or imported for readers of types alone.
    left_out = {k for k, hint in hints.items() if isinstance(hint, str)}
    if inspect.isgeneratorfunction(function):  # else it would be checked when it starts
        left_out.add("return")
    stand_in.__annotations__ = {k: hint for k, hint in hints.items() if k not in left_out}
    try:
        return _typed(stand_in)
    finally:
        stand_in.__annotations__ = hints


def _outline(value: Any) -> Hashable:
    """All of a value that a check depends on, equal for values that pass the same checks."""
    return _OUTLINES[type(value)](value)


def _outlines(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Of all of them, in as few calls as can be: every call of every function takes this."""
    return tuple([_OUTLINES[type(value)](value) for value in values])


def _outline_of(kind: type) -> Callable[[Any], Hashable]:
    if issubclass(kind, Tensor):
        return lambda value: (kind, value.dtype, value.shape)
    if issubclass(kind, np.ndarray):  # of which types are slow to compare
        return lambda value: (kind, value.dtype.num, value.shape)
    if issubclass(kind, tuple | list):
        return lambda value: (kind, _outlines(value))
    if issubclass(kind, dict):
        return lambda value: (kind, *value, *_outlines(value.values()))
    if issubclass(kind, str | bool):
        return lambda value: (kind, value)
    if issubclass(kind, Mapping | Set):
        return lambda _: object()  # equal to no other
    return lambda _: kind


class _Outlines(dict):
    """By type, what outlines a value of it."""

    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        self[kind] = outline = _outline_of(kind)
        return outline


_OUTLINES = _Outlines()


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
    for node in (statement for block in blocks(tree) for statement in block):
        is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if is_named and any("no_type_check" in ast.unparse(d) for d in node.decorator_list):
            continue
        yield from _typed_nodes(node)
        if is_named:
            yield node


def _decorator(name: str, node: ast.stmt) -> ast.expr:
    at = {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }
    load = ast.Load()
    any_name = ast.List([ast.Constant("_", **at)], load, **at)
    module = ast.Call(
        ast.Name("__import__", load, **at),
        [ast.Constant(__name__, **at)],
        [ast.keyword("fromlist", any_name, **at)],
        **at,
    )
    return ast.Attribute(module, name, load, **at)
