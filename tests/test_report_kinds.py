"""What reports of all kinds of models have in common, and what is right in each."""

import re

import numpy as np
import pytest

from exfam import Community
from exfam.checks import ExfamError
from exfam.explorer import write_explorer
from exfam.report import write_report
from page_reader import LOADED_FROM, Reader
from report_kinds import (
    KINDS,
    RESPONSES,
    ROOM,
    SCRIPT,
    cells,
    event_model,
    field_data,
    field_model,
    of_model,
    report_of,
    sites_and_species,
    stays,
    table_model,
    text_of,
    widest_picture,
)
from small_forests import small_forests

LARGEST = 2_000_000
PAIRS = "Who occurs with whom"
FIRST = ("How good", "Against what", "What attention adds")
every_kind = pytest.mark.parametrize("kind", KINDS)


def sections(text):
    parts = re.split(r'<h2 id="s\d+">(.*?)</h2>', text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def cell_rows(text):
    """The words of each row of the tables in a part of a page."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, flags=re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.DOTALL) for row in rows]


@every_kind
def test_a_page_is_small_whole_loads_nothing_and_cuts_no_picture(kind):
    text = report_of(kind)
    reader = Reader(text)
    assert reader.open == [] and len(set(reader.ids)) == len(reader.ids)
    assert len(text.encode()) < LARGEST
    assert not LOADED_FROM.findall(text)
    assert widest_picture(text) <= ROOM


@every_kind
def test_what_matters_comes_first_in_sentences(kind):
    text = report_of(kind)
    summary = text[text.index('<dl class="summary">') : text.index("</dl>")]
    said = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", summary))
    assert set(FIRST) <= said.keys()
    assert all(sentence.endswith(".") for sentence in said.values())
    assert text.index('class="summary"') < text.index("<h2")


@every_kind
def test_hostile_names_are_words(kind):
    text = report_of(kind)
    assert SCRIPT in Reader(text).words or SCRIPT in " ".join(Reader(text).words)
    assert "alert(1)" not in re.findall(r"<script[^>]*>(.*?)</script>", text, flags=re.DOTALL)
    assert "<b>" not in text and "49" not in re.findall(r"x_1\$ (\d+)", text)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_scores_of_a_response_are_the_models_own(kind):
    model, name = table_model(kind), RESPONSES[kind]
    new = of_model(kind, cells(seed=2, moved=0.5))
    rows = {row[0]: row for row in cell_rows(sections(report_of(kind))["Scores by column"]) if row}
    nats, measure = rows["this model"][1:]
    X, y = new.drop(columns=name), new[name]
    assert f"{model.log_score(X, y):.3f}".replace("-", "\N{MINUS SIGN}") == nats.split(" ±")[0]
    assert f"{model.score(X, y):.3f}".replace("-", "\N{MINUS SIGN}") == measure
    assert {"own distribution", "boosted trees"} <= rows.keys()


def test_columns_that_moved_are_marked_and_named_first():
    text = report_of("joint")
    marked = re.findall(r'<tr class="marked"><td class="word">(.*?)</td>', sections(text)["Shift"])
    assert marked
    assert "The data are not like the training data" in text[: text.index("<h2")]


def test_columns_that_say_the_same_and_seen_rows_are_warned_of():
    frame = of_model("classifier", cells(seed=1))
    model = table_model("classifier")
    text = text_of(model, frame, baselines=False)
    assert "200 rows" not in text and "among those that the model was fitted on" in text
    twice = frame.assign(again=2 * frame[SCRIPT] + 1)
    with small_forests():
        fitted = type(model)(progress=False).fit(twice.drop(columns="tier"), twice.tier)
    assert "Columns that say the same" in text_of(fitted, twice, baselines=False)


def test_a_table_alone_leaves_out_what_needs_data():
    text = sections(text_of(table_model("joint")))
    empty = {name for name, part in text.items() if "<p>Left out: " in part}
    assert empty == set(text) - {"The model"}


def test_scores_of_a_field_are_the_models_own():
    _, new = field_data()
    rows = {row[0]: row for row in cell_rows(sections(report_of("field"))["Scores"]) if row}
    prediction = field_model().predict_dist(new)
    value = new.value.to_numpy()
    there = ~np.isnan(value)
    nats, crps, rmse = rows["this model"][1:]
    assert f"{field_model().score(new):.3f}".replace("-", "\N{MINUS SIGN}") == nats.split(" ±")[0]
    assert f"{prediction.crps(value)[there].mean():.3f}" == crps
    error = (prediction.center - value)[there]
    assert f"{np.sqrt((error**2).mean()):.3f}" == rmse
    assert {"climatology", "kriging"} <= rows.keys()


def test_a_field_without_training_data_is_compared_on_its_last_maps():
    _, new = field_data()
    text = text_of(field_model(), new)
    assert "fitted on the first 12 maps of the data" in text
    alone = sections(text_of(field_model()))
    empty = {name for name, part in alone.items() if "<p>Left out: " in part}
    assert empty == {"Stations", "Scores", "Calibration", "Site by site", "Series"}


def test_scores_and_counts_of_events_are_the_models_own():
    model, page = event_model(), sections(report_of("events"))
    rows = {(row[0], row[1]): row[2] for row in cell_rows(page["Scores"]) if row}
    parts = model.log_prob_parts(stays(seed=1))
    for part in ("time", "item"):
        mean = f"{np.nanmean(parts[part]):.3f}".replace("-", "\N{MINUS SIGN}")
        assert rows[part, "this model"].split(" ±")[0] == mean
    assert {("time", name) for name in ("poisson", "renewal", "hawkes")} <= rows.keys()
    counts = dict(cell_rows(page["Calibration of counts"])[1:])
    found = model.count_calibration(stays(seed=1))
    assert counts["windows"] == str(len(found.count))
    assert counts["mean count"] == f"{found.count.mean():.3f}"
    alone = sections(text_of(model))
    empty = {name for name, part in alone.items() if "<p>Left out: " in part}
    assert empty == set(alone) - {"The model"}
    short = sections(text_of(model, stays().drop_duplicates("s")))
    assert "no wait ended in an event" in short["Calibration of times"]
    assert "no stream is observed for long enough" in short["Calibration of counts"]


def test_data_without_anything_to_predict_are_refused(tmp_path):
    path = tmp_path / "report.html"
    nothing = of_model("classifier", cells(n=12)).assign(tier=None)
    with pytest.raises(ExfamError, match="`data` must hold the response 'tier' in some row"):
        write_report(table_model("classifier"), nothing, path=path)
    _, new = field_data()
    with pytest.raises(ExfamError, match="`data` must hold at least one observed value, got none"):
        write_report(field_model(), new.assign(value=np.nan), path=path)
    with pytest.raises(ExfamError, match="`model` must be one that a report is written about"):
        write_report(object(), path=path)
    for write in (write_report, write_explorer):
        with pytest.raises(
            ExfamError, match=r"`path` must end in .html.*got '.pdf' in .*report.pdf"
        ):
            write(object(), path=tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_a_community_is_scored_with_and_without_the_other_species():
    sites = sites_and_species()
    model = Community(species=list(sites)[2:]).fit(sites)
    text = sections(report_of("community"))
    shares = {row[0]: row[1] for row in cell_rows(text["Knowing the others"]) if row}
    for share, name in ((0.0, "0 %"), (1.0, "100 %")):
        nats = f"{model.score(sites, share=share):.3f}".replace("-", "\N{MINUS SIGN}")
        assert shares[name].split(" ±")[0] == nats
    alone = sections(text_of(model))
    assert "Left out" in alone["Knowing the others"] and "The strongest pairs" in alone[PAIRS]
