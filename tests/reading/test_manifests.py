"""Folders with a manifest: what is damaged, newer, foreign or not there is refused by name."""

import json
import os

import pytest

from exfam import DataError, open_prepared, prepare
from exfam.reading.folders import PREPARED, is_prepared
from exfam.reading.text import is_prepared_text, open_text, prepare_text
from exfam.reading.text.prepared_text import TEXT
from group_cases import full_groups
from words.text_cases import LINES

# kind -> what writes a folder, opens it, and says whether there is one
KINDS = {
    PREPARED: (lambda folder: prepare(full_groups(lags=1), folder), open_prepared, is_prepared),
    TEXT: (
        lambda folder: prepare_text(LINES, min_count=1, folder=folder),
        open_text,
        is_prepared_text,
    ),
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture
def folder(kind, tmp_path):
    KINDS[kind][0](tmp_path / "whole")
    return tmp_path / "whole"


def cut(file):
    with file.open("rb+") as content:
        content.truncate(file.stat().st_size - 3)


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES = {
    cut: r"must (have \d+ bytes, got \d+: it is cut or changed|be as it was written)",
    flip: "must be as it was written, got a damaged or changed file",
    os.unlink: "must be there, got no such file in this|got a folder without",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_of_any_file_is_refused_with_its_name(kind, folder, damage):
    _, opened, is_prepared_folder = KINDS[kind]
    files = sorted(folder.iterdir())
    assert len(files) > (14 if kind is PREPARED else 2)
    for file in files:
        whole = file.read_bytes()
        damage(file)
        with pytest.raises(DataError, match=DAMAGES[damage]) as error:
            opened(folder, verify=True)
        assert file.name in str(error.value)
        # A damaged folder is no other source.
        is_manifest = file.name == kind.manifest
        assert is_prepared_folder(folder) or (is_manifest and damage is not cut)
        file.write_bytes(whole)
    opened(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2, "exfam_version": "9.9"}, "version 1 at most, got 2, .* exfam 9.9"),
        ({"more": 1}, "must be as it was written, got a damaged or changed file"),
        ({"format": "other"}, "`folder` must be a .*, got the .* of something else"),
    ],
    ids=str,
)
def test_a_changed_manifest(kind, folder, changes, message):
    file = folder / kind.manifest
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(DataError, match=message):
        KINDS[kind][1](folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [("[" * 10, "a damaged or changed file"), ('["exfam-text"]', "of something else")],
)
def test_a_manifest_that_is_none(kind, tmp_path, content, message):
    (tmp_path / kind.manifest).write_text(content)
    with pytest.raises(DataError, match=message):
        KINDS[kind][1](tmp_path)


def test_what_is_no_folder(kind, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    _, opened, is_prepared_folder = KINDS[kind]
    for name, got in {"missing": "no", "file": "a file", "folder": "a folder without"}.items():
        message = f"`folder` must be a {kind.name}, got {got} {kind.manifest} at"
        with pytest.raises(DataError, match=message):
            opened(tmp_path / name)
        assert not is_prepared_folder(tmp_path / name)
    for other in ("SELECT 1", "x" * 5000, "a\0b", 3, None, ["a b"], full_groups()):
        assert not is_prepared_folder(other)
