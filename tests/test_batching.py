"""Batches of groups: sizes, weights, and windows of large files."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.training import batching
from exfam.training.batching import element_weights, epoch_batches, read_at_random, reading_windows


def ragged(lengths, **columns):
    stop = np.cumsum(lengths)
    return Groups(start=stop - lengths, stop=stop, **columns)


@pytest.fixture
def groups():
    return ragged(np.random.default_rng(0).integers(0, 40, 501))


def epoch(groups, *, seed=0, **options):
    return list(epoch_batches(groups, generator=np.random.default_rng(seed), **options))


def padded(groups, batches):
    return sum(len(index) * groups.lengths[index].max() for index in batches)


BUDGETS = [1, 39, 300, 10**6]
SIZES = [*({"max_tokens": n} for n in (*BUDGETS, 2**70)), *({"batch_size": n} for n in (16, 2**70))]


@pytest.mark.parametrize("bucket", [True, False])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_epoch_has_every_group_with_elements_once_in_batches_of_the_size(groups, size, bucket):
    batches = epoch(groups, bucket=bucket, **size)
    assert (groups.lengths == 0).any()
    assert np.array_equal(np.sort(np.concatenate(batches)), np.flatnonzero(groups.lengths))
    if "batch_size" in size:
        whole = min(size["batch_size"], np.count_nonzero(groups.lengths))
        assert sorted(map(len, batches))[1:] == [whole] * (len(batches) - 1)
    for index in batches if "max_tokens" in size else ():
        assert padded(groups, [index]) <= size["max_tokens"] or len(index) == 1
    assert epoch(ragged([0, 0]), **size) == []


@pytest.mark.parametrize("max_tokens", BUDGETS)
def test_sequential_batches_are_as_large_as_they_may_be(groups, max_tokens):
    batches = list(sequential_batches(groups, max_tokens=max_tokens))
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(groups)))
    lengths = np.maximum(groups.lengths, 1)
    for index in batches:
        assert padded(groups, [index]) <= max_tokens or len(index) == 1
    for index, following in itertools.pairwise(batches):
        assert (len(index) + 1) * lengths[following[0]] > max_tokens


def test_a_budget_counts_the_context_too():
    groups = ragged([3, 3, 3], context_start=[[0], [0], [3]], context_stop=[[0], [3], [6]])
    assert sorted(len(index) for index in epoch(groups, max_tokens=12)) == [1, 2]
    assert [len(index) for index in sequential_batches(groups, max_tokens=6)] == [1, 1, 1]


def test_buckets_and_budgets_save_padding(groups):
    bucketed = padded(groups, epoch(groups, batch_size=16))
    assert bucketed < 0.7 * padded(groups, epoch(groups, batch_size=16, bucket=False))
    assert bucketed < 1.3 * groups.n_elements
    # Lengths with a long tail.
    groups = ragged(np.ceil(np.random.default_rng(0).lognormal(2.0, 1.0, 6000)).astype(int))
    batches = epoch(groups, max_tokens=600)
    assert padded(groups, batches) < 1.15 * groups.n_elements
    # Full as well: hardly more batches than the padded elements need.
    assert len(batches) < 1.1 * padded(groups, batches) / 600


def test_groups_meet_others_every_epoch_in_batches_of_no_order(groups):
    def company(seed):
        batches = epoch(groups, max_tokens=300, seed=seed)
        return {pair for index in batches for pair in itertools.combinations(sorted(index), 2)}

    first, second = company(0), company(1)
    assert len(first & second) < 0.2 * len(first)
    # No more than 4 batches: one stretch, sorted as a whole.
    heights = [groups.lengths[index].max() for index in epoch(groups[:64], batch_size=16)]
    assert heights != sorted(heights)
    # Groups of one length meet others too: sorted as a whole they would fill their batches.
    where = np.array([(groups.lengths[index] == 20).sum() for index in epoch(groups, batch_size=4)])
    assert (where > 0).sum() > where.sum() / 4 + 2


def test_a_batch_has_one_size_above_0(groups):
    for sizes in ({}, {"batch_size": 4, "max_tokens": 9}):
        with pytest.raises(ExfamError, match="`batch_size` or `max_tokens` must be given, one of"):
            epoch(groups, **sizes)
    for size in ("batch_size", "max_tokens"):
        with pytest.raises(ExfamError, match=f"`{size}` must be a number > 0, got 0"):
            epoch(groups, **{size: 0})


def test_weights_follow_the_view():
    groups = ragged([2, 3], item=[0, 1, 2, 3, 4])
    weight = element_weights(groups[[1, 0]], np.array([1.0, 2, 3, 4, 5]))
    assert weight.tolist() == [4, 5, 1, 2, 3]
    # Elements outside the view weigh nothing.
    assert element_weights(groups[1:], np.ones(3)).tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("groups", "weight", "match"),
    [
        (ragged([2, 3]), [1, 1, 1, 1], "must have one number an element, 5, got 4"),
        (ragged([2]), [1, np.nan], r"numbers from 0 to 1e.30, got nan at element 1"),
        (ragged([2]), [-1, np.inf], r"numbers from 0 to 1e.30, got -1.0 at element 0"),
    ],
)
def test_wrong_weights(groups, weight, match):
    with pytest.raises(ExfamError, match=match):
        element_weights(groups, np.array(weight, dtype=float))


ELEMENTS_PER_BLOCK, BLOCKS_PER_WINDOW = 64, 4


@pytest.fixture
def large(monkeypatch):
    """Any data count as larger than memory, with small blocks and windows."""
    monkeypatch.setattr(batching, "LARGE", 0)
    monkeypatch.setattr(batching, "ELEMENTS_PER_BLOCK", ELEMENTS_PER_BLOCK)
    monkeypatch.setattr(batching, "BLOCKS_PER_WINDOW", BLOCKS_PER_WINDOW)


def many_groups(item=None):
    lengths = np.random.default_rng(0).integers(0, 9, 900)
    stop = np.cumsum(lengths)
    item = np.arange(stop[-1]) % 7 if item is None else item
    return Groups(start=stop - lengths, stop=stop, item=item)


def windows_of(groups, seed=0):
    return list(reading_windows(groups, np.random.default_rng(seed)))


def n_blocks(groups, index):
    return len(set((groups.start[index] // ELEMENTS_PER_BLOCK).tolist()))


def test_small_data_are_one_window():
    (window,) = windows_of(many_groups())
    assert window.tolist() == np.flatnonzero(many_groups().lengths).tolist()


@pytest.mark.parametrize("shuffled", [False, True])
def test_windows_are_few_blocks_each_and_all_groups_together(large, shuffled):
    groups = many_groups()
    if shuffled:
        groups = groups[np.random.default_rng(1).permutation(len(groups))]
    parts = windows_of(groups)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.flatnonzero(groups.lengths))
    assert len(parts) > 5
    for part in parts:
        # A block of groups may reach over the border of two blocks of elements.
        assert n_blocks(groups, part) <= 2 * BLOCKS_PER_WINDOW
        assert groups.lengths[part].sum() <= BLOCKS_PER_WINDOW * (ELEMENTS_PER_BLOCK + 9)
    sets, same, other = (
        {frozenset(part.tolist()) for part in windows_of(groups, seed)} for seed in (0, 0, 1)
    )
    assert sets == same and not sets & other


@pytest.mark.parametrize("size", [{"batch_size": 8}, {"max_tokens": 40}], ids=str)
def test_batches_stay_within_a_window(large, size):
    groups = many_groups()
    batches = list(epoch_batches(groups, generator=np.random.default_rng(0), **size))
    assert np.array_equal(np.sort(np.concatenate(batches)), np.flatnonzero(groups.lengths))
    # Any few batches in a row lie in two windows at most, and not in file order.
    for first in range(0, len(batches) - 4, 4):
        near = np.concatenate(batches[first : first + 4])
        assert n_blocks(groups, near) <= 4 * BLOCKS_PER_WINDOW
    assert (np.diff(np.concatenate(batches)) < 0).mean() > 0.3


def advice(path):
    """The kernel's flags of the mapping of a file."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith(str(path)))
    return next(line for line in lines[at:] if line.startswith("VmFlags")).split()


@pytest.mark.skipif(sys.platform != "linux", reason="the flags are read from Linux")
@pytest.mark.parametrize("is_large", [True, False])
def test_large_files_are_read_without_reading_ahead(tmp_path, monkeypatch, is_large):
    monkeypatch.setattr(batching, "LARGE", 0 if is_large else 1 << 32)
    path = tmp_path / "item.npy"
    np.save(path, many_groups().item)
    groups = many_groups(np.load(path, mmap_mode="r"))[:5]
    with read_at_random(groups):
        assert ("rr" in advice(path)) == is_large
    assert "rr" not in advice(path)
