"""What an option may hold: each kind turns a word of the command line, or YAML, into its value.

A kind gives back what it gave: its own value is accepted unchanged. It raises ValueError with the
rule that was broken, "must be a number", and leaves the rest of the sentence to the caller.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from exfam.literals import Kind, flag, is_nothing, number, optional, or_auto, text, whole

__all__ = [
    "Kind",
    "anything",
    "by_column",
    "column",
    "columns",
    "flag",
    "labels",
    "mark",
    "marks",
    "number",
    "number_list",
    "one_of",
    "optional",
    "or_auto",
    "text",
    "text_by_column",
    "whole",
    "words",
]

_BOOLEAN = "tag:yaml.org,2002:bool"


class _Labels(yaml.SafeLoader):
    """YAML in which yes, no, on and off are words: labels are often called so."""


_Labels.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] != _BOOLEAN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Labels.add_implicit_resolver(
    _BOOLEAN, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def mark(value: Any) -> str | None:
    """A mark in numbers, which may be empty; null is none."""
    if is_nothing(value):
        return None
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("must be a mark, such as a comma")
    return value


def marks(value: Any) -> list[float | str] | None:
    """Numbers and texts that stand for missing; [] is none of them, null not to say."""
    if value is None:
        return None
    rule = "must be a number, a text, or a list of such"
    found: list[float | str] = []
    for part in _listed(value):
        if isinstance(part, str):
            with contextlib.suppress(ValueError):
                part = number(part)
        if isinstance(part, bool) or not isinstance(part, str | int | float):
            raise ValueError(rule)
        found.append(part)
    return found


def column(value: Any) -> str | None:
    """The name of a column; a number is one too, and null none."""
    return None if is_nothing(value) else _name(value, "must be the name of a column")


def columns(value: Any) -> str | list[str] | None:
    """One column or several: a name, a list of names, or YAML of a list."""
    if is_nothing(value):
        return None
    rule = "must be the name of a column, or a list of names"
    names = [_name(name, rule) for name in _listed(value)]
    return names[0] if len(names) == 1 else names


def labels(value: Any) -> list[str]:
    """One label or several."""
    return [_name(label, "must be a label, or a list of labels") for label in _listed(value)]


def words(value: Any) -> list[str]:
    """One word or several, as they are written; a list of texts in JSON is several."""
    if isinstance(value, str) and value.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    listed = [str(value)] if not isinstance(value, list) else value
    if not listed or not all(isinstance(word, str) and word for word in listed):
        raise ValueError("must be words")
    return listed


def number_list(value: Any) -> list[float]:
    """One number or several."""
    return [number(part) for part in _listed(value)]


def one_of(choices: Sequence[str]) -> Kind:
    """The kind that takes one of some words."""

    def choice(value: Any) -> str:
        if value not in choices:
            raise ValueError("must be one of " + ", ".join(choices))
        return str(value)

    return choice


def anything(value: Any) -> Any:
    """Whatever the word is as YAML."""
    if not isinstance(value, str):
        return value
    return _from_yaml(value, "must be a word or YAML")


def by_column(value: Any) -> dict[str, Any] | None:
    """Something for each of some columns, as YAML; yes and no are words in it. Null is none."""
    rule = "must be written as {COLUMN: …}"
    given = _from_yaml(value, rule, loader=_Labels) if isinstance(value, str) else value
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ValueError(rule)
    return {str(name): part for name, part in given.items()}


def text_by_column(value: Any) -> str | dict[str, Any] | None:
    """A text as it is written, or a text for each of some columns, as YAML. Null is none."""
    if isinstance(value, str) and not value.startswith("{"):
        return optional(text)(value)
    try:
        return by_column(value)
    except ValueError:
        raise ValueError('must be a text, or written as {COLUMN: "TEXT"}') from None


def _name(value: Any, rule: str) -> str:
    is_name = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not is_name or value == "":
        raise ValueError(rule)
    return str(value)


def _listed(value: Any) -> list[Any]:
    """One value or several, which a word has in brackets."""
    if isinstance(value, str) and value.startswith("["):
        given = _from_yaml(value, "must be a name or a list in brackets")
        value = given if isinstance(given, list) else value
    return list(value) if isinstance(value, list | tuple) else [value]


def _from_yaml(value: str, rule: str, *, loader: Any = yaml.SafeLoader) -> Any:
    try:
        return yaml.load(value, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ValueError(rule) from None
