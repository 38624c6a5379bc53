import numpy as np
import pytest
import torch
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
    east = np.stack([a[:, 0], a[:, 1] % 360], axis=1)  # a turn apart is the same site
    assert distances(a, east, metric="haversine").diagonal().max() < 1e-4
    assert_array_equal(distances(a, a, metric="haversine").diagonal(), 0)
    for space in (1, 2, 5):
        random = np.random.default_rng(0)
        a, b = random.normal(size=(MANY, space)), random.normal(size=(4, space))
        assert_allclose(distances(a, b, metric="euclidean"), cdist(a, b), rtol=1e-12)


@every_metric
@pytest.mark.parametrize("k", [1, 3, 40, 99])
def test_nearest_are_those_of_the_sorted_distances(metric, k):
    sites, among = globe(25), globe(40, seed=1)
    index, distance = nearest(sites, among, k=k, metric=metric)
    every = distances(sites, among, metric=metric)
    assert_array_equal(index, np.argsort(every, axis=1)[:, :k])
    assert_allclose(distance, np.sort(every, axis=1)[:, :k], rtol=1e-12)
    position = torch.tensor(sites, dtype=torch.float32)[None]
    encoded = DistanceBias(1, metric=metric).distance(position, position)[0]
    assert_allclose(encoded, distances(sites, sites, metric=metric), atol=2.0, rtol=1e-4)


def test_a_site_is_its_own_nearest_and_equals_come_in_order():
    among = np.array([[50.0, 8.0], [60.0, 10.0], [60.0, 10.0]])
    index, distance = nearest(among[1:2], among, k=2, metric="haversine")
    assert index.tolist() == [[1, 2]] and distance.tolist() == [[0.0, 0.0]]
    near = nearest(among[:1], among[:1] + [1e-9, 0.0], k=1, metric="haversine")[1].item()
    assert near == pytest.approx(np.deg2rad(1e-9) * EARTH_RADIUS_KM, rel=1e-4)  # keeps its digits


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.0, np.inf], r"`coordinates` must be finite, got inf in column 1 of row 1\. Give its"),
        ([91.0, 0.0], r"must be a latitude from -90 to 90 degrees, got 91\.0 in column 0 of row 1"),
        ([0.0, 361.0], r"must be a longitude from -180 to 360 degrees, got 361\.0 in column 1"),
        ([151.2, -33.9], "Give degrees, latitude first, or choose metric='eucl"),
    ],
)
def test_coordinates_off_the_globe_are_named(row, message):
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
