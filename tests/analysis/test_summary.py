"""What groups hold, means over groups, and where items lie."""

import numpy as np
import pandas as pd
import pytest
from exfam.report.plane import principal_plane
from exfam.report.summary import item_counts, summarize
from scipy import stats
from sklearn.decomposition import PCA

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.scores.metrics import mean_over_groups


def drawn(seed=0, n_groups=60):
    random = np.random.default_rng(seed)
    length = random.integers(0, 6, size=n_groups)
    stop, n = np.cumsum(length), int(length.sum())
    return Groups(
        start=stop - length,
        stop=stop,
        item=random.integers(-1, 9, size=n),
        observed=random.random(n) < 0.7,
        role=(random.random(n) < 0.2).astype(np.int8),
        vocabulary={"item": np.arange(12)},
    )


def as_frame(groups):
    rows = [
        (g, groups.item[e], groups.observed[e], groups.role[e])
        for g in range(len(groups))
        for e in groups[g].elements()
    ]
    return pd.DataFrame(rows, columns=["group", "item", "observed", "role"])


@pytest.mark.parametrize("chosen", [slice(None), slice(10, 40), [5, 3, 50], slice(0)])
def test_a_summary_is_what_a_frame_says(chosen):
    groups = drawn()[chosen]
    frame, summary = as_frame(groups), summarize(groups)
    known = frame[frame.item >= 0]
    assert summary.n_groups == len(groups) and summary.n_elements == len(frame)
    assert summary.n_targets == (frame.role == 0).sum()
    assert summary.items_present == known.item.nunique() and summary.n_items == 12
    twice = known.duplicated(["group", "item"])
    for share, part, whole in (
        (summary.unknown, (frame.item < 0).sum(), len(frame)),
        (summary.unobserved, len(frame) - frame.observed.sum(), len(frame)),
        (summary.repeating, known[twice].group.nunique(), len(groups)),
    ):
        assert share == pytest.approx(part / max(whole, 1))
    assert summary.lengths.sum() == len(frame)
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
    plane = principal_plane(vectors)
    np.testing.assert_allclose(np.abs(plane.points), np.abs(witness.transform(unit)), atol=1e-10)
    assert plane.share == pytest.approx(witness.explained_variance_ratio_.sum())
    np.testing.assert_allclose(principal_plane(3 * vectors).points, plane.points, atol=1e-10)


def test_vectors_in_a_line_or_all_alike_have_a_plane():
    line = np.ones((4, 1)) * np.array([[1.0], [-1.0], [2.0], [3.0]])
    assert principal_plane(line).points[:, 1].tolist() == [0.0] * 4
    alike = principal_plane(np.ones((5, 3)))
    assert alike.points.shape == (5, 2) and np.abs(alike.points).max() < 1e-9
    assert np.isfinite(principal_plane(np.zeros((3, 2))).points).all()
    with pytest.raises(DataError, match="`vectors` must be 3 or more to lie in a plane, got 2"):
        principal_plane(np.ones((2, 3)))
