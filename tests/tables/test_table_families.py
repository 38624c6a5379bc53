"""Families of single columns of a table."""

import numpy as np
import pytest

from exfam.checks import ExfamError, SupportError
from exfam.families import Gamma, Gaussian, NegativeBinomial, Poisson
from exfam.tables import MaskedTable, MaskedTableClassifier

DRAWS = np.random.default_rng(0)
TABLE = {
    "wait": DRAWS.gamma(2.0, 3.0, 60),
    "size": DRAWS.normal(size=60),
    "visits": DRAWS.poisson(2.0, 60),
    "city": DRAWS.choice(["a", "b"], 60).astype(object),
}
QUICK = {"max_epochs": 1, "progress": False}


def fit(table=TABLE, **settings):
    return MaskedTable(kinds={"visits": "count"}, **QUICK, **settings).fit(table)


def test_columns_have_the_families_that_are_given(tmp_path):
    fitted = fit(families={"wait": Gamma(), "visits": "poisson"})
    result = dict(zip(fitted.schema_.names, fitted.families_, strict=True))
    assert (result["wait"], result["size"], result["visits"]) == (Gamma(), Gaussian(), Poisson())
    assert fit().families_[2] == NegativeBinomial()
    fitted.save(tmp_path / "model")
    again = MaskedTable.load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_prob(TABLE), fitted.log_prob(TABLE))


@pytest.mark.parametrize(
    ("families", "message"),
    [
        ({"height": "gamma"}, "`families` must name columns of the table, got 'height'"),
        ({"city": "gamma"}, "`families` must name columns of continuous numbers or counts"),
        ({"wait": "ordinal"}, "`family` must be an instance where it has arguments"),
    ],
)
def test_families_that_fit_no_column(families, message):
    with pytest.raises(ExfamError, match=message):
        fit(families=families)


def test_families_that_fit_no_value_or_response():
    with pytest.raises(SupportError, match="`wait` must be .* at row 59"):
        fit(TABLE | {"wait": np.append(np.ones(59), -1.0)}, families={"wait": Gamma()})
    frame = dict(TABLE)
    y = frame.pop("city")
    with pytest.raises(ExfamError, match="`families` must name columns of the table, got 'y'"):
        MaskedTableClassifier(families={"y": "gamma"}, **QUICK).fit(frame, y)


@pytest.mark.parametrize(
    ("numeric", "n_rows", "n_tokens"),
    [
        ("binned", [60, 320, 2000], [8, 20, 32]),
        ("continuous", [60, 320, 2000, 20_000], [4, 4, 7, 16]),
    ],
)
def test_bins_and_knots_follow_the_number_of_rows(numeric, n_rows, n_tokens):
    for n, expected in zip(n_rows, n_tokens, strict=True):
        fitted = MaskedTable(numeric=numeric, **QUICK).fit({"a": np.linspace(0, 1, n)})
        assert fitted.schema_.columns[0].n_tokens == expected
