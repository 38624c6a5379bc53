import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from exfam import files
from exfam.checks import ExfamError
from exfam.files import (
    hold_folder,
    lock_folder,
    new_scratch_folder,
    scratch_folder,
    write_atomically,
)
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.database import ReadingOptions, open_database

# A process that reads, and waits for its end in the midst of it.
READER = """
import sys
from exfam.reading.database import ReadingOptions, open_database
with open_database(ReadingOptions()) as database:
    (database.folder / "unpacked.csv").write_text("user,item")
    print("reading", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("content", ["cafés\n", b"\x00\xff", ""])
def test_a_file_holds_the_content_or_stays_as_it_was(tmp_path, content, monkeypatch):
    path = write_atomically(tmp_path / "new" / "file", content)
    expected = content.encode() if isinstance(content, str) else content
    assert path.read_bytes() == expected

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_bytes() == expected
    assert os.listdir(path.parent) == ["file"]


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(ExfamError, match="`path` must be a path of names of at most 240 bytes"):
        write_atomically(tmp_path / "new" / ("a" * 300), "")
    with pytest.raises(ExfamError, match="`path` must be a file, got the folder .* Add the file's"):
        write_atomically(tmp_path, "")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    with hold_folder(tmp_path):
        with (
            pytest.raises(TimeoutError, match="Another process is at work in"),
            hold_folder(tmp_path, seconds=0.02),
        ):
            pass
        with pytest.raises(BlockingIOError, match="unavailable"):
            lock_folder(tmp_path)
    handles = []

    def lock(folder):
        handles.append(lock_folder(folder))
        return handles[-1]

    monkeypatch.setattr(files, "lock_folder", lock)
    with hold_folder(tmp_path, seconds=0.02):
        child = os.dup(handles[0])  # as a process that is forked meanwhile has it
    with hold_folder(tmp_path, seconds=0.02):
        os.close(child)


@pytest.mark.parametrize("missing", ["locks", "locks for folders"])
def test_without_locks_the_block_runs_without_one(tmp_path, monkeypatch, missing):
    def refuse(*_):
        raise OSError("no locks available")

    if missing == "locks":
        monkeypatch.setattr(files, "fcntl", None)
    else:
        monkeypatch.setattr(files.fcntl, "flock", refuse)
    with hold_folder(tmp_path), hold_folder(tmp_path):
        pass


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of a test's own, also for the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_what_a_reader_uses_stays_until_it_is_killed(temporary):
    command = [sys.executable, "-c", READER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"reading\n"
        (theirs,) = os.listdir(temporary)
        with scratch_folder() as ours, scratch_folder() as other:
            assert sorted(os.listdir(temporary)) == sorted([theirs, ours.name, other.name])
        assert os.listdir(temporary / theirs) == ["unpacked.csv"]
        process.kill()
        process.wait()
        assert os.listdir(temporary) == [theirs], "the killed process left its folder"
    with open_database(ReadingOptions()) as database:
        assert os.listdir(temporary) == [database.folder.name]
    count_cooccurrences(np.array([0, 1, 0], np.int32), 2, window=1)
    assert os.listdir(temporary) == []


def test_links_and_the_files_of_others_are_not_removed_as_scratch(temporary):
    (temporary / "precious").mkdir()
    (temporary / "exfam-scratch-link").symlink_to(temporary / "precious")
    (temporary / "exfam-scratch-file").touch()
    (temporary / "exfam-mine").mkdir()
    with scratch_folder():
        pass
    assert {"precious", "exfam-mine"} <= set(os.listdir(temporary))


def test_a_folder_that_was_taken_for_abandoned_is_replaced(temporary, monkeypatch):
    make, taken = tempfile.mkdtemp, []

    def taken_at_once(**how):
        folder = make(**how)
        if not taken:
            os.rmdir(folder)
            taken.append(folder)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", taken_at_once)
    folder, remove = new_scratch_folder()
    assert folder.is_dir() and taken
    remove()
