import inspect
import pkgutil
import re

import pytest

from exfam.checks import ExfamError
from exfam.cli.commands import form_of
from exfam.cli.families import family_from_words
from exfam.cli.signatures import MODELS, WORD_MODELS, estimator_options, parameters_of
from exfam.families import (
    Gaussian,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    RoundedStudentT,
)


@pytest.mark.parametrize("model", [*MODELS, *WORD_MODELS])
def test_parameters_read_off_the_source_are_those_of_the_class_and_options(model):
    entry = (MODELS | WORD_MODELS)[model]
    signature = inspect.signature(pkgutil.resolve_name(f"{entry.module}:{entry.name}"))
    expected = [
        (own.name, own.default, inspect.formatannotation(own.annotation).replace("typing.", ""))
        for own in signature.parameters.values()
    ]
    own = [(own.name, own.default, own.annotation) for own in parameters_of(model)]
    assert sorted(own, key=str) == sorted(expected, key=str)
    command = "fit" if model in MODELS else "fit words"
    options = form_of(command, ["--model", model]).options
    names = [option.name for option in options]
    assert len(names) == len(set(names)) and len({option.long for option in options}) == len(names)
    assert {option.name for option in estimator_options(model)} <= set(names)
    for option in options:
        assert option.help
        assert option.default is None or option.kind(option.default) == option.default


def test_an_unknown_model_is_reported():
    with pytest.raises(ExfamError, match="`--model` must be one of 'efa'"):
        parameters_of("random-forest")


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ([], "efa"),
        (["--model=marginal"], "marginal"),
        (["--config", "CONFIG"], "latent-factor"),
        (["--config", "CONFIG", "--model", "marginal"], "marginal"),
        (["--config", "nowhere.yaml"], "efa"),
        (["--model", "random-forest"], "efa"),
        (["--model"], "efa"),
    ],
)
def test_the_options_are_those_of_the_chosen_model(words, model, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model: latent-factor\n")
    options = form_of("fit", [word.replace("CONFIG", str(config)) for word in words]).options
    own = [option.name for option in estimator_options(model)]
    names = [option.name for option in options]
    assert names[-len(own) :] == own
    assert {"n_heads", "smoothing", "dim"}.isdisjoint(names[: -len(own)])


@pytest.mark.parametrize(
    ("given", "family"),
    [
        ("Poisson()", Poisson()),
        ("poisson(1)", Poisson(shift=1)),
        (" ordinal( n = 5 , start=1 ) ", Ordinal(5, start=1)),
        ("negative_binomial", NegativeBinomial()),
        ({"name": "ordinal", "n": 5}, Ordinal(5)),
        ("rounded-student-t(atoms=(0, 12))", RoundedStudentT(atoms=(0, 12))),
        ({"name": "rounded-student-t", "start": 1, "atoms": [7]}, RoundedStudentT(1, (7,))),
        (
            {"stars": "ordinal(5)", "price": {"name": "gaussian", "scale": 1.0}},
            {"stars": Ordinal(5), "price": Gaussian(scale=1.0)},
        ),
        (
            {"name": "per-item", "families": {"a": "poisson"}, "default": "gaussian"},
            PerItem({"a": Poisson()}, Gaussian()),
        ),
        ({"name": "per-item", "families": [["a", "poisson"]]}, PerItem({"a": Poisson()})),
    ],
)
def test_families_are_written_as_words_or_yaml(given, family):
    assert family_from_words(given) == family


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("zipf", "got 'zipf'. Choose one of bernoulli"),
        ("ordinal", "got none for 'n'. ordinal takes n, start, step."),
        ("ordinal(n=5, begin=1)", "got 'begin' as an argument. ordinal takes n, start, step."),
        ("poisson(1, 'log', 7)", "got 7 as an argument. poisson takes shift, link."),
        ("ordinal(n=__import__('os'))", "`n` must be a whole number, got"),
        ("ordinal(n=lambda: 5)", "Write it as poisson"),
        ("ordinal(n=5, n=6)", "Write it as poisson"),
        (7, "got 7. Write it as poisson"),
        ({"stars": None}, "got None. Write it as poisson"),
        ("per-item", "Write it as {name: per-item, families:"),
        ({"name": "per-item", "families": ["a"]}, "Write it as {name: per-item, families:"),
        ("poisson(shift='x')", "got poisson with others: `shift` must be a whole number, got 'x'."),
        ("gaussian(scale=-1)", "got gaussian with others: `scale` must be"),
        ("rounded-student-t(atoms=(0.5,))", "`atoms` must be a whole number, got (0.5,)"),
        ({"name": "per-item", "families": {-1: "poisson"}}, "`families` must be"),
    ],
)
def test_a_wrong_family_is_reported(given, message):
    with pytest.raises(ExfamError, match=re.escape(message)):
        family_from_words(given)
