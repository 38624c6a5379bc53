"""Text in `order` and `position` sorts by what it writes, the same in frames, files and queries."""

import numpy as np
import pandas as pd
import pyarrow as pa
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
from exfam.columns.columns import sortable_text
from reading.cases import FORMS

# Texts in their right order, which is not that of their letters.
SORTED = {
    "day first": ["12/31/2023", "01/15/2024", "02/01/2024"],
    "month first": ["31/12/2023", "15/01/2024", "01/02/2024"],
    "points and times": ["31.12.2023 23:59", "01.01.2024 00:01"],
    "names of months": ["05 Dec 2023", "15 Jan 2024", "02 Feb 2024"],
    "without zeros": ["2023/9/30", "2023/10/1"],
    "digits alone": ["14052023", "01062023"],
    "digits alone, month first": ["05142023", "06012023"],
    "months": ["12/2023", "01/2024"],
    "months with points": ["12.2023", "01.2024"],
    "years of two digits": ["31/12/98", "01/01/99"],
    "padded numbers": ["00000012", "00000100"],
    "zones": ["2024-01-01T10:00+02:00", "2024-01-01T09:00Z"],
    "numbers": ["9", "10", "100"],
    "fractions": ["-10.5", "-9.25", "3"],
    "numbered names": ["t9", "t10", "t100"],
    "weeks": ["2023-W52", "2024-W1", "2024-W10"],
    "hours": ["8:30", "9:15", "10:05"],
}
REFUSED = {
    "ambiguous digits": (
        ["12052023", "01062023"],
        "dates that can be read in one way, got '01062023' at row 1.* of column 'when', which",
    ),
    "one is no date": (["2024-01-15", "soon"], r"got 'soon' at row 1.* \(1 of 2 rows\)"),
    "days of the week": (
        ["mon", "fri"],
        "names with one number .*got 'mon' at row 0.* has no order",
    ),
    "fractions in names": (["t1.5", "t1.25"], "names with one number each"),
    "signs": (["-5 days", "-10 days"], "names with one number each"),
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

    read_in.__name__ = name
    return read_in


IN_CSV, IN_JSON = in_form("csv"), in_form("json lines")
READERS = (in_frame, IN_CSV, IN_JSON, in_form("parquet"), in_prepared, in_form("sqlite query"))


@pytest.mark.parametrize("read_in", READERS)
@pytest.mark.parametrize("texts", SORTED.values(), ids=SORTED)
def test_text_sorts_by_what_it_writes(tmp_path, read_in, texts):
    assert read_in(frame_of(texts), tmp_path).item.tolist() == list(range(len(texts)))


@pytest.mark.parametrize("read_in", READERS)
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


@pytest.mark.parametrize("read_in", [in_frame, IN_CSV, IN_JSON])
@pytest.mark.parametrize(("texts", "match"), REFUSED.values(), ids=REFUSED)
def test_other_text_is_refused(tmp_path, read_in, texts, match):
    frame = {"user": ["a"] * len(texts), "when": texts, "rank": list(range(len(texts)))}
    with pytest.raises(DataError, match=match):
        read_in(frame, tmp_path)


def test_errors_count_all_rows_and_name_the_file(tmp_path):
    for name, days in (("a.csv", ["2024-01-15"] * 3), ("b.csv", ["2024-01-16", "soon", "soon"])):
        rows = "".join(f"u,{day},{k}\n" for k, day in enumerate(days))
        (tmp_path / name).write_text("user,when,rank\n" + rows)
    match = r"Column 'when' must hold dates .* got 'soon' at row 1 in .*b.csv \(2 of 6 rows\)"
    with pytest.raises(DataError, match=match):
        read(tmp_path, group="user", order="when", item="rank")


@pytest.mark.parametrize("read_in", [in_frame, IN_CSV, IN_JSON])
def test_a_format_of_digits_alone_is_refused(tmp_path, read_in):
    match = "`date_format` must have something between its numbers, got '%d%m%Y'"
    with pytest.raises(ExfamError, match=match):
        read_in(frame_of(["1/2/2024"]), tmp_path, date_format="%d%m%Y")
    with pytest.raises(ExfamError, match="`date_format` must be text that UTF-8 can write, got"):
        read_in(frame_of(["1/2/2024"]), tmp_path, date_format="\ud800")
    with pytest.raises(DataError, match="`date_format` must be 'iso' or a format of"):
        read_in(frame_of(["1/2/2024"]), tmp_path, date_format="%Q")


@pytest.mark.parametrize("form", ["csv", "json lines", "parquet"])
def test_dates_in_position_are_days(tmp_path, form):
    frame = {"user": ["a", "a"], "when": ["31/12/2023", "02/01/2024"], "rank": [0, 1]}
    names = dict(group="user", item="rank", position="when")
    of_file = read(**FORMS[form](frame, tmp_path), **names)
    for groups in (Groups.from_frame(frame, **names), of_file, read(frame, **names)):
        assert groups.position.tolist() == [19722, 19724]


@pytest.mark.parametrize("texts", [["a", "b"], ["t9", "t10"]])
def test_other_text_in_position_is_refused(tmp_path, texts):
    frame = {"user": ["a", "a"], "when": texts, "rank": [0, 1]}
    names = dict(group="user", item="rank", position="when")
    pd.DataFrame(frame).to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        with pytest.raises(
            DataError, match=f"`position` must be numeric, got '{texts[0]}' at row 0"
        ):
            read(source, **names)
    with pytest.raises(DataError, match="`position` must be numeric"):
        Groups.from_frame(frame, **names)
    pd.DataFrame({**frame, "when": [None, None]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="`position` must not be missing"):
        read(tmp_path / "a.csv", **names)


def test_distinct_texts_may_share_a_key():
    keys = sortable_text(pa.array(["1", "1.0", "01"]), name="n")
    assert keys.to_pylist() == [1, 1, 1]


@pytest.mark.parametrize("source", ["frame", "file"])
def test_estimators_take_the_format_that_their_errors_name(tmp_path, source):
    days = ["01/02/2024", "03/01/2024", "02/03/2024"]
    frame = {"user": ["a"] * 3 + ["b"] * 3, "when": days * 2, "movie": list("xyzzxy")}
    names = dict(group="user", order="when", item="movie", direction="causal")
    quick = dict(parts="items", max_epochs=1, embed_dim=4, validation_fraction=0, progress=False)
    data = frame
    if source == "file":
        data = tmp_path / "a.csv"
        pd.DataFrame(frame).to_csv(data, index=False)
    with pytest.raises(DataError, match="Name the right one in `date_format`"):
        EFA(**names, **quick).fit(data)
    model = EFA(**names, date_format="%d/%m/%Y", **quick).fit(data)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    groups = read(frame, group="user", order="when", item="movie", date_format="%d/%m/%Y")
    assert loaded.date_format == "%d/%m/%Y"
    assert loaded.score(data) == model.score(data) == model.score(groups)
    with pytest.raises(ExfamError, match="`date_format` must have something between its numbers"):
        EFA(**names, date_format="%d%m%Y", **quick).fit(data)


def test_fields_take_the_format_that_their_errors_name(tmp_path):
    days = ["01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"]
    frame = {"day": np.repeat(days, 2), "city": ["Oslo", "Bonn"] * 4, "x": [0, 1] * 4}
    frame["t"] = np.arange(8.0)
    columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    with pytest.raises(DataError, match="Name the right one in `date_format`"):
        FieldClimatology(**columns).fit(frame)
    model = FieldClimatology(**columns, date_format="%d/%m/%Y").fit(frame)
    model.save(tmp_path / "model")
    groups = read_field(frame, date_format="%d/%m/%Y", **columns)
    assert load(tmp_path / "model").score(frame) == model.score(groups)
