"""Families that users write: registered by name, saved with models, never imported by a file."""

import os
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import exfam
from estimator_cases import make, ratings, same_bits
from every_estimator import case_of
from exfam import ExfamError, ModelFileError, register_family
from exfam.families import FAMILIES, Gaussian, PerItem, family_from_config, family_to_config

FRAME = ratings(least=2)


pytestmark = pytest.mark.usefixtures("families")


@dataclass(frozen=True)
class Wide(Gaussian):
    """A Gaussian under a name of its own, with an option more."""

    factor: Any = 1.0
    name = "wide"


def test_a_registered_family_has_a_name_and_is_saved_and_loaded(tmp_path):
    register_family(Wide)
    for number, family in enumerate((Wide(factor=2.0), PerItem({"a": Wide()}, default=Gaussian()))):
        estimator = make("efa", parts="values", max_epochs=1, family=family).fit(FRAME)
        estimator.save(tmp_path / str(number))
        loaded = exfam.load(tmp_path / str(number))
        assert same_bits(loaded, estimator)
        assert loaded.get_params()["family"] == family
        np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))
    named = make("marginal", family="wide").fit(FRAME).schema_.families["stars"]
    assert type(getattr(named, "family", named)) is Wide
    # Registering a class again replaces it.
    again = type("Wide", (Wide,), {"__qualname__": "Wide", "__module__": Wide.__module__})
    assert register_family(again) is FAMILIES["wide"] is again


@pytest.mark.parametrize("kind", ["field-efa", "masked-table"])
def test_it_serves_fields_and_tables(kind):
    register_family(Wide)
    case = case_of(kind)
    choice = {"families": {"height": "wide"}} if kind == "masked-table" else {"family": "wide"}
    assert np.isfinite(case.fit(**choice).score(*case.given))


def test_what_is_not_registered_is_refused_before_anything_is_written(tmp_path):
    estimator = make("efa", parts="values", max_epochs=1, family=Wide()).fit(FRAME)
    with pytest.raises(ExfamError, match=r"`family` must be registered .* got Wide.*register_fam"):
        estimator.save(tmp_path / "model")
    with pytest.raises(ExfamError, match="`family` must have texts as keys to be saved, got 1,"):
        make("marginal").fit(FRAME).set_params(family={1: "gaussian"}).save(tmp_path / "model")
    assert os.listdir(tmp_path) == []
    register_family(Wide)
    estimator.save(tmp_path / "model")
    assert same_bits(exfam.load(tmp_path / "model"), estimator)


def test_a_subclass_is_never_saved_as_its_parent():
    class Renamed(Gaussian):
        pass

    with pytest.raises(ExfamError, match="must be registered to be saved, got Renamed"):
        family_to_config(Renamed())
    with pytest.raises(ExfamError, match=r"`name` must be one .*'gaussian' .* exfam\.families"):
        register_family(Renamed)


@pytest.mark.parametrize("value", [object(), float("nan"), [1], {1: 2}])
def test_options_that_json_does_not_keep_are_refused(value):
    register_family(Wide)
    with pytest.raises(ExfamError, match="`family` must have options that come back from JSON"):
        family_to_config(Wide(factor=value))


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("thin", "this", "must be registered before .* 'thin' of module 'this'. Import that mo"),
        ("wide", "others", "'wide' of module 'others', got .*families.Wide, which is regist"),
        ("gaussian", "others", "got exfam.families.real.Gaussian, which is"),
    ],
)
def test_a_family_of_another_module_is_refused(name, module, message):
    register_family(Wide)
    with pytest.raises(ModelFileError, match=message):
        family_from_config({"name": name, "module": module})
    assert "this" not in sys.modules, "a file never has a module imported"
    assert family_from_config({**family_to_config(Wide()), "module": "__main__"}) == Wide()


@dataclass(frozen=True)
class Named(Gaussian):
    module: str = ""
    name = "named"


@dataclass
class Loose(exfam.PlainFamily):
    name = "loose"


class Unnamed(Gaussian):
    name = field()


HOOKS = {name: lambda self, *_: None for name in exfam.PlainFamily.__abstractmethods__}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Gaussian(), "`kind` must be a class of families, got Gaussian"),
        (dict, "`kind` must be a class of families, got <class 'dict'>"),
        (Loose, "`kind` must have all methods of a family, got Loose without _cdf"),
        (Named, "`kind` must not have an option named 'module', got one in Named"),
        (Unnamed, "`name` must be the text that stands for Unnamed, got Field"),
        (
            type("Plain", (exfam.PlainFamily,), {**HOOKS, "name": "plain"}),
            "`kind` must be a frozen dataclass, .* got Plain. Put @",
        ),
    ],
)
def test_other_classes_are_not_registered(kind, message):
    with pytest.raises(ExfamError, match=message):
        register_family(kind)
