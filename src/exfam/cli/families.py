"""Families as the command line and YAML write them."""

import ast
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from exfam.checks import ExfamError
from exfam.families import FAMILIES, Family, PerItem

__all__ = ["family_from_words"]

_CALL = re.compile(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_EXAMPLE = 'Write it as poisson, "ordinal(n=5, start=1)" or {name: ordinal, n: 5, start: 1}.'


def family_from_words(given: Any) -> Any:
    """What an estimator takes as `family`: a name, a family, or a dict of such by value column.

    Raises ExfamError for an unknown family, and for arguments that it does not take.

    >>> family_from_words("ordinal(n=5, start=1)")
    Ordinal(n=5, start=1)
    >>> family_from_words({"stars": "poisson", "price": {"name": "gaussian", "scale": 2.0}})
    {'stars': Poisson(shift=0, link='log'), 'price': Gaussian(scale=2.0)}
    """
    if isinstance(given, Mapping) and given.get("name") not in FAMILIES:
        return {str(name): _family(each) for name, each in given.items()}
    return _family(given)


def _family(given: Any) -> Family:
    if isinstance(given, Mapping):
        if given.get("name") == PerItem.name:
            return _per_item(given)
        options = {key: value for key, value in given.items() if key != "name"}
        return _build(given.get("name"), [], options, given)
    found = _CALL.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise _error(given, f"got {given!r}. {_EXAMPLE}")
    places, options = _arguments(found[2] or "", given)
    return _build(found[1], places, options, given)


def _arguments(text: str, given: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments written as in Python: literals only."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if isinstance(call.func, ast.Name) and not any(word.arg is None for word in call.keywords):
            places = [ast.literal_eval(each) for each in call.args]
            return places, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, TypeError, AssertionError, MemoryError, RecursionError):
        pass
    raise _error(given, f"got {given!r}. {_EXAMPLE}")


def _build(name: Any, places: list[Any], options: dict[str, Any], given: Any) -> Family:
    known = {word.lower().replace("_", "-"): word for word in FAMILIES}
    found = known.get(name.lower().replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise _error(given, f"got {name!r}. Choose one of {', '.join(FAMILIES)}.")
    kind = FAMILIES[found]
    if kind is PerItem:
        raise _error(
            given,
            f"got {given!r}. Write {{name: per-item, families: {{ITEM: FAMILY, …}}, "
            "default: FAMILY}.",
        )
    allowed = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    options = dict(zip(allowed, places, strict=False)) | options
    wrong = [repr(key) for key in options if key not in allowed] + [
        repr(place) for place in places[len(allowed) :]
    ]
    if wrong:
        takes = ", ".join(allowed) or "none"
        raise _error(given, f"got {wrong[0]}, no argument of {found} (it takes {takes}).")
    try:
        return kind(**options)
    except TypeError as error:
        takes = ", ".join(allowed)
        raise _error(given, f"got {given!r}. {found} takes {takes}.") from error


def _per_item(given: Mapping[str, Any]) -> PerItem:
    families = given.get("families")
    pairs = list(families.items()) if isinstance(families, Mapping) else families
    is_pairs = isinstance(pairs, list) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    )
    if not is_pairs or not pairs or set(given) - {"name", "families", "default"}:
        raise _error(
            given,
            f"got {dict(given)!r}. Write {{name: per-item, families: {{ITEM: FAMILY, …}}, "
            "default: FAMILY}.",
        )
    default = given.get("default")
    return PerItem(
        {item: _family(one) for item, one in pairs}, None if default is None else _family(default)
    )


def _error(given: Any, got: str) -> ExfamError:
    return ExfamError(f"`--family` must be a family with arguments it takes, {got}")
