"""The parameters of estimators as options, read off their declarations' source.

Nothing heavy is imported: `exfam fit --help` answers without torch. A declaration is one line of a
class body, `dim: int = parameter(Whole(), "length of a vector", default=200)`; what a class
inherits is read off the classes that it derives from.
"""

import ast
import functools
import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exfam.checks import check_choice
from exfam.cli.kinds import (
    Kind,
    anything,
    by_column,
    column,
    columns,
    flag,
    number,
    number_list,
    optional,
    or_auto,
    text,
    text_by_column,
    whole,
)
from exfam.cli.options import Option
from exfam.estimator.base import section_rank
from exfam.estimator.registry import REGISTRY, Entry

# What `--model` of `exfam fit` may say, and that of `exfam fit words`.
MODELS = {
    entry.command: entry for entry in REGISTRY.values() if entry.command and entry.reads != "text"
}
WORD_MODELS = {
    entry.command: entry for entry in REGISTRY.values() if entry.command and entry.reads == "text"
}
_ALL = MODELS | WORD_MODELS

# A rule -> what an option's word becomes, and what stands for the word in help.
_RULES: dict[str, tuple[Kind, str]] = {
    "ANY_NUMBER": (whole, "N"),
    "ByColumn": (by_column, ""),
    "Choice": (text, "WORD"),
    "ColumnName": (column, "COLUMN"),
    "ColumnNames": (columns, "COLUMN"),
    "Families": (anything, "FAMILY"),
    "Flag": (flag, "BOOL"),
    "Fraction": (number, "X"),
    "Number": (number, "X"),
    "Numbers": (number_list, "NUMBER"),
    "Positive": (number, "X"),
    "SEED": (whole, "N"),
    "Share": (number, "X"),
    "Text": (text, "WORD"),
    "TextByColumn": (text_by_column, "FORMAT"),
    "Whole": (whole, "N"),
}
# What is read and the parameter -> its help, where words are written otherwise than in Python.
_HELP = {
    ("groups", "family"): "a family's name, with its arguments in parentheses, or a family for "
    'each value column: poisson, "ordinal(n=5, start=1)", "{stars: ordinal(5), price: gamma}"'
}
# What a help says after the line of a declaration.
_EXAMPLES = {
    "kinds": ': "{accidents: count, condition: [poor, fair, good]}"',
    "families": ': "{km: gamma}"',
}
_SOURCE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Declaration:
    """A parameter as it is declared: its annotation, default and rule as they are written."""

    name: str
    annotation: str
    default: Any
    rule: ast.expr | None
    help: str | None
    section: str | None

    def over(self, inherited: "Declaration | None") -> "Declaration":
        """What is given here, the rest as inherited."""
        if inherited is None:
            return self
        kept: dict[str, Any] = {
            name: getattr(self, name) or getattr(inherited, name)
            for name in ("rule", "help", "section")
        }
        return replace(self, **kept)


def estimator_options(model: str) -> list[Option]:
    """An option for every parameter of an estimator.

    >>> next(option.default for option in estimator_options("efa") if option.name == "n_heads")
    2
    """
    reads = _ALL[model].reads
    return [_option(parameter, reads=reads) for parameter in parameters_of(model)]


def build_estimator(model: str, chosen: Any) -> Any:
    """The estimator with the parameters that were chosen.

    Raises ExfamError for a family that there is not.
    """
    parameters: dict[str, Any] = {}
    for declaration, option in zip(parameters_of(model), estimator_options(model), strict=True):
        value = getattr(chosen, option.name)
        if value is None and option.default is None:
            continue
        parameters[option.name] = _value(declaration, value)
    return getattr(importlib.import_module(_ALL[model].module), _ALL[model].name)(**parameters)


