"""An interrupted preparation goes on, to the same bytes; a folder is whole or not there."""

import bz2
import gzip

import numpy as np
import pytest

from exfam import files
from exfam.checks import CheckpointError, DataError
from exfam.reading.text import Vocabulary, numbering, open_text, prepare_text
from exfam.reading.text.numbering import Pace
from words.text_cases import LINES, contents, prepared, sentences_of

KNOWN = Vocabulary.counted({"mat": 3, "unseen": 1})
EVERY = {"piece": 30, "checkpoint": 1}
pytestmark = pytest.mark.filterwarnings("ignore:words read at most:UserWarning")


class Interrupted(Exception):
    pass


class After:
    """Interrupts a preparation after some pieces; `reports`: what it was passed."""

    def __init__(self, n_pieces=None):
        self.n_pieces, self.reports = n_pieces, []

    def __call__(self, progress):
        self.reports.append(progress)
        if len(self.reports) == self.n_pieces:
            raise Interrupted

    @property
    def read(self):
        """Tokens read after each piece."""
        return [progress.n_tokens for progress in self.reports if progress.stage == "reading"]


def interrupted(source, folder, n_pieces, *, piece=30, **options):
    report = After(n_pieces)
    with pytest.raises(Interrupted, match="^$"):
        prepared(source, folder, pace=Pace(piece, 1, report), **options)
    return report


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Nothing waits for the disk: no test cuts the power."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def texts(tmp_path):
    """A folder of files of all kinds with more words than a table holds."""
    folder, numbers = tmp_path / "texts", np.random.default_rng(0).permutation(60) % 40
    folder.mkdir()
    text = "\n".join(" ".join(f"w{n}" for n in numbers[k : k + 7]) for k in range(0, 60, 7))
    (folder / "a.txt").write_text("\n".join(LINES), encoding="utf-8")
    (folder / "b.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "c.bz2").write_bytes(bz2.compress((text + " the cat sat").encode()))
    return folder


@pytest.mark.parametrize("max_distinct", [10, 1000])
def test_after_any_piece(texts, tmp_path, monkeypatch, max_distinct):
    after, options = After(), {"known": KNOWN, "max_distinct": max_distinct, "min_count": 2}
    whole = prepared(texts, tmp_path / "whole", pace=Pace(**EVERY, report=after), **options)
    assert bool(whole.forgotten) == (max_distinct == 10)
    # Tokens are cut alike in any pieces.
    monkeypatch.setattr(numbering, "IDS_PER_PIECE", 3)
    for n_pieces in range(1, len(after.reports) + 1, 4):
        folder, second = tmp_path / f"after-{n_pieces}", After()
        first = interrupted(texts, folder, n_pieces, **options)
        assert not folder.exists()
        prepared(texts, folder, pace=Pace(**EVERY, report=second), **options)
        # All that was reported is known; nothing is read again once all was read.
        assert second.read[:1] >= first.read[-1:] or not second.read
        assert bool(second.read) == (len(first.read) == n_pieces)
        assert contents(folder) == contents(tmp_path / "whole")
        assert not list(tmp_path.glob(".after*"))


def test_sentences_go_on_too_unless_they_are_others(tmp_path):
    options = {"max_distinct": 6}
    prepared(iter(LINES), tmp_path / "whole", **options)
    for n_pieces in range(1, 6):
        folder = tmp_path / f"after-{n_pieces}"
        interrupted(iter(LINES), folder, n_pieces, piece=1, **options)
        prepared(iter(LINES), folder, pace=Pace(**EVERY), **options)
        assert contents(folder) == contents(tmp_path / "whole")
    for others, n_pieces in ((["a b c"] * 9, 3), (LINES[:2], 3), ([*LINES, "one more"], 6)):
        folder = tmp_path / f"of {len(others)}"
        interrupted(LINES, folder, n_pieces, piece=1)
        with pytest.raises(CheckpointError, match=r"got others among the first \d.*resume=False"):
            prepared(others, folder)
        text = prepared(others, folder, resume=False)
        assert sentences_of(text) == [line.split() for line in others if line]


@pytest.mark.parametrize("change", ["options", "file", "resume", "damage"])
def test_another_preparation_begins_anew(texts, tmp_path, change):
    interrupted(texts, tmp_path / "a", n_pieces=7)
    options = {"lower": True} if change == "options" else {}
    if change == "file":
        (texts / "a.txt").write_text("another text of another size")
    if change == "damage":
        (tmp_path / ".a.part" / "state.npz").write_bytes(b"PK\x03\x04 cut")
    after, everything, resume = After(), After(), change != "resume"
    prepared(texts, tmp_path / "a", pace=Pace(**EVERY, report=after), resume=resume, **options)
    prepared(texts, tmp_path / "b", pace=Pace(**EVERY, report=everything), **options)
    assert after.reports == everything.reports
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_two_processes_do_not_prepare_one_text(texts, tmp_path, monkeypatch):
    def report(progress):
        prepared(texts, tmp_path / "a")

    with pytest.raises(DataError, match=r"must not be prepared by two processes at once.*\.a"):
        prepared(texts, tmp_path / "a", pace=Pace(**EVERY, report=report))
    # Systems without locks prepare too.
    monkeypatch.setattr(files, "fcntl", None)
    assert prepared(texts, tmp_path / "a").n_tokens > 100


@pytest.mark.parametrize("source", [LINES, None], ids=["sentences", "files"])
def test_another_text_is_replaced_only_where_that_is_wanted(texts, tmp_path, source):
    source, folder = texts if source is None else source, tmp_path / "a"
    folder.mkdir()  # an empty folder is free
    first, reports = prepare_text(texts, folder=folder, min_count=2), []
    again = prepare_text(texts, folder=str(folder), min_count=2, progress=reports.append)
    assert not reports and np.array_equal(first.tokens, again.tokens)
    with pytest.raises(DataError, match=r"must be free, got a text prepared of.*overwrite=Tr"):
        prepare_text(source, folder=folder, min_count=1)
    with pytest.raises(Interrupted, match="^$"):
        prepare_text(source, folder=folder, min_count=1, overwrite=True, progress=After(1))
    assert open_text(folder, verify=True).vocabulary.words == first.vocabulary.words
    second = prepare_text(source, folder=folder, min_count=1, overwrite=True)
    assert len(second.vocabulary) != len(first.vocabulary)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "texts"]


def test_something_else_is_never_replaced(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("")
    with pytest.raises(DataError, match="must be free or a prepared text, got something else"):
        prepare_text(LINES, folder=mine, overwrite=True)
    with pytest.raises(DataError, match="must be where a text can be written, got .*mine/a"):
        prepare_text(LINES, folder=mine / "a", min_count=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
