"""Manifests that are damaged or none, and odd names of files and columns."""

import json
import os
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exfam
from exfam import DataError, ExfamError, open_prepared, prepare
from exfam.reading.folders import PREPARED, is_prepared
from exfam.reading.text import is_prepared_text, open_text, prepare_text
from exfam.reading.text.prepared_text import TEXT
from exfam.vectors.files import read_vectors
from group_cases import full_groups
from reading.cases import write_sqlite
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
    found = {"missing": "nothing", "file": "a file", "folder": f"a folder without {kind.manifest}"}
    for name, got in found.items():
        message = f"`folder` must be a {kind.name}, got {got} at"
        with pytest.raises(DataError, match=message):
            opened(tmp_path / name)
        assert not is_prepared_folder(tmp_path / name)
    for other in ("SELECT 1", "x" * 5000, "a\0b", 3, None, ["a b"], full_groups()):
        assert not is_prepared_folder(other)


NAMES = {"group": "user", "item": "movie"}


def read(source, **options):
    return exfam.read(source, **NAMES, threads=1, duplicates="keep", **options)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,movie\n1,2\n")
    return path


def test_an_empty_name_is_not_there():
    with pytest.raises(DataError, match="`source` must name a file, .* got an empty name"):
        read("")


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "/".join(["a" * 200] * 30), "a" * 300 + "*"])
def test_names_too_long_for_a_disk_are_not_there(name):
    with pytest.raises(DataError, match="must name a file, .* got 'a.*', which is not there"):
        read(name)
    with pytest.raises(DataError, match="must name a database file, got 'a.*': not there"):
        read("t", database=f"sqlite:///{name}")
    with pytest.raises(DataError, match="which is not there"):
        prepare_text(name)
    with pytest.raises(DataError, match="`path` must be a file, got no such file at a"):
        read_vectors(name)
    match = "must be a p(repared folder, got nothing|ath of names)"
    with pytest.raises(DataError, match=match):
        exfam.open_prepared(name)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_names_that_are_not_utf_8(tmp_path, ending):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + ending.encode())
    pq.write_table(pa.table({"user": [1], "movie": [2]}), tmp_path / "plain")
    os.rename(tmp_path / "plain", path)
    with pytest.raises(DataError, match=r"`source` must be a name in UTF-8, got .*\\udcff"):
        read(path)
    with pytest.raises(DataError, match=r"`source` must have names in UTF-8, got .*\\udcff"):
        read(tmp_path)


def test_queries_that_are_not_utf_8(tmp_path):
    sqlite3.connect(tmp_path / "a.db").close()
    with pytest.raises(DataError, match="`source` must be a name in UTF-8, got .SELECT"):
        read("SELECT '\udcff' AS user, 1 AS movie")
    with pytest.raises(DataError, match="must be a query that can be run, .* surrogates"):
        read("t\udcff", database=f"sqlite:///{tmp_path / 'a.db'}")


def test_neither_file_nor_folder(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(DataError, match="`source` must be a file or a folder, got neither"):
        read(tmp_path / "a.csv")


def test_limits_of_memory_are_sizes(file):
    for limit in ("-1GB", "5", "80%", "nanGB", ""):
        with pytest.raises(ExfamError, match=f"`memory_limit` must be a size .*, got '{limit}'"):
            read(file, memory_limit=limit)
    with pytest.raises(ExfamError, match="`memory_limit` must be a size .* value is too large"):
        read(file, memory_limit="9" * 30 + "TB")
    for limit in ("100MB", "0.5 GiB", "1TB", "200000000 bytes"):
        assert len(read(file, memory_limit=limit)) == 1


def test_compound_queries_of_sqlite(tmp_path):
    path = write_sqlite({"user": [1, 1, 2], "movie": [5, 6, 5]}, tmp_path / "a.db", "t")
    for union, n in {"UNION ALL": 6, "UNION": 3, "INTERSECT": 3}.items():
        query = f"SELECT user, movie FROM t {union} SELECT user, movie FROM t"
        assert read(query, database=f"sqlite:///{path}").n_elements == n


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a{}b", "{}", 'a ""b""{}'])
def test_headers_with_a_line_break(tmp_path, end, name):
    path = tmp_path / "a.csv"
    path.write_bytes(f'"{name.format(end)}",user,movie{end}3,1,2{end}'.encode())
    assert read(path).n_elements == 1
    groups = read(path, value=name.format(end).replace('""', '"'))
    assert next(iter(groups.values.values())).tolist() == [3]
