"""Families as they are written in words: "ordinal(n=5, start=1)", or as mappings of YAML."""

import ast
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import formatannotation
from typing import Any

from exfam.checks import ExfamError, check_choice
from exfam.families.base import FAMILIES, Family
from exfam.families.joint import JOINT_FAMILIES, JointFamily
from exfam.families.per_item import PerItem
from exfam.literals import (
    Kind,
    flag,
    number,
    optional,
    or_auto,
    row_of_numbers,
    row_of_whole_numbers,
    text,
    whole,
)

# The first type that a family's argument is annotated with -> its kind.
_KINDS: dict[str, Kind] = {
    "str": text,
    "bool": flag,
    "int": whole,
    "float": number,
    "tuple[float, ...]": row_of_numbers,
    "tuple[int, ...]": row_of_whole_numbers,
}
_BESIDES = {"None": optional, "str": or_auto, "float": lambda _: number}
# A hyphen within a name, outside of what is quoted.
_HYPHEN = re.compile(r""""[^"]*"|'[^']*'|(?<=[A-Za-z])-(?=[A-Za-z])""")
_CALL = re.compile(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_EXAMPLE = 'Write it as poisson, "ordinal(n=5, start=1)" or {name: ordinal, n: 5, start: 1}.'
_PER_ITEM = "Write it as {name: per-item, families: {ITEM: FAMILY, …}, default: FAMILY}."


def choose_family(given: Any) -> Family:
    """A family from an instance, a name, or a name with arguments: "ordinal(n=5, start=1)".

    Raises ExfamError for a class, an unknown name, or one that needs arguments.
    """
    if isinstance(given, Family):
        return given
    if isinstance(given, type) and issubclass(given, Family):
        raise ExfamError(
            f"`family` must be an instance or a name, got the class {given.__name__}. "
            f"Pass an instance, {given.__name__}()."
        )
    word = given.partition("(")[0].strip() if isinstance(given, str) else given
    if isinstance(word, JointFamily) or (isinstance(word, str) and word in JOINT_FAMILIES):
        raise ExfamError(
            f"`family` must be of one value, got {given}, of several together. Name a family for "
            "each value column: EFA predicts each given those before it of its element."
        )
    if isinstance(given, str) and "(" in given:
        return family_of_words(given)
    check_choice("family", given, FAMILIES)
    try:
        return FAMILIES[given]()
    except TypeError as error:
        name = FAMILIES[given].__name__
        raise ExfamError(
            f"`family` must be an instance where it has arguments of its own, got {given!r}. "
            f"Pass {given + '(…)'!r} or exfam.families.{name}(…)."
        ) from error


def family_of_words(given: Any) -> Family:
    """The family that a text or a mapping with its name writes.

    Raises ExfamError for a name that there is not, and for arguments that the family does not take.

    >>> family_of_words("ordinal(n=5, start=1)")
    Ordinal(n=5, start=1)
    """
    if isinstance(given, Mapping):
        if given.get("name") == PerItem.name:
            return _per_item(given)
        options = {key: value for key, value in given.items() if key != "name"}
        return _build(given.get("name"), [], options)
    call = _CALL.fullmatch(given) if isinstance(given, str) else None
    if call is None:
        raise _error(f"got {given!r}. {_EXAMPLE}")
    positional, options = _arguments(call[2] or "", given)
    return _build(call[1], positional, options)


def _arguments(text: str, given: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments written as in Python: literals, and families that another is made of."""
    text = _HYPHEN.sub(lambda match: "_" if match[0] == "-" else match[0], text)
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        words = {str(word.arg): _argument(word.value) for word in call.keywords}
        assert all(word.arg for word in call.keywords) and len(words) == len(call.keywords)
        return [_argument(value) for value in call.args], words
    except (SyntaxError, ValueError, TypeError, AssertionError, MemoryError, RecursionError):
        raise _error(f"got {given!r}. {_EXAMPLE}") from None


def _argument(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and _names().get(node.id):
        return node.id
    return ast.unparse(node) if isinstance(node, ast.Call) else ast.literal_eval(node)


def _names() -> dict[str, str]:
    """Names of families as they may be written in Python."""
    return {word.lower().replace("-", "_"): word for word in FAMILIES}


def _build(name: Any, positional: list[Any], options: dict[str, Any]) -> Family:
    family = _names().get(name.lower().replace("-", "_")) if isinstance(name, str) else None
    if family is None:
        raise _error(f"got {name!r}. Choose one of {', '.join(FAMILIES)}.")
    kind = FAMILIES[family]
    if kind is PerItem:
        raise _error(f"got {family!r}. {_PER_ITEM}")
    return _sound(kind, _checked(kind, positional, options))


def _sound(kind: type[Family], arguments: dict[str, Any]) -> Family:
    try:
        return kind(**arguments)
    except ExfamError as error:
        raise _error(f"got {kind.name} with others: {error}") from error


def _checked(kind: type[Family], positional: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a family by name, each of its type."""
    arguments = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    takes = f"{kind.name} takes {', '.join(arguments) or 'none'}."
    named = dict(zip(arguments, positional, strict=False)) | options
    for unknown in [key for key in named if key not in arguments] + positional[len(arguments) :]:
        raise _error(f"got {unknown!r} as an argument. {takes}")
    for name, field in arguments.items():
        if name not in named and field.default is MISSING:
            raise _error(f"got none for {name!r}. {takes}")
    checked = {}
    for name, value in named.items():
        if _is_family(arguments[name].type):
            checked[name] = value if isinstance(value, Family) else family_of_words(value)
            continue
        first, _, besides = formatannotation(arguments[name].type).partition(" | ")
        kind_of_value = _BESIDES[besides](_KINDS[first]) if besides else _KINDS[first]
        try:
            checked[name] = kind_of_value(value)
        except ValueError as error:
            raise _error(
                f"got {kind.name} with others: `{name}` {error}, got {value!r}."
            ) from error
    return checked


def _is_family(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Family)


def _per_item(given: Mapping[str, Any]) -> Family:
    families = given.get("families")
    pairs = list(families.items()) if isinstance(families, Mapping) else families
    is_pairs = isinstance(pairs, list) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    )
    if not is_pairs or not pairs or set(given) - {"name", "families", "default"}:
        raise _error(f"got {dict(given)!r}. {_PER_ITEM}")
    default = None if given.get("default") is None else family_of_words(given["default"])
    families = {item: family_of_words(family) for item, family in pairs}
    return _sound(PerItem, {"families": families, "default": default})


def _error(got: str) -> ExfamError:
    return ExfamError(f"`family` must be a family with arguments it takes, {got}")
