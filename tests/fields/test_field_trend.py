"""Laws of slow courses in time: found where they are, left out where they are not."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose

from exfam import FieldGaussian
from exfam.fields.base.choose import choose_courses
from exfam.fields.base.courses import Clock, design, plane_terms, site_slopes
from exfam.fields.base.maps import Maps
from fields.test_field_base import field_maps

COLUMNS = {
    "time": "day",
    "site": "site",
    "coordinates": ["x", "y"],
    "value": "v",
    "metric": "euclidean",
}


def risen(maps, slope) -> Maps:
    """The maps with a slope of each site added, by year."""
    years = maps.panel.time[:, None] / maps.clock.period
    values = torch.where(maps.panel.shown, maps.panel.values + years * slope, 0.0)
    return maps._replace(panel=maps.panel._replace(values=values))


@pytest.mark.parametrize("own", [0.0, 0.5, 0.9])
def test_slopes_are_found_beside_a_year_and_drawn_to_a_plane(own):
    random, clock = np.random.default_rng(0), Clock(365.25, 1.0)
    points = torch.from_numpy(random.uniform(-1, 1, (12, 2)))
    time = torch.arange(0.0, 3000.0, 7.0).double()
    plane = 1 + 0.5 * points[:, 0]
    slope = plane + 0.3 * torch.from_numpy(random.normal(size=12))
    waves = clock.waves(time)
    values = 4 + 3 * waves[:, :1] + time[:, None] / 365.25 * slope
    shown = torch.from_numpy(random.random(values.shape) < 0.8)
    found = site_slopes(
        torch.where(shown, values, 0.0),
        shown,
        design(waves)[2],
        waves[:, -1],
        plane_terms(points, 2),
        own=own,
        n_plain=3,
    )
    drawn = own * slope + (1 - own) * plane_terms(points, 2) @ found.plane
    assert_allclose(found.own, drawn, atol=0.05)
    assert_allclose(found.plane, [1.0, 0.5, 0.0], atol=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_maps_without_a_slope_have_none(seed):
    assert choose_courses(field_maps(n_maps=100, n_lags=0, seed=seed)).trend is None


def test_maps_that_turn_back_have_no_slope():
    maps = field_maps(n_maps=150, n_lags=0)._replace(clock=Clock(20.0, 1.0))
    # Up to the last block, and down in it.
    bent = 120 - (maps.panel.time - 120).abs()
    there = maps._replace(panel=maps.panel._replace(time=bent))
    values = risen(there, torch.linspace(-0.5, 1.0, 9).double()).panel.values
    assert choose_courses(maps._replace(panel=maps.panel._replace(values=values))).trend is None


def test_slopes_of_sites_are_found_and_go_on():
    maps = field_maps(n_maps=160, n_lags=0)._replace(clock=Clock(20.0, 1.0))
    slope = torch.linspace(-0.5, 1.0, 9).double()
    choice = choose_courses(risen(maps, slope))
    assert choice.trend is not None
    courses = risen(maps, slope).courses(choice)
    assert_allclose(courses.wave[:, -1], slope, atol=0.3)
    ahead = courses.location(maps.clock.waves(torch.tensor([300.0]).double()))
    assert_allclose(ahead[0], 15 * slope, atol=4)


def rising(*, n_days=120, slope=0.05):
    """Sites that warm by so much a day, those in the east twice as fast."""
    random, frames = np.random.default_rng(0), []
    places = random.uniform(0, 10, (9, 2))
    for day in range(n_days):
        frame = pd.DataFrame(places, columns=["x", "y"])
        frame["day"], frame["site"] = day, [f"s{k}" for k in range(9)]
        frame["v"] = 10 + slope * day * (1 + frame.x / 10) + random.normal(size=9)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def test_new_places_rise_as_those_around_them():
    frame = rising()
    old, new = frame[frame.day < 90], frame[frame.day >= 90]
    model = FieldGaussian(**COLUMNS).fit(old)
    hidden = new.assign(v=np.nan)
    far = model.predict(hidden) - (10 + 0.05 * new.day * (1 + new.x / 10))
    assert np.abs(far).mean() < 1
    at = model.predict(hidden, at=[[1.0, 5.0], [9.0, 5.0]]).reshape(-1, 2)
    speed = (at[-1] - at[0]) / (len(at) - 1)
    assert_allclose(speed, [0.055, 0.095], atol=0.012)


@pytest.mark.parametrize(("a", "b"), [(1e-6, 3.0), (100.0, -1e4)])
def test_another_unit_of_values_in_another_century_is_the_same_field(a, b):
    frame = rising()
    model = FieldGaussian(**COLUMNS, period=10.0).fit(frame)
    moved = frame.assign(v=a * frame.v + b, day=frame.day + 1e5)
    other = FieldGaussian(**COLUMNS, period=10.0).fit(moved)
    assert model.members_[0].value_part.normal.course[:, -1].abs().min() > 0
    assert_allclose(other.log_prob(moved) + np.log(a), model.log_prob(frame), atol=5e-3)
