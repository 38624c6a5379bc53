"""Counts of pairs against counting them one by one."""

import errno
import json
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from exfam.checks import CheckpointError, DataError, ExfamError
from exfam.kernels import counting
from exfam.kernels.cooccurrence import WINDOW_WEIGHTS, CountingLimits, count_cooccurrences

WINDOW = 5
EXACT = {
    "flat": lambda distance: Fraction(1),
    "harmonic": lambda distance: Fraction(1, distance),
    "dynamic": lambda distance: Fraction(WINDOW - distance + 1, WINDOW),
}
N_WORDS = 150
# Room for 45 keys and 104 pairs of runs, and a triangle of 14 words: the rest goes to files.
SMALL = CountingLimits(max_bytes=5_000, shard_tokens=701)


@pytest.fixture(scope="module")
def tokens():
    drawn = np.random.default_rng(0).zipf(1.3, 2_500) - 1
    codes = np.where(drawn < N_WORDS, drawn, -1).astype(np.int32)
    assert (codes == -1).any() and len(np.unique(codes)) > 100
    return codes


def counted_one_by_one(tokens, n_words, weight):
    counts = Counter()
    for place, center in enumerate(tokens.tolist()):
        for side in (-1, 1):
            for distance in range(1, WINDOW + 1):
                at = place + side * distance
                if not 0 <= at < len(tokens) or min(tokens[at], center) < 0:
                    break
                if max(tokens[at], center) < n_words:
                    counts[center, int(tokens[at])] += weight(distance)
    dense = np.zeros((n_words, n_words))
    for pair, total in counts.items():
        dense[pair] = float(total)
    return dense


def assert_same(one, other):
    assert one.dtype == other.dtype
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize("limits", [None, SMALL], ids=["in memory", "in files"])
@pytest.mark.parametrize("weights", list(EXACT))
def test_counts_are_the_exact_sums_of_all_pairs(tokens, weights, limits):
    assert set(EXACT) == set(WINDOW_WEIGHTS)
    counts = count_cooccurrences(tokens, N_WORDS, window=WINDOW, weights=weights, limits=limits)
    np.testing.assert_array_equal(
        counts.toarray(), counted_one_by_one(tokens, N_WORDS, EXACT[weights])
    )
    counts.check_format(full_check=True)
    assert counts.has_canonical_format and (counts.data > 0).all()
    assert counts.dtype == (np.int64 if weights == "flat" else np.float64)


@pytest.mark.parametrize("limits", [None, SMALL], ids=["in memory", "in files"])
def test_further_codes_keep_their_places(tokens, limits):
    counts = count_cooccurrences(tokens, 40, window=WINDOW, limits=limits)
    np.testing.assert_array_equal(counts.toarray(), counted_one_by_one(tokens, 40, EXACT["flat"]))
    dropped = tokens[tokens < 40]
    assert count_cooccurrences(dropped, 40, window=WINDOW).sum() > counts.sum()


def test_no_pair_crosses_the_end_of_a_sentence():
    one, other = np.array([0, 1, 2], np.int32), np.array([2, 2, 0], np.int32)
    ends = np.array([-1], np.int32)
    apart = sum(count_cooccurrences(each, 3, window=4).toarray() for each in (one, other))
    together = count_cooccurrences(np.concatenate([one, ends, other]), 3, window=4)
    np.testing.assert_array_equal(together.toarray(), apart)
    assert count_cooccurrences(np.concatenate([one, other]), 3, window=4).sum() > apart.sum()


def test_reading_backwards_gives_the_same_counts(tokens):
    forward = count_cooccurrences(tokens, N_WORDS, window=3, weights="harmonic")
    assert_same(forward, count_cooccurrences(tokens[::-1], N_WORDS, window=3, weights="harmonic"))


@pytest.mark.parametrize("empty", [[], [-1, -1], [1], [7, 8, 9]])
def test_without_pairs_there_are_no_entries(empty):
    counts = count_cooccurrences(np.array(empty, np.int32), 3, window=2)
    assert counts.shape == (3, 3) and counts.nnz == 0


def test_work_goes_to_files_where_memory_is_short(tokens, tmp_path):
    count_cooccurrences(tokens, N_WORDS, window=WINDOW, limits=SMALL, folder=tmp_path)
    assert len(list(tmp_path.glob("run-*.npy"))) > 4
    mapped = tmp_path / "tokens.npy"
    np.save(mapped, tokens)
    assert_same(
        count_cooccurrences(np.load(mapped, mmap_mode="r"), N_WORDS, window=WINDOW),
        count_cooccurrences(tokens, N_WORDS, window=WINDOW, limits=SMALL),
    )


class Stop(Exception):
    """Stands for a kill."""


def stopping_after(n_shards):
    calls = []

    def progress(done, total):
        calls.append(done)
        if len(calls) == n_shards:
            raise Stop(f"after {done} of {total}")

    return progress


