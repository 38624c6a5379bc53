"""Families as the command line and YAML write them."""

import ast
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import formatannotation
from typing import Any

from exfam.checks import ExfamError
from exfam.cli.kinds import Kind, flag, number, optional, or_auto, row_of_numbers, text, whole
from exfam.families import FAMILIES, Family, PerItem

# The annotation of a family's argument -> its kind.
_KINDS: dict[str, Kind] = {
    "str": text,
    "str | None": optional(text),
    "bool": flag,
    "bool | str": or_auto(flag),
    "int": whole,
    "int | None": optional(whole),
    "int | str": or_auto(whole),
    "float": number,
    "float | None": optional(number),
    "float | str": or_auto(number),
    "tuple[float, ...]": row_of_numbers,
    "tuple[float, ...] | None": optional(row_of_numbers),
}
_CALL = re.compile(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_EXAMPLE = 'Write it as poisson, "ordinal(n=5, start=1)" or {name: ordinal, n: 5, start: 1}.'
_PER_ITEM = "Write it as {name: per-item, families: {ITEM: FAMILY, …}, default: FAMILY}."


def family_from_words(given: Any) -> Any:
    """What an estimator takes as `family`: a name, a family, or a dict of such by value column.

    Raises ExfamError for an unknown family, and for arguments that it does not take.
    """
    if isinstance(given, Mapping) and given.get("name") not in FAMILIES:
        return {str(name): _family(family) for name, family in given.items()}
    return _family(given)


def families_from_words(given: Mapping[str, Any]) -> dict[str, Family]:
    """What an estimator of tables takes as `families`: a family for each of some columns.

    Raises ExfamError for an unknown family, and for arguments that it does not take.
    """
    try:
        return {name: _family(family) for name, family in given.items()}
    except ExfamError as error:
        raise ExfamError(str(error).replace("`--family`", "`--families`")) from error


def _family(given: Any) -> Family:
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
    """Arguments written as in Python: literals only."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        words = {word.arg: word.value for word in call.keywords}
        if (
            isinstance(call.func, ast.Name)
            and None not in words
            and len(words) == len(call.keywords)
        ):
            positional = [ast.literal_eval(value) for value in call.args]
            return positional, {str(n): ast.literal_eval(value) for n, value in words.items()}
    except (SyntaxError, ValueError, TypeError, AssertionError, MemoryError, RecursionError):
        pass
    raise _error(f"got {given!r}. {_EXAMPLE}")


def _build(name: Any, positional: list[Any], options: dict[str, Any]) -> Family:
    names = {word.lower().replace("_", "-"): word for word in FAMILIES}
    family = names.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
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
        try:
            checked[name] = _KINDS[formatannotation(arguments[name].type)](value)
        except ValueError as error:
            raise _error(
                f"got {kind.name} with others: `{name}` {error}, got {value!r}."
            ) from error
    return checked


def _per_item(given: Mapping[str, Any]) -> Family:
    families = given.get("families")
    pairs = list(families.items()) if isinstance(families, Mapping) else families
    is_pairs = isinstance(pairs, list) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    )
    if not is_pairs or not pairs or set(given) - {"name", "families", "default"}:
        raise _error(f"got {dict(given)!r}. {_PER_ITEM}")
    default = given.get("default")
    families = {item: _family(family) for item, family in pairs}
    return _sound(
        PerItem, {"families": families, "default": None if default is None else _family(default)}
    )


def _error(got: str) -> ExfamError:
    return ExfamError(f"`--family` must be a family with arguments it takes, {got}")
