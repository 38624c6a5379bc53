"""Ratings in steps of a half: the same models as of their doubles, in stars."""

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from exfam import EFA, Categorical, ExfamError, LatentFactor, Marginal, Ordinal, SupportError
from exfam.cli.families import family_from_words
from exfam.efa.values.auto_family import auto_family
from exfam.efa.values.values_base import ValueOptions
from exfam.families import PerItem, Poisson
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.scores.calibration import probability_integral
from exfam.scores.crps import crps
from model_cases import generator

COLUMNS = {"group": "person", "item": "movie", "value": "stars", "parts": "values"}


def rated(*, n_people=60, n_movies=8, seed=0):
    random = np.random.default_rng(seed)
    person, movie = np.divmod(random.permutation(n_people * n_movies)[: 6 * n_people], n_movies)
    taste = random.normal(size=n_people)[person] * np.linspace(-1, 1, n_movies)[movie]
    stars = (2 * (3 + taste + 0.5 * random.normal(size=len(person)))).round().clip(1, 10) / 2
    return pd.DataFrame({"person": person, "movie": movie, "stars": stars})


HALVES = rated()
DOUBLES = HALVES.assign(stars=2 * HALVES["stars"])


def models():
    yield Marginal(**COLUMNS, family=Ordinal(10, start=0.5, step=0.5))
    quiet = {"progress": False}
    yield EFA(**COLUMNS, **quiet, attention="none")
    small = {"embed_dim": 4, "n_heads": 1, "head_dim": 2, "n_layers": 1, "max_epochs": 2}
    yield EFA(**COLUMNS, **quiet, **small, base="none")
    yield LatentFactor(**COLUMNS, **quiet, family=Ordinal(10, start=0.5, step=0.5), dim=0)


@pytest.mark.parametrize("model", list(models()), ids=lambda model: type(model).__name__)
def test_a_model_of_halves_is_that_of_their_doubles_in_stars(model, tmp_path):
    whole = type(model)(**model.get_params())
    if model.family != "auto":
        whole.set_params(family=Ordinal(10, start=1))
    model.fit(HALVES)
    whole.fit(DOUBLES)
    family = model.schema_.families["stars"]
    assert family == Ordinal(10, start=0.5, step=0.5)
    assert whole.schema_.families["stars"] == Ordinal(10, start=1)
    np.testing.assert_allclose(model.log_prob(HALVES), whole.log_prob(DOUBLES), rtol=1e-5)
    np.testing.assert_allclose(2 * model.predict(HALVES), whole.predict(DOUBLES), rtol=1e-5)
    low = model.predict(HALVES, quantiles=[0.1, 0.5])
    np.testing.assert_array_equal(2 * low, whole.predict(DOUBLES, quantiles=[0.1, 0.5]))
    probability = model.predict_proba(HALVES, of="stars")
    np.testing.assert_allclose(probability, whole.predict_proba(DOUBLES, of="stars"), atol=1e-6)
    np.testing.assert_allclose(
        probability @ np.array(family.categories), model.predict(HALVES), rtol=1e-4
    )
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert loaded.schema_.families == model.schema_.families
    np.testing.assert_array_equal(loaded.predict(HALVES), model.predict(HALVES))


def test_mixtures_of_halves_score_as_those_of_doubles():
    eta = torch.randn(3, 40, 10, generator=generator(0), dtype=torch.float64)
    value = torch.from_numpy(np.random.default_rng(0).integers(1, 11, 40).astype(float))
    half = Mixture(Ordinal(10, start=0.5, step=0.5), eta)
    whole = Mixture(Ordinal(10, start=1), eta)
    assert half.has_jumps(value / 2).all()
    torch.testing.assert_close(2 * crps(half, value / 2), crps(whole, value))
    for statistic in (Mixture.mean, lambda mixture: mixture.quantile(0.3)):
        torch.testing.assert_close(2 * statistic(half), statistic(whole))
    drawn = [
        probability_integral(half, value / 2, seed=1),
        probability_integral(whole, value, seed=1),
    ]
    np.testing.assert_allclose(*drawn)
    items = torch.arange(40) % 2
    pair = PerItem({0: Ordinal(10, start=0.5, step=0.5)}, default=Poisson())
    mixed = Mixture(pair, torch.randn(2, 40, pair.n_params, generator=generator(1)), items)
    assert mixed.has_jumps(value / 2).all()
    reached = mixed.quantile(0.4)
    assert (mixed.cdf(reached) >= 0.4 - 1e-5).all() and (2 * reached == (2 * reached).round()).all()
    assert (mixed.cdf(reached - 0.25) < 0.4 + 1e-5).all()


def test_halves_are_found_from_the_data():
    def found(values):
        column = np.array(values, dtype=float)
        groups = Groups(start=[0], stop=[len(column)], values={"stars": column})
        return auto_family(groups, "stars", ValueOptions())

    assert found([1.0, 2.5, 3.5, 4.0, 5.0]) == Ordinal(10, start=0.5, step=0.5)
    assert found([0.5, 1.0, 1.5, 5.0, 4.5]) == Ordinal(10, start=0.5, step=0.5)
    assert found([0.0, 0.5, 1.0, 1.5]) == Ordinal(4, start=0.0, step=0.5)
    assert found([1.0, 2.0, 5.0]) == Ordinal(5, start=1)
    assert found([0.5, 80.0, 3.0]).name == "student-t"
    assert found([0.25, 0.5, 1.0]).name == "student-t"


def test_labels_in_steps_are_written_shown_and_refused():
    family = family_from_words("ordinal(n=10, start=0.5, step=0.5)")
    assert family == Ordinal(10, start=0.5, step=0.5)
    assert repr(family) == "Ordinal(n=10, start=0.5, step=0.5)"
    assert repr(Ordinal(5, start=1.0)) == "Ordinal(n=5, start=1)"
    assert Ordinal(4, start=0.1, step=0.1).categories == (0.1, 0.2, 0.3, 0.4)
    assert Categorical(3, start=-1, step=2).categories == (-1, 1, 3)
    assert "in steps of 0.5" in family.support and "start, step or n" in family.hint
    for make, message in (
        (lambda: Ordinal(4, start=0.5), "`start` must be an integer, got 0.5"),
        (lambda: Ordinal(4, step=0), "`step` must be a number > 0, got 0"),
        (lambda: Ordinal(4, start=np.nan, step=0.5), "`start` must be a finite number, got nan"),
    ):
        with pytest.raises(ExfamError, match=message):
            make()
    quarter = HALVES.assign(stars=HALVES["stars"].replace(0.5, 0.75))
    with pytest.raises(SupportError, match="`stars` must be a number from 0.5 to 5.0 in steps"):
        Marginal(**COLUMNS, family=family).fit(quarter)
