import itertools

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam.training.batching import element_weights, epoch_batches, sequential_batches


def ragged(lengths, **columns):
    stop = np.cumsum(lengths)
    return Groups(start=stop - lengths, stop=stop, **columns)


@pytest.fixture
def groups():
    return ragged(np.random.default_rng(0).integers(0, 40, 501))


def epoch(groups, *, seed=0, **options):
    return list(epoch_batches(groups, generator=np.random.default_rng(seed), **options))


SIZES = [{"batch_size": 16}, {"max_tokens": 300}]
HUGE = [{"max_tokens": 10**6}, {"max_tokens": 2**70}, {"batch_size": 2**70}]


@pytest.mark.parametrize("bucket", [True, False])
@pytest.mark.parametrize("size", [*SIZES, {"max_tokens": 1}, *HUGE], ids=str)
def test_an_epoch_has_every_group_with_elements_once(groups, size, bucket):
    batches = epoch(groups, bucket=bucket, **size)
    seen = np.concatenate(batches)
    assert (groups.lengths == 0).any()
    assert np.array_equal(np.sort(seen), np.flatnonzero(groups.lengths))


def test_batches_of_a_size_have_that_size(groups):
    batches = epoch(groups, batch_size=16)
    assert sorted(len(index) for index in batches)[1:] == [16] * (len(batches) - 1)


@pytest.mark.parametrize("bucket", [True, False])
@pytest.mark.parametrize("max_tokens", [1, 39, 100, 10**6])
def test_a_budget_bounds_the_padded_elements(groups, max_tokens, bucket):
    batches = epoch(groups, max_tokens=max_tokens, bucket=bucket)
    for index in batches:
        assert len(index) * groups.lengths[index].max() <= max_tokens or len(index) == 1
    assert len(batches) == 1 or max_tokens < 10**6


def test_a_budget_counts_the_context_too():
    groups = ragged([3, 3, 3], context_start=[[0], [0], [3]], context_stop=[[0], [3], [6]])
    batches = epoch(groups, max_tokens=9)
    assert sorted(len(index) for index in batches) == [1, 1, 1]
    assert sorted(len(index) for index in epoch(groups, max_tokens=12)) == [1, 2]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_seed_decides_the_batches(groups, size):
    def told(seed):
        return [index.tolist() for index in epoch(groups, seed=seed, **size)]

    assert told(0) == told(0)
    assert told(0) != told(1)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_generator_goes_on(groups, size):
    generator = np.random.default_rng(0)
    first, second = (
        np.concatenate(list(epoch_batches(groups, generator=generator, **size))) for _ in range(2)
    )
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_groups_without_elements_make_no_batch(size):
    assert epoch(ragged([0, 0]), **size) == []


def padded(groups, batches):
    return sum(len(index) * groups.lengths[index].max() for index in batches)


def test_buckets_save_padding(groups):
    bucketed = padded(groups, epoch(groups, batch_size=16))
    assert bucketed < 0.7 * padded(groups, epoch(groups, batch_size=16, bucket=False))
    assert bucketed < 1.3 * groups.n_elements


def test_a_budget_wastes_little_on_a_long_tail():
    lengths = np.ceil(np.random.default_rng(0).lognormal(2.0, 1.0, 6000)).astype(int)
    groups = ragged(lengths)
    by_budget = epoch(groups, max_tokens=600)
    assert padded(groups, by_budget) < 1.15 * groups.n_elements
    assert padded(groups, epoch(groups, batch_size=len(groups) // len(by_budget))) > (
        1.5 * groups.n_elements
    )
    # Full as well: hardly more batches than the padded elements need.
    assert len(by_budget) < 1.1 * padded(groups, by_budget) / 600


def test_a_budget_makes_other_company_every_epoch(groups):
    def company(seed):
        batches = epoch(groups, max_tokens=300, seed=seed)
        return {pair for index in batches for pair in itertools.combinations(sorted(index), 2)}

    first, second = company(0), company(1)
    assert len(first & second) < 0.2 * len(first)


def test_batches_come_in_no_order_of_length(groups):
    # No more than 4 batches: one stretch, sorted as a whole.
    longest = [groups.lengths[index].max() for index in epoch(groups[:64], batch_size=16)]
    assert longest != sorted(longest)


def test_budgeted_batches_come_in_no_order_of_length(groups):
    longest = [groups.lengths[index].max() for index in epoch(groups, max_tokens=300)]
    steps = np.diff(longest)
    assert min((steps > 0).mean(), (steps < 0).mean()) > 0.3


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
        lambda groups: epoch(groups, max_tokens=0),
        lambda groups: list(sequential_batches(groups, max_tokens=0)),
    ],
)
def test_a_batch_must_hold_something(groups, call):
    with pytest.raises(ExfamError, match="must be a number > 0, got 0"):
        call(groups)


@pytest.mark.parametrize("sizes", [{}, {"batch_size": 4, "max_tokens": 9}])
def test_a_batch_has_one_size(groups, sizes):
    with pytest.raises(ExfamError, match="`batch_size` or `max_tokens` must be given, one of the"):
        epoch(groups, **sizes)


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
        (np.array([1, 1, np.nan, 1, 1]), r"1e.30, got nan at element 2"),
        (np.array([1, 1, 1, 1, -1.0]), r"1e.30, got -1.0 at element 4"),
        (np.array([np.inf, 1, 1, 1, 1]), r"numbers from 0 to 1e.30, got inf at element 0"),
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
