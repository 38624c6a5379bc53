"""Excel sheets, JSON arrays, zip files and further frames hold the same rows as a CSV file."""

import datetime
import json
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest

import exfam
from exfam import DataError, ExfamError, Groups
from exfam.reading import excel
from exfam.tables.data.frames import read_table
from exfam.tables.data.table_files import read_table_file
from reading.cases import COLUMNS, FEW, ROWS, assert_identical

PLAIN = {"group": "user", "item": "movie", "value": "stars"}


def write_excel(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def lines_of(rows):
    return [list(rows), *map(list, zip(*rows.values(), strict=True))]


def records(rows):
    return [dict(zip(rows, line, strict=True)) for line in zip(*rows.values(), strict=True)]


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name.replace("_", "."), content)
    return path


@pytest.fixture(scope="module")
def expected():
    return exfam.read(ROWS, **COLUMNS | FEW)


def test_forms_hold_the_same_rows(expected, tmp_path):
    array = json.dumps(records(ROWS), indent=1)
    (tmp_path / "a.json").write_text(array)
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, records(ROWS))))
    (tmp_path / "mark.jsonl").write_text("\n".join(map(json.dumps, records(ROWS))), "utf-8-sig")
    (tmp_path / "wide.json").write_text(array, "utf-16")
    write_excel(tmp_path / "a.xlsx", ("rows", lines_of(ROWS)))
    zipped(tmp_path / "a.zip", a_json=array, __MACOSX="", _hidden="")
    text = pd.DataFrame(ROWS).to_csv(index=False)
    zipped(tmp_path / "b.csv.zip", b_csv=text)
    for name in ("a.json", "lines.json", "mark.jsonl", "wide.json", "a.xlsx", "a.zip", "b.csv.zip"):
        assert_identical(exfam.read(tmp_path / name, **COLUMNS | FEW), expected)


def test_frames_hold_the_same_rows(expected):
    frame = pd.DataFrame(ROWS)
    for form in (
        pl.LazyFrame(ROWS),
        frame.set_index("user"),
        frame.set_index(["user", "movie"]),
        frame.set_index(frame.index.rename("number")),
    ):
        assert_identical(exfam.read(form, **COLUMNS | FEW), expected)
        assert_identical(Groups.from_frame(form, **COLUMNS), expected)


def test_a_named_index_is_no_column_of_a_table():
    frame = pd.DataFrame({"size": [1.0, 2.0], "kind": ["a", "b"]})
    assert read_table(frame.set_index(pd.Index([7, 8], name="id"))).names == ("size", "kind")
    assert read_table(pl.LazyFrame(frame)).names == ("size", "kind")


@pytest.mark.parametrize("role", ["order", "position", "group"])
def test_periods_are_the_times_at_which_they_begin(role):
    months = pd.period_range("2024-01", periods=3, freq="M")
    rows = {"u": [1, 1, 2], "i": ["a", "b", "a"], "t": months[[2, 0, 1]]}
    columns = {"group": "u", "item": "i"} | {role: "t"}
    starts = rows | {"t": months[[2, 0, 1]].to_timestamp()}
    expected = Groups.from_frame(pd.DataFrame(starts), **columns)
    assert_identical(Groups.from_frame(pd.DataFrame(rows), **columns), expected)


