"""Laws of numbers of earlier maps that blocks of time choose."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal

from exfam import FieldEFA, FieldGaussian, load
from exfam.checks import ExfamError
from exfam.fields.base.choose import LADDER, choose_lags
from exfam.fields.base.trials import MapNats
from exfam.fields.data import read_field
from fields.field_cases import COLUMNS, FULL, field_frame
from fields.test_field_base import field_maps


def walk(*, back, weight=0.95, n_maps=160, n_sites=5, seed=0):
    """Maps that depend on the one so many steps before alone; 0 for none."""
    random = np.random.default_rng(seed)
    maps = field_maps(n_maps=n_maps, n_sites=n_sites, n_lags=LADDER[-1])
    values = random.standard_normal((n_maps, n_sites))
    for t in range(back, n_maps if back else 0):
        values[t] = weight * values[t - back] + (1 - weight**2) ** 0.5 * values[t]
    return maps._replace(panel=maps.panel._replace(values=torch.from_numpy(values)))


@pytest.mark.parametrize("seed", range(3))
def test_maps_without_memory_want_no_earlier_ones(seed):
    assert choose_lags(walk(back=0, seed=seed)) == 0


def test_maps_that_follow_each_other_want_the_one_before():
    assert choose_lags(walk(back=1)) == 1


def test_as_many_lags_are_chosen_as_help():
    # Second differences are noise: two maps before say where the next one is.
    random = np.random.default_rng(0)
    maps, values = walk(back=0), np.zeros((160, 5))
    noise = random.standard_normal((160, 5))
    for t in range(2, 160):
        values[t] = 1.6 * values[t - 1] - 0.8 * values[t - 2] + noise[t]
    maps = maps._replace(panel=maps.panel._replace(values=torch.from_numpy(values)))
    assert choose_lags(maps) == 2
    assert choose_lags(maps.with_lags(1)) == 1


def test_few_maps_choose_none():
    assert choose_lags(field_maps(n_maps=9, n_lags=7)) == 0


def test_gains_are_those_of_maps_that_both_have():
    row, ones = torch.arange(40), torch.ones(40).double()
    ours = MapNats(row, 3 * ones, ones)
    theirs = MapNats(row[5:], 2 * ones[5:], ones[5:])
    gain = ours.gain_on(theirs)
    assert gain.nats == pytest.approx(1) == pytest.approx(gain.low) and gain.n_groups == 9
    assert theirs.gain_on(ours).nats == pytest.approx(-1)


@pytest.fixture(scope="module")
def remembering():
    """Days of which each is near the one before."""
    frame = field_frame(n_days=50, missing=0.0)
    steps = frame.pivot(index="day", columns="site", values="v").cumsum() / 10
    values = steps.rename_axis("day").reset_index().melt("day", value_name="v")
    return frame.drop(columns="v").merge(values, on=["day", "site"])


@pytest.mark.parametrize("attention", ["none", "softmax"])
def test_chosen_lags_are_as_if_given(attention, remembering, tmp_path):
    def model(lags):
        if attention == "none":
            return FieldGaussian(**COLUMNS, lags=lags)
        return FieldEFA(**COLUMNS, lags=lags, max_epochs=1, progress=False)

    chosen = model("auto").fit(remembering)
    assert chosen.shape_.lags >= 1
    given = model(chosen.shape_.lags).fit(remembering)
    assert_array_equal(chosen.log_prob(remembering), given.log_prob(remembering))
    assert_array_equal(
        chosen.forecast(remembering, n=3).draws, given.forecast(remembering, n=3).draws
    )
    chosen.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.lags == "auto" and loaded.shape_ == chosen.shape_
    assert_array_equal(loaded.log_prob(remembering), chosen.log_prob(remembering))
    if attention == "none":  # both choose alike
        groups = read_field(remembering, **COLUMNS)
        again = model("auto").fit(groups, validation=read_field(FULL, **COLUMNS))
        assert again.shape_.lags == chosen.shape_.lags


def test_a_chosen_number_of_zero_cannot_forecast():
    random = np.random.default_rng(0)
    noise = FULL.assign(v=random.standard_normal(len(FULL)))
    model = FieldGaussian(**COLUMNS, lags="auto").fit(noise)
    with pytest.raises(ExfamError, match=r"at least 1 to forecast, got 0 \(chosen by the traini"):
        model.forecast(noise)


def test_networks_alone_do_not_choose():
    for more in ({"base": "none"}, {"family": "gaussian"}):
        with pytest.raises(ExfamError, match="`lags` must be a number where there is no base to"):
            FieldEFA(**COLUMNS, lags="auto", **more).fit(FULL)
    with pytest.raises(ExfamError, match="`lags` must be 'auto' or "):
        FieldGaussian(**COLUMNS, lags="many").fit(pd.DataFrame(FULL))
