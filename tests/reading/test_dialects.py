"""How text files are written is found where it can be one thing only, said, or asked for."""

import warnings

import numpy as np
import pytest

import exfam
from exfam import DataError, ExfamError, ExfamWarning
from exfam.columns.dialect import Dialect
from exfam.reading.numerals import Numerals, agreed, allowed_numerals

COLUMNS = {"group": "u", "item": "i", "value": "v", "threads": 1}
CLEAN = [("a", "caf\u00e9", 1.5), ("a", "tea", 2.0), ("b", "tea", 1234.5)]


def text_of(rows=CLEAN, *, number=str, by=";"):
    lines = [by.join("uiv"), *(by.join([u, i, number(v)]) for u, i, v in rows)]
    return "\n".join(lines) + "\n"


def with_comma(number):
    return f"{number:g}".replace(".", ",")


def read(content, path, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return exfam.read(path, **COLUMNS | options)


def said(content, path, **options):
    """What was read, and what was said of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        groups = read(content, path, **options)
    return groups, [str(warning.message) for warning in caught]


def assert_clean(groups):
    assert groups.values["v"].tolist() == [v for _, _, v in CLEAN]
    assert groups.vocabulary["item"].tolist() == ["caf\u00e9", "tea"]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", ""),
        ("utf-32", ""),
        ("utf-16-le", "read as utf-16-le."),
        ("utf-16-be", "read as utf-16-be."),
        ("latin-1", "read as latin-1 ('caf\u00e9'). Say so by encoding='latin-1' (of a model"),
    ],
)
def test_an_encoding_is_found_and_said_or_named(encoding, found, tmp_path):
    content = text_of().encode(encoding)
    groups, lines = said(content, tmp_path / "a.csv")
    assert_clean(groups)
    assert (found in lines[0] and "a.csv" in lines[0]) if found else not lines
    groups, lines = said(content, tmp_path / "a.csv", encoding=encoding)
    assert_clean(groups)
    assert not lines


def test_letters_of_windows_are_cp1252(tmp_path):
    rows = [("a", "caf\u00e9 \u2013 20 \u20ac", 1.0), ("b", "tea", 2.0)]
    groups, (line,) = said(text_of(rows).encode("cp1252"), tmp_path / "a.csv")
    assert rows[0][1] in groups.vocabulary["item"].tolist() and "cp1252" in line


@pytest.mark.parametrize("encoding", ["cp1251", "cp1253", "shift-jis", "gbk", "koi8-r", "cp1250"])
def test_other_encodings_must_be_named(encoding, tmp_path):
    word = {"cp1253": "\u03c4\u03c3\u03ac\u03b9", "cp1250": "\u017c\u00f3\u0142w"}
    word |= dict.fromkeys(("shift-jis", "gbk"), "\u8336\u8336")
    rows = [("a", word.get(encoding, "\u0447\u0430\u0439"), 1.0), ("b", "tea", 2.0)]
    content = text_of(rows).encode(encoding)
    with pytest.raises(DataError, match=r"encoded in UTF-8, got byte .* Name its encoding"):
        read(content, tmp_path / "a.csv")
    groups = read(content, tmp_path / "a.csv", encoding=encoding)
    assert rows[0][1] in groups.vocabulary["item"].tolist()


@pytest.mark.parametrize(
    "word", ["m\u00b2", "\u00bfqu\u00e9?", "n\u00ba 5", "l\u2019\u00e9t\u00e9", "\u00c5\u00f8"]
)
def test_signs_of_western_languages_stand_where_they_do(word, tmp_path):
    groups, (line,) = said(text_of([("a", word, 1.0)]).encode("cp1252"), tmp_path / "a.csv")
    assert groups.vocabulary["item"].tolist() == [word] and "read as" in line


def test_utf_8_with_a_broken_byte_is_not_taken_for_latin_1(tmp_path):
    with pytest.raises(DataError, match="encoded in UTF-8"):
        read(text_of().encode() + b"c;\xe9t\xe9;1\n", tmp_path / "a.csv")


def test_an_encoding_that_does_not_fit_is_refused(tmp_path):
    content = text_of().encode("latin-1")
    with pytest.raises(DataError, match="`source` must be encoded in UTF-8, got byte 0xe9"):
        read(content, tmp_path / "a.csv", encoding="utf-8")
    with pytest.raises(DataError, match="`source` must be encoded in ASCII, got byte 0xe9"):
        read(content, tmp_path / "a.csv", encoding="ascii")
    with pytest.raises(DataError, match="`encoding` must be that of .*a.csv, got 'utf-16'"):
        read(content, tmp_path / "a.csv", encoding="utf-16")


def test_a_full_disk_while_a_file_is_converted(tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr("shutil.copyfileobj", full_disk)
    with pytest.raises(DataError, match="with room for .*a.csv in UTF-8"):
        read(text_of().encode("latin-1"), tmp_path / "a.csv", encoding="latin-1")


NUMBERS = [
    ("1,5;2;1234,5", "decimal comma", {"decimal": ","}),
    ("1,5;2;1.234,5", "decimal comma, point between thousands", {"decimal": ",", "thousands": "."}),
    ("1,5;2;1 234,5", "decimal comma, space between thousands", {"decimal": ",", "thousands": " "}),
    ("1,5;2;1\u00a0234,5", "space between thousands", {"decimal": ",", "thousands": " "}),
    ("1.5;2;1,234.5", "comma between thousands", {"thousands": ","}),
    ("1.5;2;1'234.5", "apostrophe between thousands", {"thousands": "'"}),
    ("1.5;2;1 234.5", "space between thousands", {"thousands": " "}),
    ("1,5;2;+1234,5e0", "decimal comma", {"decimal": ","}),
    (" 1,50 ;2,;1234,5", "decimal comma", {"decimal": ","}),
]


@pytest.mark.parametrize(("cells", "words", "options"), NUMBERS)
def test_a_way_to_write_numbers_is_found_and_said_or_named(cells, words, options, tmp_path):
    numbers = iter(cells.split(";"))
    content = text_of(number=lambda _: next(numbers))
    groups, (line,) = said(content, tmp_path / "a.csv")
    assert_clean(groups)
    assert words in line and all(f"{name}=" in line for name in options)
    groups, lines = said(content, tmp_path / "a.csv", **options)
    assert_clean(groups)
    assert not lines


def test_whole_numbers_stay_whole(tmp_path):
    groups, (line,) = said(text_of(number=lambda v: "1,234,567"), tmp_path / "a.csv")
    assert groups.values["v"].dtype.kind == "i" and "comma between thousands" in line
    assert groups.values["v"].tolist() == [1234567] * 3


@pytest.mark.parametrize(
    ("options", "number"), [({"decimal": ","}, 1.234), ({"thousands": ","}, 1234)]
)
def test_what_may_be_read_in_two_ways_is_refused_until_it_is_said(options, number, tmp_path):
    content = text_of(number=lambda v: "1,234")
    with pytest.raises(DataError, match=r"read in one way, got '1,234' at row 0 .*decimal=','"):
        read(content, tmp_path / "a.csv")
    groups = read(content, tmp_path / "a.csv", **options)
    assert groups.values["v"].tolist() == [number] * 3


def test_another_column_settles_what_may_be_read_in_two_ways(tmp_path):
    def both(first, second, **options):
        content = f"u;i;v;w\na;x;{first};{second}\nb;y;{first};{second}\n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExfamWarning)
            groups = read(content, tmp_path / "a.csv", value=["v", "w"], **options)
        return groups.values["v"][0], groups.values["w"][0]

    assert both("1,234", "1,5") == (1.234, 1.5)
    assert both("1,234", "1,234.5") == (1234, 1234.5)
    assert both("1,234", "1.5") == (1234, 1.5)
    assert both("2.5", "1,5") == (2.5, 1.5)
    assert both("1.234", "1,5", decimal=",") == (1234, 1.5)
    with pytest.raises(DataError, match="Other columns have decimal commas"):
        both("1.234", "1,5")
    with pytest.raises(DataError, match="read in one way"):
        both("1,234", "7")


def test_columns_that_write_numbers_differently_are_named(tmp_path):
    content = "u;i;v;w\na;x;2.5;1,5\nb;y;2.5;1,5\n"
    _, (line,) = said(content, tmp_path / "a.csv", value=["v", "w"])
    assert line.endswith("read as decimal comma in 'w'.")


def test_numbers_of_another_kind_than_was_said_are_refused(tmp_path):
    with pytest.raises(DataError, match="the marks that `decimal` and `thousands` say, got '1.5'"):
        read(text_of(), tmp_path / "a.csv", decimal=",")


def test_attributes_are_numbers_only_where_no_code_looks_so(tmp_path):
    content = "u;i;v;zip;size\na;x;1;123 456;1,5\nb;y;2;123 457;2,5\n"
    groups, _ = said(content, tmp_path / "a.csv", attributes=["zip", "size"])
    assert groups.attributes["size"].tolist() == [1.5, 2.5]
    assert groups.vocabulary["zip"].tolist() == ["123 456", "123 457"]
    groups, _ = said(content, tmp_path / "a.csv", attributes=["zip", "size"], thousands=" ")
    assert groups.attributes["zip"].tolist() == [123456, 123457]


@pytest.mark.parametrize("word", ["NA", "null", "NaN", "na"])
def test_names_that_may_stand_for_missing_are_refused_with_the_remedy(word, tmp_path):
    rows = [("a", "tea", 1.0), ("b", word, 2.0)]
    path = tmp_path / "a.csv"
    with pytest.raises(DataError, match=f"`item` must hold names, got '{word}' at row 1 .*quotes"):
        read(text_of(rows), path)
    quoted = read(text_of([rows[0], ("b", f'"{word}"', 2.0)]), path)
    named = read(text_of(rows), path, missing=())
    learned = read(text_of(rows), path, vocabulary={"item": ["tea", word]})
    for groups in (quoted, named, learned):
        assert word in groups.vocabulary["item"].tolist()
    with pytest.raises(DataError, match="`group` must hold names"):
        read(text_of([(word, "tea", 1.0)]), path)


def test_marks_of_missing_values(tmp_path):
    rows = [("a", "x", "1,5"), ("a", "y", "-999"), ("b", "x", "unknown"), ("b", "y", "-99,9")]
    groups, _ = said(
        text_of(rows), tmp_path / "a.csv", missing=["unknown", -999, -99.9], decimal=","
    )
    assert groups.observed.tolist() == [True, False, False, False]
    frame = {"u": [1, 1, 2], "i": [-999, 2, 3], "v": [-999.0, 2.0, np.nan]}
    for groups in (
        exfam.read(frame, **COLUMNS, missing=-999),
        exfam.read(frame, **COLUMNS, missing=np.array(-999)),
        exfam.Groups.from_frame(frame, group="u", item="i", value="v", missing=[-999]),
    ):
        assert groups.observed.tolist() == [False, True, False]
        assert groups.vocabulary["item"].tolist() == [-999, 2, 3]  # labels are no measurements


def test_a_number_of_single_precision_is_its_own_mark():
    frame = {"u": [1, 2], "i": ["x", "y"], "v": np.array([-99.9, 1.0], dtype=np.float32)}
    assert exfam.read(frame, **COLUMNS, missing=-99.9).observed.tolist() == [False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "latin-0"}, "`encoding` must be the name of an encoding that Python knows"),
        ({"encoding": "rot13"}, "`encoding` must be the name of an encoding"),
        ({"decimal": ";"}, "`decimal` must be one of"),
        ({"thousands": "_"}, "`thousands` must be one of"),
        ({"decimal": ",", "thousands": ","}, "`thousands` must not be the decimal mark"),
        ({"missing": [None]}, "`missing` must be a number or a text, or several"),
        ({"missing": True}, "`missing` must be a number or a text, or several"),
        ({"date_format": "%Y%m%d"}, "`date_format` must have something between"),
    ],
)
def test_what_is_no_dialect_is_refused(options, message):
    with pytest.raises(ExfamError, match=message):
        Dialect(**options)


def test_a_number_beyond_all_floats_marks_what_is_infinite():
    assert Dialect(missing=10**400).numbers == (float("inf"),)


def test_what_is_said_leaves_fewer_ways():
    assert allowed_numerals(Dialect(decimal=".", thousands="")) == (Numerals(),)
    assert {way.decimal for way in allowed_numerals(Dialect(thousands=","))} == {"."}
    assert agreed([]) is None