class TestExcel:
    def test_the_first_sheet_is_read_and_said_another_is_named(self, tmp_path):
        other = {"user": ["x"], "movie": ["y"], "stars": [1]}
        path = write_excel(
            tmp_path / "a.xlsx", ("first", lines_of(ROWS)), ("other", lines_of(other))
        )
        with pytest.warns(exfam.ExfamWarning, match="read as sheet 'first', the first of 2"):
            groups = exfam.read(path, **PLAIN | FEW)
        assert len(groups) == 3
        assert len(exfam.read(path, **PLAIN | FEW, sheet="other")) == 1
        with pytest.raises(DataError, match="`sheet` must be one of .*'thrid'. Its sheets: 'f"):
            exfam.read(path, **PLAIN | FEW, sheet="thrid")

    def test_cells_keep_their_types(self, tmp_path):
        day = datetime.date(2024, 1, 2)
        rows = [
            ["user", "movie", "stars", "day", "noon", None],
            [1.0, 7, 1, day, datetime.time(12), None],
            [],
            [1.0, "x", "#N/A", datetime.datetime(2024, 1, 1), datetime.time(13), None],
            [2.0, 7.0, " NA ", day, datetime.time(12)],
        ]
        path = write_excel(tmp_path / "a.xlsx", ("rows", rows))
        groups = exfam.read(path, **PLAIN | FEW, order="day", position="noon")
        assert groups.vocabulary["item"].tolist() == ["7", "x"]
        assert groups.item.tolist() == [1, 0, 0] and groups.group_names.tolist() == [1, 2]
        assert groups.observed.tolist() == [False, True, False]
        np.testing.assert_allclose(groups.position, [13 / 24, 0.5, 0.5])

    def test_tables_have_all_columns(self, tmp_path):
        path = write_excel(tmp_path / "a.xlsx", ("rows", [["size", "kind"], [1.5, "a"], [None, 2]]))
        table = read_table_file(str(path))
        assert table.frame.to_pydict() == {"size": [1.5, None], "kind": ["a", "2"]}

    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            ([], "must have a header, got an empty sheet 'rows' in .*a.xlsx"),
            ([["user", "movie", "stars"]], "at least one row"),
            ([["user", "movie"], [1, 2]], "`value` must name a column .* got 'stars' in .*a.xlsx"),
            (
                [["user", "movie", "stars"], [1, 2, 3], [1, 3, "x"]],
                "one plain type, got 'x' at",
            ),
            ([["user", "movie", "stars"], [1, None, 3]], "got nothing at row 0 .* in .*a.xlsx"),
            ([["user", "movie", "stars", "user"], [1, 2, 3, 4]], "got 'user' twice in .*a.xlsx"),
        ],
    )
    def test_what_cannot_be_read_names_the_file(self, rows, match, tmp_path):
        path = write_excel(tmp_path / "a.xlsx", ("rows", rows))
        with pytest.raises(DataError, match=match):
            exfam.read(path, **PLAIN | FEW)

    def test_without_openpyxl_or_with_another_file(self, tmp_path, monkeypatch):
        path = tmp_path / "a.xlsx"
        path.write_text("user,movie\n1,2\n")
        with pytest.raises(DataError, match=r"must be an Excel file \(.xlsx\), got .*not a zip"):
            exfam.read(path, **PLAIN | FEW)

        def none(name):
            raise ImportError(name)

        monkeypatch.setattr(excel, "import_module", none)
        with pytest.raises(ExfamError, match=r"needs openpyxl .* pip install \"exfam\[excel\]\""):
            exfam.read(path, **PLAIN | FEW)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('[{"user": 1 2}]', "an array of JSON objects, got .* on line 1 of .*a.json"),
        (
            '[\n {"user": 1},\n {"user": 2 3}\n]',
            "array of JSON objects, got .* on line 3 of .*a.json",
        ),
        ('[{"user": 1}, 2]', "an array of JSON objects, got a int at 1 of .*a.json"),
        ('[{"user": 1, "user": 2}]', "an array of JSON objects, got the key 'user' twice"),
        ("[]", "at least one row"),
        ("[1, 2]", "one JSON object a line, got a list on line 1"),
        ('{"rows": [{"user": 1}]}', "Its columns: 'rows'"),
    ],
)
def test_what_is_no_array_of_objects(content, match, tmp_path):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=match):
        exfam.read(tmp_path / "a.json", **PLAIN | FEW)


@pytest.mark.parametrize("content", ["[", "[]", "[\n"])
def test_a_lone_bracket_is_no_table(content, tmp_path):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match="one JSON object a line, got .* on line 1 of .*a.json"):
        read_table_file(str(tmp_path / "a.json"))


def test_json_files_of_two_forms(tmp_path):
    (tmp_path / "a.json").write_text('[{"user": 1, "movie": 2, "stars": 3}]')
    (tmp_path / "b.json").write_text('{"user": 1, "movie": 2, "stars": 3}')
    with pytest.raises(DataError, match="JSON files of one form, got an array in one of"):
        exfam.read(tmp_path, **PLAIN | FEW)


def test_zip_files_of_none_or_several_files_and_damaged_ones(tmp_path):
    path = zipped(tmp_path / "a.zip", a_csv="user\n1\n", b_csv="user\n2\n")
    with pytest.raises(DataError, match="must hold one file in a zip file, got 2 in .*a.zip"):
        exfam.read(path, **PLAIN | FEW)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="must be a whole zip file, got .*a.zip: .* again"):
        exfam.read(path, **PLAIN | FEW)
    zipped(path, a_csv="user,movie,stars\n1,2,3\n" * 99)
    content = bytearray(path.read_bytes())
    content[45] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match="must be a whole zip file"):
        exfam.read(path, **PLAIN | FEW)
