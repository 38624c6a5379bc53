"""Counts of pairs against counting them one by one."""

import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from exfam.checks import CheckpointError, DataError, ExfamError
from exfam.kernels import counting
from exfam.kernels.cooccurrence import WINDOW_WEIGHTS, count_cooccurrences

WINDOW, N_WORDS = 5, 150
EXACT = {
    "flat": lambda distance: Fraction(1),
    "harmonic": lambda distance: Fraction(1, distance),
    "dynamic": lambda distance: Fraction(WINDOW - distance + 1, WINDOW),
}
# Room for 45 keys and 104 pairs of runs, and a triangle of 14 words: the rest goes to files.
SMALL = {"max_bytes": 5_000, "shard_tokens": 701}


@pytest.fixture(scope="module")
def tokens():
    drawn = np.random.default_rng(0).zipf(1.3, 2_500) - 1
    codes = np.where(drawn < N_WORDS, drawn, -1).astype(np.int32)
    assert (codes == -1).any() and len(np.unique(codes)) > 100
    return codes


def counted_one_by_one(tokens, n_words, weight):
    counts = Counter()
    for position, center in enumerate(tokens.tolist()):
        for side in (-1, 1):
            for distance in range(1, WINDOW + 1):
                at = position + side * distance
                if not 0 <= at < len(tokens) or min(tokens[at], center) < 0:
                    break
                if max(tokens[at], center) < n_words:
                    counts[center, int(tokens[at])] += weight(distance)
    dense = np.zeros((n_words, n_words))
    for pair, total in counts.items():
        dense[pair] = float(total)
    return dense


# Codes from the number of words on keep their positions in windows, and are not counted.
@pytest.mark.parametrize(
    ("weights", "n_words"), [*((name, N_WORDS) for name in EXACT), ("flat", 40)]
)
def test_counts_are_the_exact_sums_of_all_pairs(tokens, weights, n_words, tmp_path):
    assert set(EXACT) == set(WINDOW_WEIGHTS)
    expected = counted_one_by_one(tokens, n_words, EXACT[weights])
    for sizes in ({}, {**SMALL, "folder": tmp_path}):
        counts = count_cooccurrences(tokens, n_words, window=WINDOW, weights=weights, **sizes)
        np.testing.assert_array_equal(counts.toarray(), expected)
        counts.check_format(full_check=True)
        assert counts.has_canonical_format and (counts.data > 0).all()
        assert counts.dtype == (np.int64 if weights == "flat" else np.float64)
    assert len(list(tmp_path.glob("run-*.npy"))) > 1


class Stop(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("weights", ["flat", "harmonic"])
def test_what_was_killed_goes_on_to_the_same_counts(tokens, tmp_path, monkeypatch, weights):
    done, save, write = [], counting.Counting.save, counting.write_atomically

    def killed(self, expected):
        save(self, expected)
        done.append(self.done)
        if len(done) < 3:
            raise Stop(f"after {self.done} tokens")

    def killed_in_writing(*_):
        monkeypatch.setattr(counting, "write_atomically", write)
        raise Stop("while writing")

    def count(**sizes):
        return count_cooccurrences(tokens, N_WORDS, window=WINDOW, weights=weights, **sizes)

    monkeypatch.setattr(counting.Counting, "save", killed)
    for at in ("after 701", "while writing", "after 1402"):
        if at == "while writing":
            monkeypatch.setattr(counting, "write_atomically", killed_in_writing)
        with pytest.raises(Stop, match=at):
            count(folder=tmp_path, **SMALL)
    # The second time all is counted: nothing is left to do, and the result is the same.
    for _ in range(2):
        counts = count(folder=tmp_path, **SMALL)
        assert done == [701, 1402, 2103, 2500]
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(counts, part), getattr(count(), part))


def test_a_full_disk_is_named_with_the_remedy(tokens, tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr(counting, "write_atomically", full_disk)
    with pytest.raises(CheckpointError, match="`folder` must be .*: No space left on device. Free"):
        count_cooccurrences(tokens, N_WORDS, window=2, folder=tmp_path)


def test_other_and_damaged_folders_are_refused(tokens, tmp_path):
    def refused(message, tokens=tokens, window=WINDOW):
        with pytest.raises(CheckpointError, match=message):
            count_cooccurrences(tokens, N_WORDS, window=window, folder=tmp_path, **SMALL)

    count_cooccurrences(tokens, N_WORDS, window=WINDOW, folder=tmp_path, **SMALL)
    refused("one of window = 5 instead of 3", window=3)
    refused("one of crc32 = ", tokens[::-1])
    run = min(tmp_path.glob("run-*.npy"))
    whole = run.read_bytes()
    run.write_bytes(whole[:-1])
    refused(f"instead of {len(whole)} of {run.name}")
    run.unlink()
    refused(f"got 0 bytes instead of {len(whole)}")
    (tmp_path / "counting.json").write_text(json.dumps([1]))
    refused("whole counting.json")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 0}, "`window` must be an integer >= 1, got 0"),
        ({"folder": ""}, "`folder` must be a path, got an empty one"),
        ({"n_words": 2**32}, "`n_words` must be at most 17.* for a window of 2"),
        ({"weights": "round"}, "`weights` must be one of 'dynamic', 'flat', 'harmonic'"),
        ({"weights": "harmonic", "window": 21}, "`window` must be at most 20 for weights="),
    ],
)
def test_settings_out_of_range_are_refused(changed, message):
    with pytest.raises(ExfamError, match=message):
        count_cooccurrences(np.array([0, 1], np.int32), **{"n_words": 3, "window": 2, **changed})


def test_codes_below_minus_one_are_refused_with_their_index(tokens):
    broken = tokens.copy()
    broken[1_234] = -3
    with pytest.raises(DataError, match=r"got -3 at 1234\."):
        count_cooccurrences(broken, N_WORDS, window=2, **SMALL)
