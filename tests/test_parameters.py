"""Every class declares a rule for each parameter; a fit takes its value or names the parameter."""

import inspect
from contextlib import suppress

import numpy as np
import pytest
from jaxtyping import TypeCheckError

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from every_estimator import case_of, class_of
from exfam.checks import ExfamError, shown
from exfam.estimator.base import Declared, attribute, parameter
from exfam.estimator.registry import REGISTRY as KINDS
from exfam.estimator.rules import (
    ByColumn,
    Choice,
    ColumnName,
    ColumnNames,
    Fraction,
    Numbers,
    OrWord,
    Positive,
    TextByColumn,
    Whole,
)
from parameter_values import VALUES

# Drawn from all parameters of a class and all values, the same ones every time.
N_DRAWN = 12


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_line_and_a_rule_that_its_default_obeys(kind):
    parameters, declared = inspect.signature(class_of(kind)).parameters, class_of(kind).declared
    assert list(parameters) == list(declared)
    for name, declaration in declared.items():
        assert parameters[name].default == declaration.default
        assert declaration.text and declaration.section and declaration.rule.words
        assert declaration.rule.allows(declaration.default), name
        # A rule allows what it does not refuse.
        for label, make in VALUES.items():
            try:
                declaration.rule.check(name, make())
                refused = False
            except ExfamError as error:
                refused = True
                assert f"`{name}`" in str(error) or name in ("family", "families"), label
            assert refused != declaration.rule.allows(make()), (name, label)


def test_a_class_changes_what_it_inherits():
    class Mean(Declared, section="Training"):
        rate: float = parameter(Positive(), "step size", default=0.1)
        state_: float = attribute()

    class Quick(Mean):
        """A mean.

        {parameters}
        """

        rate: float = parameter(default=0.5)

    assert Quick().rate == 0.5 and Quick(rate=2).get_params() == {"rate": 2}
    assert "Training:\n`rate`: step size; a number > 0 (default 0.5)" in Quick.__doc__
    with pytest.raises(ExfamError, match="`rate` must be a number > 0, got -1"):
        Quick(rate=-1).check_rules()
    with pytest.raises(ExfamError, match="`speed` must be a parameter of Quick, which has rate"):
        Quick().set_params(speed=1)
    with pytest.raises(TypeError, match=r"Quick\(\) has no parameter 'rat'. Did you mean rate"):
        Quick(rat=1)
    assert not hasattr(Quick(), "state_")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_takes_a_value_or_names_the_parameter(kind):
    case, random = case_of(kind), np.random.default_rng(0)
    names, labels = list(case.make().get_params(deep=False)), list(VALUES)
    for _ in range(N_DRAWN):
        name, label = names[random.integers(len(names))], labels[random.integers(len(labels))]
        value = VALUES[label]()
        try:
            case.make().set_params(**{name: value}).check_rules()
        except ExfamError as error:
            assert f"`{name}`" in str(error), (name, label)
            continue
        # Allowed, it may still not suit the data or another parameter; and what functions inside
        # are given is checked more strictly in tests: no integers for float.
        with suppress(ExfamError, TypeCheckError):
            case.make().set_params(**{name: value}).fit(*case.given, **case.also)


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (Whole(least=2), 1, "`x` must be an integer >= 2, got 1."),
        (Whole(), 10**30, "`x` must be an integer <= 2147483647, got 1000"),
        (Whole(), 10**5000, "got a value of type int that Python cannot show"),
        (Positive(), 0, "`x` must be a number > 0, got 0"),
        (Positive(zero=True), -(10**400), "`x` must be a number >= 0, got -10000"),
        (Fraction(), 1, r"`x` must be a number in \[0, 1\), got 1"),
        (Choice(("a", None)), np.array(["a"]), "`x` must be one of 'a', None, got array"),
        (ColumnName(), 3, "`x` must be the name of a column, got 3"),
        (ColumnNames(), [3], r"`x` must be the name of a column or a list of them, got \[3\]"),
        (Numbers(), "a", "`x` must be a number or a list of them, got 'a'"),
        (ByColumn("a kind"), {3: "count"}, "`x` must be a mapping of columns to a kind, got {3"),
        (TextByColumn(), {"day": 3}, "`x` must be text or a mapping of columns to it, got {"),
        (OrWord("auto", Whole()), 0, "`x` must be an integer >= 1, got 0"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_the_error_of_a_broken_rule_says_the_rule(rule, value, message):
    with pytest.raises(ExfamError, match=message):
        rule.check("x", value)
    assert len(shown("a" * 10_000)) < 450 and shown("a") == "'a'"
