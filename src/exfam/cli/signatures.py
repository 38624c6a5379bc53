"""The parameters of estimators as options, read off their source: nothing heavy is imported."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exfam.checks import check_choice
from exfam.cli.kinds import (
    KINDS,
    Kind,
    anything,
    by_column,
    column,
    columns,
    numbers,
    text_by_column,
)
from exfam.cli.options import Option

__all__ = ["MODELS", "WORD_MODELS", "Model", "Parameter", "estimator_options", "parameters_of"]


@dataclass(frozen=True)
class Model:
    """Where an estimator lives, and what it is of.

    `of`: "groups", "fields" (values at places and times), "tables" or "words" (default "groups")
    """

    module: str
    name: str
    of: str = "groups"


def _of_fields(file: str, name: str) -> Model:
    return Model(f"exfam.fields.{file}", name, of="fields")


def _of_tables(file: str, name: str) -> Model:
    return Model(f"exfam.tables.{file}", name, of="tables")


def _of_words(file: str, name: str) -> Model:
    return Model(f"exfam.words.{file}", name, of="words")


# What `--model` of `exfam fit` may say.
MODELS = {
    "efa": Model("exfam.efa.efa", "EFA"),
    "latent-factor": Model("exfam.efa.latent_factor", "LatentFactor"),
    "marginal": Model("exfam.efa.baselines", "Marginal"),
    "shrunk-offset": Model("exfam.efa.baselines", "ShrunkOffset"),
    "field-efa": _of_fields("efa", "FieldEFA"),
    "field-latent-factor": _of_fields("latent_factor", "FieldLatentFactor"),
    "field-climatology": _of_fields("baselines", "FieldClimatology"),
    "field-gaussian-process": _of_fields("baselines", "FieldGaussianProcess"),
    "field-kriging": _of_fields("baselines", "FieldKriging"),
    "field-ridge": _of_fields("baselines", "FieldRidge"),
    "field-ridge-covariance": _of_fields("baselines", "FieldRidgeCovariance"),
    "table": _of_tables("table", "MaskedTable"),
    "table-classifier": _of_tables("classifier", "MaskedTableClassifier"),
    "table-regressor": _of_tables("regressor", "MaskedTableRegressor"),
}
# What that of `exfam fit words` may say.
WORD_MODELS = {
    "skip-gram": _of_words("skipgram", "SkipGram"),
    "cbow": _of_words("cbow", "CBOW"),
    "pmi": _of_words("pmi", "PMIFactorization"),
}
_EVERY = MODELS | WORD_MODELS

# Parameters whose annotation says less than the command line must know.
_KINDS: dict[str, tuple[Kind, str]] = {
    "group": (column, "COLUMN"),
    "order": (columns, "COLUMN"),
    "item": (column, "COLUMN"),
    "value": (columns, "COLUMN"),
    "attributes": (columns, "COLUMN"),
    "group_attributes": (columns, "COLUMN"),
    "known": (columns, "COLUMN"),
    "position": (columns, "COLUMN"),
    "family": (anything, "FAMILY"),
}
_KINDS_OF_FIELDS: dict[str, tuple[Kind, str]] = {
    "time": (column, "COLUMN"),
    "site": (column, "COLUMN"),
    "coordinates": (columns, "COLUMN"),
    "value": (column, "COLUMN"),
    "missing": (numbers, "NUMBER"),
    "family": (anything, "FAMILY"),
}
_KINDS_OF_TABLES: dict[str, tuple[Kind, str]] = {
    "kinds": (by_column, "KINDS"),
    "families": (by_column, "FAMILIES"),
    "date_format": (text_by_column, "FORMAT"),
    "family": (anything, "FAMILY"),
}
_SPECIAL = {
    "groups": _KINDS,
    "fields": _KINDS_OF_FIELDS,
    "tables": _KINDS_OF_TABLES,
    "words": {},
}
_FAMILY = (
    "a family's name, with its arguments in parentheses, or a family for each value column: "
    'poisson, "ordinal(n=5, start=1)", "{stars: ordinal(5), price: gamma}" (default \'gaussian\')'
)
# What a help says beside, or instead of, the docstring of an estimator.
_MORE = {
    "kinds": ': "{accidents: count, condition: [poor, fair, good]}"',
    "families": ': "{km: gamma}"',
    "date_format": ", \"{sold: '%d.%m.%Y'}\"",
}
_METAVARS = {
    "bool": "BOOL", "bool | str": "BOOL", "int": "N", "int | None": "N", "int | str": "N",
    "float": "X", "float | None": "X", "float | str": "X",
}  # fmt: skip
_TOLD = re.compile(r"^`(\w+)`:\s", re.MULTILINE)
_HEADING = re.compile(r"^([A-Z][^\n:(]*?)(?: \([^)]*\))?:$", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator: its annotation, its default, what its docstring says of it."""

    name: str
    annotation: str
    default: Any
    help: str
    section: str


def estimator_options(model: str) -> list[Option]:
    """An option for every parameter of an estimator.

    >>> next(option.default for option in estimator_options("efa") if option.name == "n_heads")
    2
    """
    parameters = parameters_of(model)
    return [_option(parameter, of=_EVERY[model].of) for parameter in parameters]


def parameters_of(model: str) -> list[Parameter]:
    """The parameters of an estimator, from its `__init__` and the docstring of its class.

    Raises ExfamError for an unknown model.

    >>> [parameter.name for parameter in parameters_of("efa")][:3]
    ['group', 'order', 'item']
    """
    check_choice("--model", model, _EVERY)
    found = _class(_EVERY[model])
    told = _told(ast.get_docstring(found) or "")
    init = next(
        node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    return [
        Parameter(
            each.arg,
            ast.unparse(each.annotation) if each.annotation else "Any",
            ast.literal_eval(default) if default else None,
            *told.get(each.arg, ("", "Model")),
        )
        for each, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
    ]


def _class(model: Model) -> ast.ClassDef:
    inside = model.module.split(".")[1:]
    source = (
        Path(__file__).parents[1].joinpath(*inside).with_suffix(".py").read_text(encoding="utf-8")
    )
    return next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == model.name
    )


def _told(docstring: str) -> dict[str, tuple[str, str]]:
    """Parameter -> what a docstring says of it, and under which heading."""
    docstring = docstring.partition("\n\nAfter `fit`")[0]
    headings = [(found.start(), found[1]) for found in _HEADING.finditer(docstring)]
    told = {}
    for found in _TOLD.finditer(docstring):
        text = re.split(r"\n(?! )|\n\n", docstring[found.end() :], maxsplit=1)[0]
        section = [title for start, title in headings if start < found.start()]
        told[found[1]] = (" ".join(text.split()), (section or ["Model"])[-1].split(" of ")[0])
    return told


def _option(parameter: Parameter, *, of: str) -> Option:
    kind, metavar = _SPECIAL[of].get(parameter.name, (None, "VALUE"))
    annotation = parameter.annotation
    if kind is None:
        kind, metavar = KINDS.get(annotation, anything), _METAVARS.get(annotation, "WORD")
    default = None if parameter.default == () else parameter.default
    return Option(
        parameter.name,
        kind,
        _FAMILY if parameter.name == "family" and of == "groups" else _help(parameter),
        default=default,
        metavar=metavar,
        many=kind in (columns, numbers),
        section=parameter.section,
    )


def _help(parameter: Parameter) -> str:
    """What the docstring says, with an example of what is written in YAML before the default."""
    told, default, rest = parameter.help.rpartition(" (default")
    return f"{told}{_MORE.get(parameter.name, '')}{default}{rest}"
