import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

from exfam.checks import DataError, ExfamError
from exfam.encodings import DistanceBias
from exfam.geometry import EARTH_RADIUS_KM, check_coordinates, distances, nearest

MANY = 1500  # more than are measured at once
every_metric = pytest.mark.parametrize("metric", ["euclidean", "haversine"])


def globe(n, seed=0):
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(-90, 90, n), random.uniform(-180, 360, n)], axis=1)


def test_distances_are_those_of_scikit_learn_and_scipy():
    a, b = globe(MANY), globe(7, seed=1)
    want = haversine_distances(np.deg2rad(a), np.deg2rad(b)) * EARTH_RADIUS_KM
    assert_allclose(distances(a, b, metric="haversine"), want, rtol=1e-9)
    for space in (1, 2, 5):
        random = np.random.default_rng(0)
        a, b = random.normal(size=(MANY, space)), random.normal(size=(4, space))
        assert_allclose(distances(a, b, metric="euclidean"), cdist(a, b), rtol=1e-12)


@every_metric
def test_encodings_measure_alike(metric):
    places = globe(20)
    position = torch.tensor(places, dtype=torch.float32)[None]
    ours = DistanceBias(1, metric=metric).distance(position, position)[0]
    assert_allclose(ours, distances(places, places, metric=metric), atol=2.0, rtol=1e-4)


latitude = st.floats(-90, 90, allow_subnormal=False)
longitude = st.floats(-180, 360, allow_subnormal=False)
place = st.tuples(latitude, longitude)


@given(place, place, place)
def test_the_globe_is_a_metric_space(a, b, c):
    places = np.array([a, b, c])
    between = distances(places, places, metric="haversine")
    assert_array_equal(between, between.T)
    assert (between >= 0).all() and (np.diag(between) == 0).all()
    assert between.max() <= np.pi * EARTH_RADIUS_KM * (1 + 1e-12)
    assert between[0, 2] <= between[0, 1] + between[1, 2] + 1e-3
    east = np.stack([places[:, 0], places[:, 1] % 360], axis=1)  # a turn apart is the same place
    assert distances(places, east, metric="haversine").diagonal().max() < 1e-4


@every_metric
@pytest.mark.parametrize("k", [1, 3, 40, 99])
def test_nearest_are_those_of_the_sorted_distances(metric, k):
    places, among = globe(25), globe(40, seed=1)
    index, distance = nearest(places, among, k=k, metric=metric)
    every = distances(places, among, metric=metric)
    assert_array_equal(index, np.argsort(every, axis=1)[:, :k])
    assert_allclose(distance, np.sort(every, axis=1)[:, :k], rtol=1e-12)
    assert len(np.unique(index[:, 0])) > 5


def test_a_place_is_its_own_nearest_and_equals_come_in_order():
    among = np.array([[50.0, 8.0], [60.0, 10.0], [60.0, 10.0]])
    index, distance = nearest(among[1:2], among, k=2, metric="haversine")
    assert index.tolist() == [[1, 2]] and distance.tolist() == [[0.0, 0.0]]
    near = nearest(among[:1], among[:1] + [1e-9, 0.0], k=1, metric="haversine")[1].item()
    assert near == pytest.approx(np.deg2rad(1e-9) * EARTH_RADIUS_KM, rel=1e-4)  # keeps its digits


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 0.0], r"`coordinates` must be finite, got nan in column 0 of row 1\. Give its"),
        ([0.0, np.inf], r"must be finite, got inf in column 1 of row 1"),
        ([91.0, 0.0], r"must be a latitude from -90 to 90 degrees, got 91\.0 in column 0 of row 1"),
        ([0.0, 361.0], r"must be a longitude from -180 to 360 degrees, got 361\.0 in column 1"),
        ([151.2, -33.9], "Give degrees, latitude first, or choose metric='eucl"),
    ],
)
def test_what_is_no_place_is_named(row, message):
    with pytest.raises(DataError, match=message):
        check_coordinates(np.array([[1.0, 160.0], row]), metric="haversine")
    check_coordinates(np.array([[90, -180], [-90, 360]]), metric="haversine")
    check_coordinates(np.array([[1e6, 400.0, -3.0]]), metric="euclidean")


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DataError, match="Latitude comes first: these look like longitude and"):
        check_coordinates(np.array([[151.2, -33.9], [24.9, 60.2]]), metric="haversine")
    with pytest.raises(ExfamError, match="`metric` must be one of 'euclidean', 'haversine'"):
        distances(globe(1), globe(1), metric="manhattan")
    with pytest.raises(DataError, match=r"`b` must have two columns, latitude and longitude, .*3"):
        distances(globe(1), np.zeros((1, 3)), metric="haversine")
    with pytest.raises(DataError, match="`b` must have 1 columns, as the places .* got 3"):
        distances(np.zeros((2, 1)), np.zeros((1, 3)), metric="euclidean")
    with pytest.raises(DataError, match="`among` must hold at least one place, got none"):
        nearest(globe(1), globe(0), k=1, metric="haversine")
    with pytest.raises(ExfamError, match="`k` must be a number > 0, got 0"):
        nearest(globe(1), globe(1), k=0, metric="haversine")
