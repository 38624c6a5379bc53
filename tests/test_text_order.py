"""Text in `order` and `position` sorts by what it writes, the same in frames, files and queries."""

import numpy as np
import pandas as pd
import pytest

from exfam import (
    EFA,
    DataError,
    ExfamError,
    FieldClimatology,
    Groups,
    load,
    prepare,
    read,
    read_field,
)
from reading.cases import FORMS

# Texts in their right order, which is not that of their letters.
SORTED = {
    "day first": ["12/31/2023", "01/15/2024", "02/01/2024"],
    "month first": ["31/12/2023", "15/01/2024", "01/02/2024"],
    "points and times": ["31.12.2023 23:59", "01.01.2024 00:01"],
    "names of months": ["05 Dec 2023", "15 Jan 2024", "02 Feb 2024"],
    "without zeros": ["2023/9/30", "2023/10/1"],
    "digits alone": ["14052023", "01062023"],
    "months": ["12/2023", "01/2024"],
    "years of two digits": ["31/12/98", "01/01/99"],
    "padded numbers": ["00000012", "00000100"],
    "zones": ["2024-01-01T10:00+02:00", "2024-01-01T09:00Z"],
    "numbers": ["9", "10", "100"],
    "numbered names": ["t9", "t10", "t100"],
    "weeks": ["2023-W52", "2024-W1", "2024-W10"],
}
REFUSED = {
    "ambiguous digits": (
        ["12052023", "01062023"],
        "dates that can be read in one way, got '01062023' at row 1.* of column 'when', which",
    ),
    "one is no date": (["2024-01-15", "soon"], r"got 'soon' at row 1.* \(1 of 2 rows\)"),
    "days of the week": (["mon", "fri"], "names with one number .*got 'mon' at row 0.* no order"),
    "quarters": (["Q4 2023", "Q1 2024"], "or name the format of dates in `date_format`"),
    "infinity": (["1", "inf"], "`order` must (hold numbers, dates or names|be finite)"),
}


def frame_of(texts):
    """The texts of one group, shuffled, and their right rank as items."""
    rank = np.random.default_rng(0).permutation(len(texts))
    return {"user": ["a"] * len(texts), "when": [texts[k] for k in rank], "rank": rank.tolist()}


NAMES = dict(group="user", order="when", item="rank")


def in_frame(frame, folder, **options):
    return Groups.from_frame(frame, **NAMES, **options)


def in_prepared(frame, folder, **options):
    return prepare(frame, folder / "prepared", overwrite=True, **NAMES, **options)


def in_form(name):
    def read_in(frame, folder, **options):
        own = folder / f"{len(list(folder.iterdir()))}"
        own.mkdir()
        return read(**FORMS[name](frame, own), **NAMES, **options)

    return read_in


READERS = {"frame": in_frame, "prepared": in_prepared}
READERS |= {name: in_form(name) for name in ("csv", "json lines", "parquet", "sqlite query")}
every_reader = pytest.mark.parametrize("read_in", READERS.values(), ids=READERS)


@every_reader
@pytest.mark.parametrize("texts", SORTED.values(), ids=SORTED)
def test_text_sorts_by_what_it_writes(tmp_path, read_in, texts):
    assert read_in(frame_of(texts), tmp_path).item.tolist() == list(range(len(texts)))


@every_reader
def test_ambiguous_dates_are_read_as_named(tmp_path, read_in):
    frame = {
        "user": ["a"] * 3,
        "when": ["01/02/2024", "03/01/2024", "02/03/2024"],
        "rank": [0, 1, 2],
    }
    by_day = read_in(frame, tmp_path, date_format="%d/%m/%Y")
    assert by_day.item.tolist() == [1, 0, 2]
    by_month = read_in(frame, tmp_path, date_format="%m/%d/%Y")
    assert by_month.item.tolist() == [0, 2, 1]


@pytest.mark.parametrize("reader", ["frame", "csv"])
@pytest.mark.parametrize(("texts", "match"), REFUSED.values(), ids=REFUSED)
def test_other_text_is_refused(tmp_path, reader, texts, match):
    frame = {"user": ["a"] * len(texts), "when": texts, "rank": list(range(len(texts)))}
    with pytest.raises(DataError, match=match):
        READERS[reader](frame, tmp_path)