def _value(declaration: Declaration, given: Any) -> Any:
    """A parameter's value; families are made of words."""
    rule = "" if declaration.rule is None else ast.unparse(declaration.rule)
    if "Families()" in rule:
        from exfam.cli.families import family_from_words

        # Words of the rule itself, such as "auto", are no families.
        return given if repr(given) in rule else family_from_words(given)
    if given and "ByColumn('a family')" in rule:
        from exfam.cli.families import families_from_words

        return families_from_words(given)
    return given


def parameters_of(model: str) -> list[Declaration]:
    """The parameters of an estimator, by section.

    Raises ExfamError for an unknown model.

    >>> [parameter.name for parameter in parameters_of("efa")][:3]
    ['group', 'order', 'item']
    """
    check_choice("--model", model, _ALL)
    entry: Entry = _ALL[model]
    found = _declarations(entry.module, entry.name)
    complete = [replace(each, section=each.section or "Model") for each in found.values()]
    return sorted(complete, key=lambda declaration: section_rank(declaration.section))


@functools.cache
def _parsed(module: str) -> ast.Module:
    path = _SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _declarations(module: str, name: str) -> dict[str, Declaration]:
    """Those of a class and of the classes of ours that it derives from, most general first."""
    tree = _parsed(module)
    node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    found: dict[str, Declaration] = {}
    for base in reversed(node.bases):
        home = _home(tree, module, ast.unparse(base))
        if home is not None:
            for key, declaration in _declarations(home, ast.unparse(base)).items():
                found[key] = declaration.over(found.get(key))
    for key, declaration in _own(node).items():
        found[key] = declaration.over(found.get(key))
    return found


def _home(tree: ast.Module, module: str, name: str) -> str | None:
    """The module of ours in which a class is defined that `tree` derives from."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("exfam.")
            and any(alias.name == name for alias in node.names)
        ):
            return node.module
    return None


def _own(node: ast.ClassDef) -> dict[str, Declaration]:
    sections = [word.value for word in node.keywords if word.arg == "section"]
    section = ast.literal_eval(sections[0]) if sections else None
    return {
        line.target.id: _declaration(line.target.id, line, section)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(line.value, ast.Call)
        and ast.unparse(line.value.func) == "parameter"
    }


def _declaration(name: str, line: ast.AnnAssign, section: str | None) -> Declaration:
    call = line.value
    assert isinstance(call, ast.Call)
    given = dict(zip(("rule", "text"), call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg}
    return Declaration(
        name,
        ast.unparse(line.annotation),
        ast.literal_eval(given["default"]),
        given.get("rule"),
        ast.literal_eval(given["text"]) if "text" in given else None,
        section,
    )


def _option(parameter: Declaration, *, reads: str) -> Option:
    kind, metavar = _kind(parameter.rule)
    if kind is text and parameter.annotation.endswith("| None"):
        kind = optional(text)
    default = None if parameter.default == () else parameter.default
    help = _HELP.get((reads, parameter.name), parameter.help or "")
    return Option(
        parameter.name,
        kind,
        f"{help}{_EXAMPLES.get(parameter.name, '')} (default {parameter.default!r})",
        default=default,
        metavar=metavar or parameter.name.upper(),
        many=kind in (columns, number_list),
        section=(parameter.section or "").partition(" ")[0],
    )


def _kind(rule: ast.expr | None) -> tuple[Kind, str]:
    """What an option's word becomes by the rule as it is written."""
    if isinstance(rule, ast.Name):
        return _RULES[rule.id]
    assert isinstance(rule, ast.Call) and isinstance(rule.func, ast.Name)
    name, arguments = rule.func.id, rule.args
    if name == "OrNone":
        kind, metavar = _kind(arguments[0])
        takes_null = kind in (column, columns, by_column, text_by_column)
        return (kind if takes_null else optional(kind)), metavar
    if name == "OrWord":
        kind, metavar = _kind(arguments[1])
        is_auto = ast.literal_eval(arguments[0]) == "auto" and kind is not anything
        return (or_auto(kind) if is_auto else kind), metavar
    return _RULES[name]