@pytest.mark.parametrize("weights", ["flat", "harmonic"])
def test_what_was_killed_goes_on_to_the_same_counts(tokens, tmp_path, weights):
    def counted(folder, progress=None):
        return count_cooccurrences(
            tokens,
            N_WORDS,
            window=WINDOW,
            weights=weights,
            limits=SMALL,
            folder=folder,
            progress=progress,
        )

    for _ in range(2):
        with pytest.raises(Stop, match="after"):
            counted(tmp_path, stopping_after(1))
    seen = []
    counts = counted(tmp_path, lambda done, total: seen.append((done, total)))
    # 701 tokens a shard: two were counted before.
    assert seen == [(2103, 2500), (2500, 2500)]
    assert_same(counts, counted(None))
    # All is counted: nothing is left to do, and the result is the same.
    assert_same(counts, counted(tmp_path, stopping_after(1)))


def test_a_save_that_is_killed_leaves_the_one_before(tokens, tmp_path, monkeypatch):
    def killed(*arguments):
        raise Stop("while writing")

    settings = {"window": WINDOW, "limits": SMALL, "folder": tmp_path}
    with pytest.raises(Stop, match="after"):
        count_cooccurrences(tokens, N_WORDS, progress=stopping_after(1), **settings)
    with monkeypatch.context() as patch:
        patch.setattr("exfam.kernels.counting.write_atomically", killed)
        with pytest.raises(Stop, match="while writing"):
            count_cooccurrences(tokens, N_WORDS, **settings)
    assert len(list(tmp_path.glob("triangle-*.npy"))) == 2
    counts = count_cooccurrences(tokens, N_WORDS, **settings)
    assert len(list(tmp_path.glob("triangle-*.npy"))) == 1
    assert_same(counts, count_cooccurrences(tokens, N_WORDS, window=WINDOW))


def test_a_full_disk_is_named_with_the_remedy(tokens, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(counting, "write_atomically", full)
    with pytest.raises(CheckpointError, match="`folder` must be .*: No space left on device. Free"):
        count_cooccurrences(tokens, N_WORDS, window=2, folder=tmp_path)
    with pytest.raises(ExfamError, match="`folder` must be a path, got an empty one"):
        count_cooccurrences(tokens, N_WORDS, window=2, folder="")


def test_a_folder_of_another_counting_is_refused(tokens, tmp_path):
    count_cooccurrences(tokens, N_WORDS, window=2, folder=tmp_path)
    with pytest.raises(CheckpointError, match="one of window = 2 instead of 3"):
        count_cooccurrences(tokens, N_WORDS, window=3, folder=tmp_path)
    changed = tokens.copy()
    changed[-1] = 0 if changed[-1] else 1
    with pytest.raises(CheckpointError, match="one of crc32 = "):
        count_cooccurrences(changed, N_WORDS, window=2, folder=tmp_path)


def test_damaged_folders_are_refused(tokens, tmp_path):
    def count():
        return count_cooccurrences(tokens, N_WORDS, window=WINDOW, limits=SMALL, folder=tmp_path)

    count()
    run = min(tmp_path.glob("run-*.npy"))
    whole = run.read_bytes()
    run.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=f"instead of {len(whole)} of {run.name}"):
        count()
    run.unlink()
    with pytest.raises(CheckpointError, match=f"got 0 bytes instead of {len(whole)}"):
        count()
    (tmp_path / "counting.json").write_text(json.dumps([1]))
    with pytest.raises(CheckpointError, match="whole counting.json"):
        count()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 0}, "`window` must be an integer >= 1, got 0"),
        ({"window": True}, "`window` must be an integer >= 1, got True"),
        ({"n_words": 0}, "`n_words` must be an integer >= 1"),
        ({"n_words": 2**32}, "`n_words` must be at most 17.* for a window of 2"),
        ({"weights": "round"}, "`weights` must be one of 'dynamic', 'flat', 'harmonic'"),
        ({"weights": "harmonic", "window": 21}, "`window` must be at most 20 for weights="),
    ],
)
def test_settings_out_of_range_are_refused(changed, message):
    settings = {"n_words": 3, "window": 2} | changed
    n_words = settings.pop("n_words")
    with pytest.raises(ExfamError, match=message):
        count_cooccurrences(np.array([0, 1], np.int32), n_words, **settings)


@pytest.mark.parametrize("name", ["max_bytes", "shard_tokens"])
def test_limits_are_whole_numbers(name):
    with pytest.raises(ExfamError, match=f"`{name}` must be an integer >= 1, got -1"):
        CountingLimits(**{name: -1})


def test_codes_below_minus_one_are_refused_with_their_place(tokens):
    broken = tokens.copy()
    broken[1_234] = -3
    with pytest.raises(DataError, match=r"got -3 at 1234\."):
        count_cooccurrences(broken, N_WORDS, window=2, limits=SMALL)


def test_counting_needs_no_torch():
    code = "import sys, exfam.kernels.cooccurrence; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