def test_errors_count_all_rows_and_name_the_file(tmp_path):
    for name, days in (("a.csv", ["2024-01-15"] * 3), ("b.csv", ["2024-01-16", "soon", "soon"])):
        rows = "".join(f"u,{day},{k}\n" for k, day in enumerate(days))
        (tmp_path / name).write_text("user,when,rank\n" + rows)
    match = r"Column 'when' must hold dates .* got 'soon' at row 1 in .*b.csv \(2 of 6 rows\)"
    with pytest.raises(DataError, match=match):
        read(tmp_path, group="user", order="when", item="rank")


@pytest.mark.parametrize(
    ("date_format", "match"),
    [
        ("%d%m%Y", "`date_format` must have something between its numbers, got '%d%m%Y'"),
        ("\ud800", "`date_format` must be text that UTF-8 can write, got"),
        ("%Q", "`date_format` must be 'iso' or a format of"),
    ],
)
def test_a_format_of_digits_alone_or_none_is_refused(tmp_path, date_format, match):
    for reader in ("frame", "csv"):
        with pytest.raises(ExfamError, match=match):
            READERS[reader](frame_of(["1/2/2024"]), tmp_path, date_format=date_format)


def test_dates_in_position_are_days(tmp_path):
    frame = {"user": ["a", "a"], "when": ["31/12/2023", "02/01/2024"], "rank": [0, 1]}
    names = dict(group="user", item="rank", position="when")
    of_files = [read(**FORMS[form](frame, tmp_path), **names) for form in ("csv", "parquet")]
    for groups in (Groups.from_frame(frame, **names), *of_files):
        assert groups.position.tolist() == [19722, 19724]


def test_text_with_numbers_in_position_is_these(tmp_path):
    frame = {"user": ["a", "a"], "when": ["t10", "t9"], "rank": [0, 1]}
    names = dict(group="user", item="rank", position="when")
    pd.DataFrame(frame).to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        assert read(source, **names).position.tolist() == [10, 9]


def test_other_text_in_position_is_refused(tmp_path):
    frame = {"user": ["a", "a"], "when": ["soon", "later"], "rank": [0, 1]}
    names = dict(group="user", item="rank", position="when")
    pd.DataFrame(frame).to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        with pytest.raises(DataError, match="`position` must be numeric, got 'soon' at row 0"):
            read(source, **names)
    pd.DataFrame({**frame, "when": [None, None]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="`position` must not be missing"):
        read(tmp_path / "a.csv", **names)


def test_estimators_take_the_format_that_their_errors_name(tmp_path):
    days = ["01/02/2024", "03/01/2024", "02/03/2024"]
    frame = {"user": ["a"] * 3 + ["b"] * 3, "when": days * 2, "movie": list("xyzzxy")}
    pd.DataFrame(frame).to_csv(tmp_path / "a.csv", index=False)
    names = dict(group="user", order="when", item="movie", direction="causal")
    quick = dict(parts="items", max_epochs=1, embed_dim=4, validation_fraction=0, progress=False)
    model = EFA(**names, date_format="%d/%m/%Y", **quick).fit(frame)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.date_format == "%d/%m/%Y"
    for data in (frame, tmp_path / "a.csv"):
        with pytest.raises(DataError, match="Name the right one in `date_format`"):
            EFA(**names, **quick).fit(data)
        assert loaded.score(data) == model.score(frame)


def test_fields_take_the_format_that_their_errors_name():
    days = ["01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"]
    frame = {"day": np.repeat(days, 2), "city": ["Oslo", "Bonn"] * 4, "x": [0, 1] * 4}
    frame["t"] = np.arange(8.0)
    columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    with pytest.raises(DataError, match="Name the right one in `date_format`"):
        FieldClimatology(**columns).fit(frame)
    model = FieldClimatology(**columns, date_format="%d/%m/%Y").fit(frame)
    assert model.score(frame) == model.score(read_field(frame, date_format="%d/%m/%Y", **columns))
