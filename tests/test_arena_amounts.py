"""The arena's fields of amounts: densities of logarithms that are those of the amounts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.arena.contenders.fields import of_amounts
from benchmarks.arena.fields.amounts import LogOfAmounts, amounts, amounts_of
from benchmarks.arena.fields.judge import judge
from benchmarks.arena.fields.tasks import TASKS
from benchmarks.arena.kinds.fields import simulated
from benchmarks.arena.values.distributions import OfMixture

from exfam.families import CensoredStudentT
from exfam.families.mixtures import Mixture

OFFSET, RESOLUTION = 0.1, 0.01


def amounts_field():
    """Squares of what of a field is above 0, drawn from their hundredth."""
    field, random = simulated(), np.random.default_rng(0)
    latent = field.value - np.nanmedian(field.value)
    whole = np.floor(np.maximum(latent / np.nanstd(latent), 0) ** 2 / RESOLUTION) * RESOLUTION
    value = np.log(OFFSET + whole + RESOLUTION * random.random(whole.shape))
    return replace(field, value=value, offset=OFFSET, resolution=RESOLUTION)


FIELD = amounts_field()
DATA = TASKS["_lag"](FIELD)


def test_amounts_are_what_logarithms_are_of():
    value = np.log(OFFSET + np.array([0.0, 0.004, 0.02, 3.0]))
    np.testing.assert_allclose(amounts(value, DATA), [0, 0, 0.02, 3.0])
    maps = amounts_of(DATA.test, DATA)
    dry = (maps.value == 0)[~np.isnan(maps.value)].mean()
    assert 0.3 < dry < 0.7 and np.nanmin(maps.before) == 0
    np.testing.assert_array_equal(maps.target, DATA.test.target)


def logs_of(eta, n):
    """The same distribution `n` times."""
    mixture = Mixture(CensoredStudentT(), torch.tensor(eta).double().expand(1, n, 3))
    return LogOfAmounts(OfMixture(mixture, "real"), DATA)


@pytest.mark.parametrize("eta", [[0.2, -0.3, 2.0], [-0.8, 0.1, 1.5], [1.5, -1.0, 3.0]])
def test_densities_of_logarithms_add_up_to_their_probabilities(eta):
    # Below the resolution, and above it; roots between it and 0 have no amounts.
    for low, high in ((0.0, RESOLUTION), (RESOLUTION, 40.0)):
        ends = np.log(OFFSET + np.array([low, high])) + np.array([1e-9, -1e-9])
        grid = np.linspace(*ends, 4_001)
        mass = np.trapezoid(np.exp(logs_of(eta, len(grid)).log_prob(grid)), grid)
        assert mass == pytest.approx(np.diff(logs_of(eta, 2).at_most(ends))[0], rel=2e-3)
    grid = np.linspace(np.log(OFFSET), 4, 4_000)
    steps = np.diff(logs_of(eta, len(grid)).at_most(grid), prepend=0)
    assert logs_of(eta, 1).center()[0] == pytest.approx((grid * steps).sum(), abs=0.03)


def test_amounts_are_predicted():
    contender = of_amounts.CONTENDERS["field-gaussian-amounts"]
    assert "no logarithms" in contender.unsuited(TASKS[""](simulated()))
    data = TASKS[""](FIELD)
    assert contender.unsuited(data) is None
    judged = judge(contender.fit(data, 0), data.test)
    assert np.isfinite(judged.nats).all() and 0.8 < judged.in_90.mean() <= 1
    assert judged.error.mean() < np.var(data.test.truth)
