"""Data larger than memory are read in windows of few blocks."""

import sys
from pathlib import Path

import numpy as np
import pytest

from exfam.groups import Groups
from exfam.training import batching
from exfam.training.batching import epoch_batches, read_at_random, reading_windows

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
