import os

import pytest

from exfam import files
from exfam.files import hold_folder, lock_folder, write_atomically


@pytest.mark.parametrize("content", ["cafés\n", b"\x00\xff", ""])
def test_the_file_holds_the_content_and_nothing_is_left_beside_it(tmp_path, content):
    path = write_atomically(tmp_path / "new" / "file", content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert os.listdir(path.parent) == ["file"]


def test_a_refused_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "file", "old")

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    with hold_folder(tmp_path):
        with (
            pytest.raises(TimeoutError, match="Another process is at work in"),
            hold_folder(tmp_path, seconds=0.02),
        ):
            pass
        with pytest.raises(BlockingIOError, match="unavailable"):
            lock_folder(tmp_path)
    with hold_folder(tmp_path, seconds=0.02):
        pass


def test_a_child_forked_meanwhile_holds_nothing(tmp_path, monkeypatch):
    handles = []

    def lock(folder):
        handles.append(lock_folder(folder))
        return handles[-1]

    monkeypatch.setattr(files, "lock_folder", lock)
    with hold_folder(tmp_path):
        child = os.dup(handles[0])
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
