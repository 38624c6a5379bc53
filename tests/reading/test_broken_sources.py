"""What cannot be read is one error that names the file and the row."""

import os

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exfam
from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.reading import encodings
from exfam.reading.database import ReadingOptions, open_database
from group_cases import FRAME
from reading.cases import FEW, ROWS, pack, read, write_csv, write_folder, write_json, write_parquet

HEAD = "user,movie,stars,time\n"
GOOD = HEAD + "zoe,up,5,1\nadam,heat,3,2\n"
NAMED = {"group": "user", "item": "movie", "value": "stars", "order": "time"} | FEW
TEXTS = [
    ("", "`source` must have a header, got an empty file: .*a.csv"),
    (HEAD, r"`source` must have at least one row, got none in .*a\.csv"),
    ("user,film,stars,time\nzoe,up,5,1\n", "`item` must name a column of the source, got 'movie'"),
    ("user,movie,stars,user,time\n", "`source` must have one column of each name, got 'user' twic"),
    (GOOD + ",up,1,1\n", r"got nothing at row 2 of column 'user' in .*a\.csv \(1 of 3 rows\). Dr"),
    (GOOD + "zoe,,1,1\nzoe,,1,2\n", r"`item` must not be missing, got nothing at row 2 .*\(2 of 4"),
    (GOOD + "zoe,up,five,3\n", "`value` must be numeric, got 'five' at row 2 of column 'stars' in"),
    (GOOD + "zoe,up,1e999,3\n", "`value` must be finite, got inf at row 2 of column 'stars'"),
    (GOOD + "zoe,up,9007199254740993,3\nzoe,up,,4\n", r"at most 2\*\*53 .* got 90071"),
    (GOOD + "zoe,up,1,later\n", "`order` must be all numbers or all text, got 'later' at row 2"),
    (GOOD + "zoe,up,1\n", r"as many cells in a line as in its header, 4, got 3 on line 4 of .*a\."),
    (GOOD + '"zoe,up,1,1\n', "unexpected end of data in the cells that begin on line 4"),
    (GOOD + '"zoe"x,up,1,1\n', "`source` must be a CSV file, got .* that begin on line 4 of"),
    (GOOD.replace("\n", "\r\n", 1), "`source` must end all lines alike, got another end on line"),
    (GOOD.encode() + b"zo\xff,up,1,1\n", r"got byte 0xff at byte 49 \(line 4\) of .*a\.csv"),
    (HEAD + f"zoe,{'x' * 3_000_000},1,1\n", "got .*line 2|Maximum line size"),
    ('"' + "x" * 200_000 + '",user\n', "field larger than field limit .* in the header of"),
]
JSONS = [
    ("", r"`source` must have at least one row, got none in .*a\.jsonl"),
    ('{"user": 1}\n{"user":}\n', r"one JSON object a line, got Expecting value on line 2 of .*l\."),
    ('{"user": 1}\n\n[1]\n', "one JSON object a line, got a list on line 3 of"),
    ('{"user": 1, "user": 2}\n', "one JSON object a line, got the key 'user' twice on line 1 of"),
    (b'{"user": "\xff"}\n', r"encoded in UTF-8, got byte 0xff at byte 10 \(line 1\) of"),
    ('{"who": 1}\n{"User": 2}\n', "`group` must name a column .* got 'user' .* 'User', 'who'"),
    ('{"user": 1}\n{"item": 2}\n', "`group` must not be missing, got nothing at row 1 of column"),
    ('{"user": null}\n{"user": 7}\n{"user": "7"}\n{"user": 8}\n', "`group` must hold values of on"),
    ('{"user": true}\n{"user": 1}\n', "one plain type, got '1' at row 1 .* has a boolean"),
    ('{"user": {"name": "zoe"}}\n', '`group` must hold labels .* got \'{"name":"zoe"}\' at row 0'),
    ('{"user": 1.5}\n', r"`group` must hold labels .*, got 1.5 at row 0"),
    ('{"user": 9007199254740993}\n{"user": 1.0}\n', r"`group` must be below 2\*\*53 in size where"),
    # DuckDB cuts the text that it quotes at a byte.
    ('"' + "\\u6570" * 50 + '"\n' + '{"user": 1}\n' * 20, "one JSON object a line, got a str"),
]
BROKEN = [(".csv", NAMED, *case) for case in TEXTS]
BROKEN += [(".jsonl", {"group": "user"} | FEW, *case) for case in JSONS]


