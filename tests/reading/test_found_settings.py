"""What a fit found of its files decides where later ones could be read in several ways."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from exfam import EFA, DataError, FieldClimatology, Groups, Marginal, load
from exfam.columns.dialect import Dialect
from exfam.columns.parts import FrameColumns
from exfam.dates import parse_dates
from exfam.files import write_atomically
from exfam.groups.frames import read_frame
from exfam.reading.database import ReadingOptions
from exfam.reading.reader import read_with_facts
from exfam.tables.data.table_files import read_marked

COLUMNS = {"group": "u", "item": "i", "value": "v"}
TRAINING = "u;i;v\na;tea;1,5\na;milk;2.234,25\nb;tea;7,5\n"
KNOWN = {"decimal": ",", "thousands": "."}


def written(path, text, encoding="utf-8"):
    path.write_text(text, encoding=encoding)
    return path


@pytest.mark.filterwarnings("ignore:.*read as")
def test_marks_that_mean_two_things_mean_what_they_did_in_training(tmp_path):
    model = Marginal(**COLUMNS, by_item=True).fit(written(tmp_path / "a.csv", TRAINING))
    assert model.file_settings_ == KNOWN
    model.save(tmp_path / "model")
    later = written(tmp_path / "b.csv", "u;i;v\nc;tea;1.234\nc;milk;2.345\n")
    meant = {"u": ["c", "c"], "i": ["tea", "milk"], "v": [1234.0, 2345.0]}
    for own in (model, copy.deepcopy(model), load(tmp_path / "model")):
        assert own.score(later) == own.score(meant)
    assert load(tmp_path / "model").file_settings_ == KNOWN
    commas = written(tmp_path / "c.csv", "u;i;v\nc;tea;1,234\n")
    assert model.score(commas) == model.score({"u": ["c"], "i": ["tea"], "v": [1.234]})
    points = Marginal(**COLUMNS).fit(written(tmp_path / "d.csv", "u,i,v\na,tea,1.5\nb,tea,2.5\n"))
    assert points.file_settings_ == {"decimal": "."}
    assert points.score(commas) == points.score({"u": ["c"], "i": ["tea"], "v": [1234]})
    again = points.fit({"u": ["a"], "i": ["tea"], "v": [1.0]})
    with pytest.raises(DataError, match="numbers that can be read in one way"):
        again.score(commas)


@pytest.mark.filterwarnings("ignore:.*read as")
def test_an_encoding_that_fits_no_rule_is_that_of_training(tmp_path):
    known = {"encoding": "cp1252"}
    odd = written(tmp_path / "a.csv", "u,i,v\na,\u00c3\u00bc\u00d7\u00c3\u00bc,1\n", "cp1252")
    columns = FrameColumns(**COLUMNS)
    with pytest.raises(DataError, match="Name its encoding"):
        read_with_facts(odd, columns, options=ReadingOptions())
    options = ReadingOptions(dialect=Dialect(likely=known))
    groups, _ = read_with_facts(odd, columns, options=options)
    assert groups.vocabulary["item"].tolist() == ["\u00c3\u00bc\u00d7\u00c3\u00bc"]


def test_days_and_months_come_in_the_order_of_training(tmp_path):
    columns = {"time": "day", "site": "s", "value": "v", "coordinates": ["x", "y"]}
    rest = {"s": ["a", "a"], "x": [0.0, 0.0], "y": [0.0, 0.0], "v": [1.0, 2.0]}
    model = FieldClimatology(**columns).fit({"day": ["31/01/2024", "01/02/2024"], **rest})
    model.save(tmp_path / "model")
    some = {"day": ["03/01/2024", "05/02/2024"], **rest}
    iso = {"day": ["2024-01-03", "2024-02-05"], **rest}
    with pytest.raises(DataError, match="dates that can be read in one way"):
        FieldClimatology(**columns).fit(some)
    np.testing.assert_array_equal(load(tmp_path / "model").log_prob(some), model.log_prob(iso))
    both_alike = FieldClimatology(**columns).fit({"day": ["05/05/2024", "06/06/2024"], **rest})
    assert both_alike.file_settings_ == {}


def zoned(zone):
    return pd.date_range("2024-01-01", periods=2, tz=zone)


def test_times_without_a_zone_are_refused_where_training_had_one(tmp_path):
    message = "must hold times with a time zone, as in training"
    columns = {"time": "t", "site": "s", "value": "v", "coordinates": ["x", "y"]}
    rest = {"s": ["a", "a"], "x": [0.0, 0.0], "y": [0.0, 0.0], "v": [1.0, 2.0]}
    field = FieldClimatology(**columns).fit(pd.DataFrame({"t": zoned("Asia/Tokyo"), **rest}))
    field.score(pd.DataFrame({"t": zoned("UTC"), **rest}))
    for times in (zoned(None), ["2024-01-01", "2024-01-02"]):
        with pytest.raises(DataError, match=message):
            field.score(pd.DataFrame({"t": times, **rest}))
    group = FrameColumns(group="s", position="t")
    text = {"s": ["a"], "t": ["2024-01-01T12:00+01:00"]}
    learning: dict[str, str] = {}
    assert isinstance(read_frame(text, group, dialect=Dialect(found=learning)), Groups)
    assert learning == {"time_zone t": "an offset from UTC"}
    known = Dialect(likely=learning)
    pq = pa.table({"s": ["a", "a"], "t": pa.array(zoned(None))})
    with pytest.raises(DataError, match=message):
        read_frame(pq, group, dialect=known)
    with pytest.raises(DataError, match=message):
        read_with_facts(pq, group, options=ReadingOptions(dialect=known))
    for naive in ({"t": zoned(None)}, {"t": ["2024-01-01T12:00"]}):
        with pytest.raises(DataError, match=message):
            read_marked(naive, known)
    read_marked({"t": zoned("UTC"), "other": zoned(None)}, known)


def test_a_column_has_zones_in_all_rows_or_in_none():
    with pytest.raises(DataError, match=r"zone in all rows or in none, got '2024-01-01T12:00' at"):
        parse_dates(["2024-01-01T12:00Z", "2024-01-01T12:00"], name="t")


def test_a_tilde_is_the_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.csv", "u,i,v\na,tea,1.5\nb,tea,2.5\n")
    Marginal(**COLUMNS).fit("~/a.csv").save("~/model")
    assert load("~/model").score(Path("~/a.csv")) == load(tmp_path / "model").score("a.csv")
    assert write_atomically("~/b.txt", "") == tmp_path / "b.txt" and not Path("~").exists()


def test_a_refit_forgets_and_a_failed_fit_keeps(tmp_path):
    model = EFA(group="u", item="i", value="v")
    model.file_settings_ = KNOWN
    with pytest.raises(DataError, match="`item` must name a column of the frame"):
        model.fit({"u": [1]})
    assert model.file_settings_ == KNOWN and model.dialect.found is None
