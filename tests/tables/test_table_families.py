"""Families of single columns of a table."""

import numpy as np
import pytest

from exfam.checks import ExfamError, SupportError
from exfam.families import Gamma, Gaussian, NegativeBinomial, Poisson
from exfam.tables import MaskedTable, MaskedTableClassifier


def table():
    draws = np.random.default_rng(0)
    return {
        "wait": draws.gamma(2.0, 3.0, 60),
        "size": draws.normal(size=60),
        "visits": draws.poisson(2.0, 60),
        "city": draws.choice(["a", "b"], 60).astype(object),
    }


def model(**settings):
    kinds = {"visits": "count"}
    return MaskedTable(kinds=kinds, max_epochs=1, progress=False, **settings)


def test_columns_have_the_families_that_are_given():
    fitted = model(families={"wait": Gamma(), "visits": "poisson"}).fit(table())
    result = dict(zip(fitted.schema_.names, fitted.families_, strict=True))
    assert (result["wait"], result["size"], result["visits"]) == (Gamma(), Gaussian(), Poisson())
    assert model().fit(table()).families_[2] == NegativeBinomial()


def test_a_value_outside_the_support_is_named():
    frame = table() | {"wait": np.append(np.ones(59), -1.0)}
    with pytest.raises(SupportError, match="`wait` must be .* at row 59"):
        model(families={"wait": Gamma()}).fit(frame)


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ({"height": "gamma"}, "`families` must name columns of the table, got 'height'"),
        ({"city": "gamma"}, "`families` must name columns of continuous numbers or counts"),
        ({"wait": "ordinal"}, "`family` must be an instance where it has arguments"),
        (["gamma"], r"`families` must be a mapping of columns to a family, got \['gamma'\]"),
    ],
)
def test_families_that_fit_no_column(families, message):
    with pytest.raises(ExfamError, match=message):
        model(families=families).fit(table())


def test_the_response_of_a_classifier_has_no_given_family():
    frame = table()
    y = frame.pop("city")
    classifier = MaskedTableClassifier(families={"y": "gamma"}, max_epochs=1, progress=False)
    with pytest.raises(ExfamError, match="`families` must name columns of the table, got 'y'"):
        classifier.fit(frame, y)


@pytest.mark.parametrize(
    ("numeric", "expected"),
    [
        ("binned", {60: 8, 320: 20, 2000: 32}),
        ("continuous", {60: 4, 320: 4, 2000: 7, 20_000: 16}),
    ],
)
def test_bins_and_knots_follow_the_number_of_rows(numeric, expected):
    result = {}
    for n in expected:
        fitted = MaskedTable(numeric=numeric, max_epochs=1, progress=False)
        result[n] = fitted.fit({"a": np.linspace(0, 1, n)}).schema_.columns[0].n_tokens
    assert result == expected