@pytest.mark.parametrize(
    ("ending", "columns", "content", "match"), BROKEN, ids=lambda case: repr(case)[-40:]
)
def test_a_broken_file(ending, columns, content, match, tmp_path):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=match) as error:
        exfam.read(path, **columns)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize("end", [b"\xc3(zoe,up\n", b"\xc3"], ids=["broken", "cut"])
def test_an_encoding_that_breaks_between_chunks_is_found(end, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "CHUNK", chunk)
    (path := tmp_path / "a.csv").write_bytes("user,movie\nz\u00f6e,".encode() + end)
    with pytest.raises(DataError, match=r"got byte 0xc3 at byte 16 \(line 2\)"):
        exfam.read(path, group="user", item="movie", **FEW)


def test_names_that_differ_in_case_only(tmp_path):
    rows = {"user": ["a", "b"], "User": ["x", "y"]}
    match = "`item` must not be named as another column but for upper and lower case .* 'User' and"
    with pytest.raises(DataError, match=match):
        exfam.read(write_json(rows, tmp_path / "a.jsonl"), group="user", item="User")
    for write, name in ((write_csv, "a.csv"), (write_parquet, "a.parquet")):
        groups = exfam.read(write(rows, tmp_path / name), group="user", item="User", **FEW)
        assert groups.vocabulary["item"].tolist() == ["x", "y"]


class TestFiles:
    def test_that_are_not_there_or_of_unknown_or_different_kinds(self, tmp_path):
        sources = {
            tmp_path / "no.csv": "must name a file.* which is not there",
            f"{tmp_path}/*.csv": "must name a file.* which is not there",
            tmp_path: "a folder without files",
            "https://example.org/a.csv": "must be on this machine, got 'https://",
        }
        for source, match in sources.items():
            with pytest.raises(DataError, match=match):
                read(source)
        write_csv(ROWS, tmp_path / "a.csv")
        write_parquet(ROWS, tmp_path / "b.parquet")
        match = "`source` must be of files of one kind, got 'a.csv' and 'b.parquet' in"
        with pytest.raises(DataError, match=match):
            read(tmp_path)
        for name in ("c.docx", "d.parquet.gz"):
            (tmp_path / name).write_text("")
            with pytest.raises(DataError, match=rf"must be of files that end in \.csv.*'.*{name}"):
                read(tmp_path / name)

    def test_that_may_not_be_opened(self, tmp_path, monkeypatch):
        path = write_csv(ROWS, tmp_path / "a.csv")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(DataError, match="`source` must be readable, got '.*a.csv' without the"):
            read(path)

    def test_that_do_not_fit_when_unpacked(self, tmp_path, monkeypatch, full_disk):
        path = pack(write_csv(ROWS, tmp_path / "a.csv"))
        monkeypatch.setattr("shutil.copyfileobj", full_disk)
        match = "`TMPDIR` must name a folder with room for what is packed in .*a.csv.gz, got .*spac"
        with pytest.raises(DataError, match=match):
            read(path)

    @pytest.mark.parametrize(
        ("damage", "match"),
        [
            (lambda packed: packed[:-9], "Compressed file ended before"),
            (lambda packed: packed[:-8] + bytes(8), "CRC check failed"),
            (lambda packed: b"user,movie\n", "Not a gzipped file"),
            (lambda packed: packed[:20] + b"\xff" * 9 + packed[29:], "Error"),
        ],
        ids=["cut", "wrong sum", "not packed", "damaged"],
    )
    def test_that_are_packed_badly(self, damage, match, tmp_path):
        path = pack(write_csv(ROWS, tmp_path / "a.csv"))
        path.write_bytes(damage(path.read_bytes()))
        match = f"`source` must be a whole gzip file, got .*a.csv.gz: {match}"
        with pytest.raises(DataError, match=match):
            read(path)

    def test_of_parquet(self, tmp_path):
        path = tmp_path / "a.parquet"
        path.write_bytes(b"PAR1, or is it?")
        with pytest.raises(DataError, match=r"`source` must be a Parquet file, got .*a\.parquet: "):
            read(path)
        names = pa.table({"user": [f"user {k % 77}" for k in range(9999)]})
        pq.write_table(names, path, compression="zstd")
        damaged = bytearray(path.read_bytes())
        damaged[30:230] = b"\xff" * 200
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"`source` must be readable, got .* in .*a\.parquet"):
            exfam.read(path, group="user", **FEW)


