import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.data.batching import element_weights, epoch_batches, sequential_batches
from exfam.groups import Groups


def ragged(lengths, **columns):
    stop = np.cumsum(lengths)
    return Groups(start=stop - lengths, stop=stop, **columns)


@pytest.fixture
def groups():
    return ragged(np.random.default_rng(0).integers(0, 40, 501))


def epoch(groups, *, seed=0, **options):
    return list(epoch_batches(groups, generator=np.random.default_rng(seed), **options))


@pytest.mark.parametrize("bucket", [True, False])
def test_an_epoch_has_every_group_with_elements_once(groups, bucket):
    batches = epoch(groups, batch_size=16, bucket=bucket)
    seen = np.concatenate(batches)
    assert (groups.lengths == 0).any()
    assert np.array_equal(np.sort(seen), np.flatnonzero(groups.lengths))
    assert sorted(len(index) for index in batches)[1:] == [16] * (len(batches) - 1)


def test_a_seed_decides_the_batches(groups):
    def flat(seed):
        return np.concatenate(epoch(groups, batch_size=16, seed=seed)).tolist()

    assert flat(0) == flat(0)
    assert flat(0) != flat(1)


def test_a_generator_goes_on(groups):
    generator = np.random.default_rng(0)
    first, second = (
        np.concatenate(list(epoch_batches(groups, batch_size=16, generator=generator)))
        for _ in range(2)
    )
    assert not np.array_equal(first, second)


def padded(groups, batches):
    return sum(len(index) * groups.lengths[index].max() for index in batches)


def test_buckets_save_padding(groups):
    bucketed = padded(groups, epoch(groups, batch_size=16))
    assert bucketed < 0.7 * padded(groups, epoch(groups, batch_size=16, bucket=False))
    assert bucketed < 1.3 * groups.n_elements


def test_batches_come_in_no_order_of_length(groups):
    # No more than 4 batches: one stretch, sorted as a whole.
    longest = [groups.lengths[index].max() for index in epoch(groups[:64], batch_size=16)]
    assert longest != sorted(longest)


def test_groups_of_one_length_meet_others_too(groups):
    batches = epoch(groups, batch_size=4)
    where = np.array([(groups.lengths[index] == 20).sum() for index in batches])
    # Sorted as a whole they would fill their batches, but for the first and the last.
    assert (where > 0).sum() > where.sum() / 4 + 2


@pytest.mark.parametrize("max_tokens", [1, 39, 100, 10**6])
def test_sequential_batches_bound_the_padded_elements(groups, max_tokens):
    batches = list(sequential_batches(groups, max_tokens=max_tokens))
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(groups)))
    for index in batches:
        assert len(index) * groups.lengths[index].max() <= max_tokens or len(index) == 1
    assert len(batches) == 1 or max_tokens < 10**6


def test_sequential_batches_are_as_large_as_they_may_be(groups):
    lengths = np.maximum(groups.lengths, 1)
    batches = list(sequential_batches(groups, max_tokens=100))
    for index, following in zip(batches, batches[1:], strict=False):
        assert (len(index) + 1) * lengths[following[0]] > 100


def test_sequential_batches_of_a_view_with_context():
    groups = ragged([3, 3, 3], context_start=[[0], [0], [3]], context_stop=[[0], [3], [6]])
    batches = [index.tolist() for index in sequential_batches(groups, max_tokens=6)]
    assert batches == [[0], [1], [2]]


@pytest.mark.parametrize(
    "call",
    [
        lambda groups: epoch(groups, batch_size=0),
        lambda groups: list(sequential_batches(groups, max_tokens=0)),
    ],
)
def test_a_batch_must_hold_something(groups, call):
    with pytest.raises(ExfamError, match="must be a number > 0, got 0"):
        call(groups)


def test_weights_per_element_follow_the_view():
    groups = ragged([2, 3], item=[0, 1, 2, 3, 4])
    weight = element_weights(groups[[1, 0]], np.array([1.0, 2, 3, 4, 5]))
    assert weight.tolist() == [4, 5, 1, 2, 3]
    batch = groups.pad([0], weight=weight)
    assert batch.weight.tolist() == [[4, 5]]


def test_weights_per_row_follow_the_frame():
    frame = {"user": ["b", "a", "b"], "movie": [5, 6, 7]}
    groups = Groups.from_frame(frame, group="user", item="movie")
    weight = element_weights(groups, np.array([1.0, 2.0, 3.0]), per="row")
    assert groups.pad([0, 1], weight=weight).weight.tolist() == [[1, 3], [2, 0]]


def test_elements_outside_the_view_weigh_nothing():
    groups = ragged([2, 3], item=[0, 1, 2, 3, 4])[1:]
    assert element_weights(groups, np.ones(3)).tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "weight, match",
    [
        (np.ones(4), "`sample_weight` must have one number an element, 5, got 4"),
        (np.array([1, 1, np.nan, 1, 1]), r">= 0, got nan at element 2"),
        (np.array([1, 1, 1, 1, -1.0]), r">= 0, got -1.0 at element 4"),
        (np.array([np.inf, 1, 1, 1, 1]), r"finite and >= 0, got inf at element 0"),
    ],
)
def test_wrong_weights(weight, match):
    with pytest.raises(ExfamError, match=match):
        element_weights(ragged([2, 3]), weight)


def test_weights_per_row_need_rows():
    with pytest.raises(ExfamError, match="`groups` must have a `source_row`"):
        element_weights(ragged([2]), np.ones(2), per="row")
    with pytest.raises(ExfamError, match="got 2 numbers and an element of row 2"):
        element_weights(ragged([1], source_row=[2]), np.ones(2), per="row")
    with pytest.raises(ExfamError, match="`per` must be one of"):
        element_weights(ragged([2]), np.ones(2), per="group")
