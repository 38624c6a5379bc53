"""Names of files, limits and columns that are out of the ordinary: read, or one clear error."""

import os
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exfam
from exfam import DataError, ExfamError
from exfam.reading.text import prepare_text
from exfam.vectors.files import read_vectors
from reading.cases import write_sqlite

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
    match = "must be a p(repared folder, got no manifest|ath of names)"
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
