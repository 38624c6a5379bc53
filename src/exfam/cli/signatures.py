"""The parameters of estimators as options, read off their declarations' source.

Nothing heavy is imported: `exfam fit --help` answers without torch. A declaration is one line of a
class body, `dim: int = parameter(Whole(), "length of a vector", default=200)`; what a class
inherits is read off the classes that it derives from.
"""

import ast
import functools
import pkgutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exfam.checks import check_choice
from exfam.cli import kinds
from exfam.cli.kinds import Kind
from exfam.cli.options import Option
from exfam.estimator.base import section_rank
from exfam.estimator.registry import REGISTRY

# What `--model` of `exfam fit` may say, and that of `exfam fit words`.
_ALL = {entry.command: entry for entry in REGISTRY.values() if entry.command}
MODELS = {model: entry for model, entry in _ALL.items() if entry.reads != "text"}
WORD_MODELS = {model: entry for model, entry in _ALL.items() if entry.reads == "text"}

# A rule -> what an option's word becomes, and what stands for the word in help.
_RULES: dict[str, tuple[Kind, str]] = {
    "ANY_NUMBER": (kinds.whole, "N"),
    "ByColumn": (kinds.by_column, ""),
    "Choice": (kinds.text, "WORD"),
    "ColumnName": (kinds.column, "COLUMN"),
    "ColumnNames": (kinds.columns, "COLUMN"),
    "Families": (kinds.anything, "FAMILY"),
    "TextEncoding": (kinds.text, "NAME"),
    "Flag": (kinds.flag, "BOOL"),
    "Fraction": (kinds.number, "X"),
    "Mark": (kinds.mark, "MARK"),
    "Marks": (kinds.marks, "MARK"),
    "Number": (kinds.number, "X"),
    "Numbers": (kinds.number_list, "NUMBER"),
    "Positive": (kinds.number, "X"),
    "SEED": (kinds.whole, "N"),
    "Share": (kinds.number, "X"),
    "Text": (kinds.text, "WORD"),
    "TextByColumn": (kinds.text_by_column, "FORMAT"),
    "Whole": (kinds.whole, "N"),
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
_TAKE_NULL = (kinds.column, kinds.columns, kinds.by_column, kinds.text_by_column, kinds.marks)
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


def estimator_options(model: str) -> list[Option]:
    """An option for every parameter of an estimator."""
    reads = _ALL[model].reads
    return [_option(parameter, reads=reads) for parameter in parameters_of(model)]


def build_estimator(model: str, chosen: Any) -> Any:
    """The estimator with the parameters that were chosen."""
    entry, given = _ALL[model], {}
    for own, option in zip(parameters_of(model), estimator_options(model), strict=True):
        value = getattr(chosen, own.name)
        if value is not None or option.default is not None:
            given[own.name] = _value(own, value)
    return pkgutil.resolve_name(f"{entry.module}:{entry.name}")(**given)


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
    """The parameters of an estimator, by section."""
    check_choice("--model", model, _ALL)
    own = _declarations(_ALL[model].module, _ALL[model].name).values()
    complete = [replace(part, section=part.section or "Model") for part in own if part]
    return sorted(complete, key=lambda declaration: section_rank(declaration.section))


@functools.cache
def _parsed(module: str) -> ast.Module:
    path = _SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _declarations(module: str, name: str) -> dict[str, Declaration | None]:
    """Those of a class and of the classes of ours that it derives from, most general first.

    None where a class has a plain value in place of a parameter.
    """
    body = _parsed(module).body
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    homes = dict.fromkeys(classes, module)
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("exfam."):
            homes |= {alias.name: str(node.module) for alias in node.names}
    merged: dict[str, Declaration | None] = {}
    bases = [ast.unparse(base) for base in reversed(classes[name].bases)]
    inherited = [_declarations(homes[base], base) for base in bases if base in homes]
    for declarations in [*inherited, _own(classes[name])]:
        for key, declaration in declarations.items():
            if declaration is None:
                merged[key] = None
                continue
            below = merged.get(key, declaration)
            kept: dict[str, Any] = {
                part: getattr(declaration, part) or getattr(below, part)
                for part in ("rule", "help", "section")
            }
            merged[key] = replace(declaration, **kept)
    return merged


def _own(node: ast.ClassDef) -> dict[str, Declaration | None]:
    section = next((word.value for word in node.keywords if word.arg == "section"), None)
    own: dict[str, Declaration | None] = {}
    for line in node.body:
        if isinstance(line, ast.Assign):
            own |= {name.id: None for name in ast.walk(line) if isinstance(name, ast.Name)}
        if isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Call):
            if ast.unparse(line.value.func) != "parameter":
                continue
            given = dict(zip(("rule", "text"), line.value.args, strict=False))
            given |= {word.arg: word.value for word in line.value.keywords if word.arg}
            name = ast.unparse(line.target)
            own[name] = Declaration(
                name,
                ast.unparse(line.annotation),
                ast.literal_eval(given["default"]),
                given.get("rule"),
                ast.literal_eval(given["text"]) if "text" in given else None,
                None if section is None else ast.literal_eval(section),
            )
    return own


def _option(parameter: Declaration, *, reads: str) -> Option:
    kind, metavar = _kind(parameter.rule)
    if kind is kinds.text and parameter.annotation.endswith("| None"):
        kind = kinds.optional(kind)
    help = _HELP.get((reads, parameter.name), parameter.help or "")
    return Option(
        parameter.name,
        kind,
        f"{help}{_EXAMPLES.get(parameter.name, '')} (default {parameter.default!r})",
        default=None if parameter.default == () else parameter.default,
        metavar=metavar or parameter.name.upper(),
        many=kind in (kinds.columns, kinds.number_list, kinds.marks),
        section=(parameter.section or "").partition(" ")[0],
    )


def _kind(rule: ast.expr | None) -> tuple[Kind, str]:
    """What an option's word becomes by the rule as it is written."""
    if isinstance(rule, ast.Name):
        return _RULES[rule.id]
    assert isinstance(rule, ast.Call)
    name = ast.unparse(rule.func)
    if name == "OrNone":
        kind, metavar = _kind(rule.args[0])
        return (kind if kind in _TAKE_NULL else kinds.optional(kind)), metavar
    if name == "OrWord":
        kind, metavar = _kind(rule.args[1])
        is_auto = ast.literal_eval(rule.args[0]) == "auto" and kind is not kinds.anything
        return (kinds.or_auto(kind) if is_auto else kind), metavar
    return _RULES[name]
