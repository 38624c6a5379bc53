"""What groups hold, means over groups, and where items lie."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.decomposition import PCA

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.report.material import item_counts
from exfam.report.sections.data import _repeating
from exfam.scores.metrics import mean_over_groups
from exfam.vectors.spectra import main_plane


@pytest.mark.parametrize("chosen", [slice(None), slice(10, 40), [5, 3, 50]])
def test_counts_and_repeats_are_what_a_frame_says(chosen):
    random = np.random.default_rng(0)
    length = random.integers(0, 6, size=60)
    item, stop = random.integers(-1, 9, size=length.sum()), np.cumsum(length)
    vocabulary = {"item": np.arange(12)}
    groups = Groups(start=stop - length, stop=stop, item=item, vocabulary=vocabulary)[chosen]
    rows = [(g, groups.item[e]) for g in range(len(groups)) for e in groups[g].elements()]
    frame = pd.DataFrame(rows, columns=["group", "item"])
    known = frame[frame.item >= 0]
    assert _repeating(groups) == known[known.duplicated()].group.nunique() / len(groups)
    expected = known.item.value_counts()
    assert {i: n for i, n in enumerate(item_counts(groups)) if n} == expected.to_dict()


def test_errors_of_groups_of_one_size_are_those_of_their_means():
    number, group = np.random.default_rng(0).normal(size=(30, 4)), np.repeat(np.arange(30), 4)
    estimate = mean_over_groups(number.ravel(), group)
    assert estimate.mean == pytest.approx(number.mean())
    assert estimate.error == pytest.approx(stats.sem(number.mean(axis=1)))
    assert (estimate.n, estimate.n_groups) == (120, 30)
    # Elements that repeat in their group say nothing new.
    twice = mean_over_groups(np.repeat(number, 2), np.repeat(group, 2))
    assert (twice.mean, twice.error) == pytest.approx((estimate.mean, estimate.error))


def test_one_group_and_an_infinite_mean_have_no_error():
    estimate = mean_over_groups(np.array([1.0, 2.0]), np.array([7, 7]))
    assert estimate.mean == 1.5 and np.isnan(estimate.error)
    estimate = mean_over_groups(np.array([1.0, -np.inf]), np.array([7, 8]))
    assert estimate.mean == -np.inf and np.isnan(estimate.error)
    with pytest.raises(DataError, match="`number` must hold at least one element, got none"):
        mean_over_groups(np.zeros(0), np.zeros(0, dtype=int))


def test_the_plane_is_that_of_principal_components():
    vectors = np.random.default_rng(0).normal(size=(20, 6))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    witness = PCA(2).fit(unit)
    points, share = main_plane(3 * vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(witness.transform(unit)), atol=1e-6)
    assert share == pytest.approx(witness.explained_variance_ratio_.sum(), rel=1e-6)
    # Vectors in a line, or all alike, have a plane too.
    line = np.ones((4, 1)) * np.array([[1.0], [-1.0], [2.0], [3.0]])
    assert main_plane(line)[0][:, 1].tolist() == [0.0] * 4
    for alike in (np.ones((5, 3)), np.zeros((3, 2))):
        assert np.abs(main_plane(alike)[0]).max() < 1e-9