class TestFolders:
    @pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
    def test_name_the_file_and_the_row_in_it(self, tmp_path, ending):
        for row, where in ((1, "row 1 .*part-1"), (4, "row 2 .*part-2")):
            users = [*ROWS["user"]]
            users[row] = None
            folder = write_folder(ROWS | {"user": users}, tmp_path / f"{row}", ending)
            match = f"`group` must not be missing, got nothing at {where}{ending}"
            with pytest.raises(DataError, match=match):
                read(folder)

    def test_of_one_header_and_schema(self, tmp_path):
        write_csv({"user": [1]}, write_folder(ROWS, tmp_path / "a") / "part-3.csv")
        match = r"files with the same columns, got \['user'\] in .*part-3.csv, where .*part-1.csv"
        with pytest.raises(DataError, match=match):
            read(tmp_path / "a")
        folder = write_folder(ROWS, tmp_path / "b", ".parquet")
        write_parquet(ROWS | {"time": ["x"] * 6}, folder / "part-3.parquet")
        match = r"`position` must be of one type .* got large_string in column 'time' of .*part-3"
        with pytest.raises(DataError, match=match):
            read(folder)
        write_parquet({"user": [1]}, folder / "part-3.parquet")
        with pytest.raises(DataError, match=r"with the same columns, got \['user'\] in .*part-3"):
            read(folder)

    def test_without_rows(self, tmp_path):
        folder = write_folder({name: [] for name in ROWS}, tmp_path / "a")
        match = "`source` must have at least one row, got none in .*part-1.csv and 1 more"
        with pytest.raises(DataError, match=match):
            read(folder)


def test_values_all_missing_may_be_of_any_kind(tmp_path):
    for kind in (pa.string(), pa.list_(pa.int64()), pa.binary(), pa.null(), pa.float64()):
        table = pa.table({"user": [1, 1], "y": pa.nulls(2, kind)})
        pq.write_table(table, path := tmp_path / "a.parquet")
        for source in (table, path):
            groups = exfam.read(source, group="user", value="y", duplicates="keep", **FEW)
            assert np.isnan(groups.values["y"]).all() and not groups.observed.any()


def test_unknown_labels_name_the_first_row(tmp_path):
    path = write_csv(ROWS, tmp_path / "a.csv")
    match = r"`item` must be in the vocabulary \(1 labels\), got 'heat' at row 2 in .*a\.csv \("
    with pytest.raises(UnknownItemError, match=match):
        read(path, vocabulary={"item": ["007"]})
    match = r"`attributes` must be in the vocabulary of 'genre' \(1 labels\), got 'crime' at ro"
    with pytest.raises(DataError, match=match) as error:
        read(path, vocabulary={"genre": ["kids"]})
    assert not isinstance(error.value, UnknownItemError)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"duplicates": "maybe"}, "`duplicates` must be one of 'error', 'drop', 'keep'"),
            ({"unknown": "maybe"}, "`unknown` must be one of 'error', 'ignore', 'unk'"),
            ({"threads": 0}, "`threads` must be an integer >= 1, got 0"),
            ({"threads": 10**9}, "`threads` must be at most 1024, got 1000000000"),
            ({"database": "mysql://x"}, "`database` must begin with sqlite:/// or postgresql://"),
        ],
        ids=str,
    )
    def test_are_checked(self, options, match):
        with pytest.raises(ExfamError, match=match):
            exfam.read("rows", group="user", **options)

    def test_a_connection_takes_a_query(self):
        match = "`source` must be a query or the name of a table where there is a database, got d"
        with pytest.raises(DataError, match=match):
            exfam.read(FRAME, group="user", database="sqlite:///a.db")

    @pytest.mark.parametrize("limit", ["1MB", "4MB"])
    def test_memory_that_is_too_little_is_refused(self, limit):
        frame = {"user": np.arange(300_000) % 999, "movie": np.arange(300_000)}
        match = "`memory_limit` must leave room for the work, .* Raise the limit, or set TMPDIR"
        with pytest.raises(DataError, match=match):
            exfam.read(frame, group="user", item="movie", memory_limit=limit, threads=1)

    def test_what_fails_while_rows_come_is_raised(self):
        with (
            pytest.raises(duckdb.Error, match="Conversion Error"),
            open_database(ReadingOptions(threads=1)) as database,
        ):
            query = "SELECT (1 / (i - 500000))::INT FROM range(1000000) t(i)"
            assert len(list(database.batches(query, rows=1000))) < 1000


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    exfam.read(pack(write_csv(ROWS, tmp_path / "a.csv")), group="user", duplicates="keep", **FEW)
    with pytest.raises(DataError, match="must name a column"):
        exfam.read(tmp_path / "a.csv.gz", group="nobody", **FEW)
    assert os.listdir(tmp_path) == ["a.csv.gz"]
