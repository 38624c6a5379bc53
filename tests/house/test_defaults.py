"""A default in a docstring is the default.

A docstring is about a parameter in a line that begins with its name in backticks and a colon, and
names its default as `(default 3e-3)` before the next such line.
"""

import ast
import importlib
import inspect
import itertools
import re

import pytest

from exfam.estimator.registry import REGISTRY, class_of
from house.sources import FILES, module_name

PARAMETER = re.compile(r"^[ \t]*(?:- )?`(\w+)`(?:, `\w+`)*:", re.MULTILINE)
DEFAULT = re.compile(r"\(default:? `?(.+?)`?\)(?=[\s.,;]|$)")
MODULES = [name for path in FILES if (name := module_name(path)) not in {"exfam", "exfam.__main__"}]


def stated_defaults(docstring: str) -> dict[str, str]:
    """Parameter name -> the text of its default, for those parameters that have one."""
    starts = list(PARAMETER.finditer(docstring))
    result = {}
    for match, following in itertools.zip_longest(starts, starts[1:]):
        end = following.start() if following else len(docstring)
        if default := DEFAULT.search(docstring, match.end(), end):
            result[match[1]] = default[1]
    return result


def public_callables(name: str):
    """Public name -> the classes, methods and functions that the module itself defines."""
    module = importlib.import_module(name)
    for public, value in list(vars(module).items()):
        is_own = callable(value) and getattr(value, "__module__", None) == name
        if public.startswith("_") or not is_own:
            continue
        yield public, value
        for method_name, method in inspect.getmembers(value, inspect.isfunction):
            if inspect.isclass(value) and not method_name.startswith("_"):
                yield f"{public}.{method_name}", method


def same(text: str, default: object) -> bool:
    try:
        return ast.literal_eval(text) == default
    except (ValueError, SyntaxError):
        return text == repr(default)


def wrong_defaults(value) -> list[str]:
    result = stated_defaults(inspect.getdoc(value) or "")
    parameters = inspect.signature(value).parameters if result else {}
    wrong = [f"`{name}` is no parameter" for name in result if name not in parameters]
    return wrong + [
        f"`{name}` is documented to be {text}, is {parameters[name].default!r}"
        for name, text in result.items()
        if name in parameters and not same(text, parameters[name].default)
    ]


def test_stated_defaults_are_the_real_ones():
    assert len(MODULES) > 500
    every = ((module, *public) for module in MODULES for public in public_callables(module))
    wrong = {f"{module}.{name}": wrong_defaults(value) for module, name, value in every}
    assert not {name: lines for name, lines in wrong.items() if lines}


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_estimator_documents_every_parameter(kind):
    lines = [match[0] for match in PARAMETER.finditer(inspect.getdoc(class_of(kind)) or "")]
    documented = {name for line in lines for name in re.findall(r"`(\w+)`", line)}
    assert set(inspect.signature(class_of(kind)).parameters) <= documented


def test_a_wrong_default_is_found():
    def fit(rate=3e-3, kind="softmax"):
        """`rate`: (default 0.003), `kind`: "x"

        `kind`: which one
            (default "linear")
        `gone`: (default None)
        """

    wrong = wrong_defaults(fit)
    assert len(wrong) == 2 and wrong[0] == "`gone` is no parameter" and "'softmax'" in wrong[1]
