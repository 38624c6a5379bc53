import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

from exfam.checks import DataError, ExfamError
from exfam.encodings import DistanceBias
from exfam.geometry import EARTH_RADIUS_KM, check_coordinates, distances, nearest

MANY = 1500  # more than are measured at once


def globe(n, seed=0):
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(-90, 90, n), random.uniform(-180, 360, n)], axis=1)


def test_great_circles_are_those_of_scikit_learn():
    a, b = globe(MANY), globe(7, seed=1)
    want = haversine_distances(np.deg2rad(a), np.deg2rad(b)) * EARTH_RADIUS_KM
    np.testing.assert_allclose(distances(a, b, metric="haversine"), want, rtol=1e-9)
    assert want.std() > 1000


@pytest.mark.parametrize("space", [1, 2, 5])
def test_plain_distances_are_those_of_scipy(space):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(MANY, space)), random.normal(size=(4, space))
    np.testing.assert_allclose(distances(a, b, metric="euclidean"), cdist(a, b), rtol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_encodings_measure_alike(metric):
    places = globe(20)
    position = torch.tensor(places, dtype=torch.float32)[None]
    found = DistanceBias(1, metric=metric).distance(position, position)[0]
    np.testing.assert_allclose(found, distances(places, places, metric=metric), atol=2.0, rtol=1e-4)


latitude = st.floats(-90, 90, allow_subnormal=False)
longitude = st.floats(-180, 360, allow_subnormal=False)
place = st.tuples(latitude, longitude)


@given(place, place, place)
def test_the_globe_is_a_metric_space(a, b, c):
    places = np.array([a, b, c])
    between = distances(places, places, metric="haversine")
    np.testing.assert_array_equal(between, between.T)
    assert (between >= 0).all() and (np.diag(between) == 0).all()
    assert between.max() <= np.pi * EARTH_RADIUS_KM * (1 + 1e-12)
    assert between[0, 2] <= between[0, 1] + between[1, 2] + 1e-3


@given(st.lists(place, min_size=1, max_size=5))
def test_longitudes_a_turn_apart_are_one_place(places):
    places = np.array(places)
    east = np.stack([places[:, 0], places[:, 1] % 360], axis=1)
    assert distances(places, east, metric="haversine").diagonal().max() < 1e-4


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_nearest_are_those_of_the_sorted_distances(metric, k):
    places, among = globe(25), globe(40, seed=1)
    index, distance = nearest(places, among, k=k, metric=metric)
    every = distances(places, among, metric=metric)
    np.testing.assert_array_equal(index, np.argsort(every, axis=1)[:, :k])
    np.testing.assert_allclose(distance, np.sort(every, axis=1)[:, :k], rtol=1e-12)
    assert len(np.unique(index[:, 0])) > 5


def test_nearest_are_never_more_than_there_are():
    index, distance = nearest(globe(3), globe(2, seed=1), k=9, metric="haversine")
    assert index.shape == distance.shape == (3, 2)
    assert sorted(index[0]) == [0, 1]


def test_a_place_is_its_own_nearest_and_equals_come_in_order():
    among = np.array([[50.0, 8.0], [60.0, 10.0], [60.0, 10.0]])
    index, distance = nearest(among[1:2], among, k=2, metric="haversine")
    assert index.tolist() == [[1, 2]]
    assert distance.tolist() == [[0.0, 0.0]]


def test_near_places_keep_their_digits():
    here = np.array([[60.0, 10.0]])
    there = np.array([[60.0 + 1e-9, 10.0]])
    distance = nearest(here, there, k=1, metric="haversine")[1].item()
    assert distance == pytest.approx(np.deg2rad(1e-9) * EARTH_RADIUS_KM, rel=1e-4)


def test_the_edges_of_the_globe_are_on_it():
    check_coordinates(np.array([[90, -180], [-90, 360]]), metric="haversine")
    check_coordinates(np.array([[1e6, 400.0, -3.0]]), metric="euclidean")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 0.0], r"`coordinates` must be finite, got nan in column 0 of row 1\. Give its"),
        ([0.0, np.inf], r"must be finite, got inf in column 1 of row 1"),
        ([91.0, 0.0], r"must be a latitude from -90 to 90 degrees, got 91\.0 in column 0 of row 1"),
        ([0.0, 361.0], r"must be a longitude from -180 to 360 degrees, got 361\.0 in column 1"),
    ],
)
def test_what_is_no_place_is_named(row, message):
    with pytest.raises(DataError, match=message):
        check_coordinates(np.array([[1.0, 2.0], row]), metric="haversine")


def test_swapped_coordinates_differ_from_wrong_ones():
    with pytest.raises(DataError, match="Latitude comes first: these look like longitude and"):
        check_coordinates(np.array([[151.2, -33.9], [24.9, 60.2]]), metric="haversine")
    with pytest.raises(DataError, match="Give degrees, latitude first, or choose metric='eucl"):
        check_coordinates(np.array([[151.2, -33.9], [24.9, 160.2]]), metric="haversine")


def test_what_cannot_be_measured_is_refused():
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
