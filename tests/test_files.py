import os

import pytest

from exfam.files import write_atomically


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
