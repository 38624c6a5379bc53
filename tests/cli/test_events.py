"""Models of events on the command line do what the library does."""

import numpy as np
import pytest

from events.event_cases import COLUMNS, FRAME, fitted
from exfam import cli, load

DAY = np.datetime64("2024-03-01T08:00") + (FRAME["when"] * 1440).astype("timedelta64[m]")
FIT = [
    "--model", "events", "--group", "patient", "--time", "when", "--item", "code",
    "--value", "level", "--resolution", "0.25",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `stays.csv` and a model of it."""
    folder = tmp_path_factory.mktemp("events")
    FRAME.to_csv(folder / "stays.csv", index=False)
    FRAME.assign(when=DAY.dt.strftime("%Y-%m-%dT%H:%M")).to_csv(folder / "dated.csv", index=False)
    words = ["fit", str(folder / "stays.csv"), *FIT]
    assert cli.main([*words, "-o", str(folder / "model")]) == 0
    return folder


def test_answers_are_those_of_the_library(folder, results):
    model, file = load(folder / "model"), folder / "stays.csv"
    assert {name: getattr(model, name) for name in COLUMNS} == COLUMNS
    nats = fitted().log_prob(FRAME)
    by_row = results("score", folder / "model", file, "--per-row")
    np.testing.assert_allclose([float(row["nats"]) for row in by_row], nats, rtol=1e-6)
    scores = {row["part"]: float(row["nats"]) for row in results("score", folder / "model", file)}
    assert scores["all"] == pytest.approx(nats.mean()) and set(scores) >= {"time", "item", "level"}
    found = results("predict", folder / "model", file, "--interval", "0.5")
    expected = fitted().predict(FRAME, interval=0.5)
    np.testing.assert_allclose([float(row["time"]) for row in found], expected.time)
    assert [row["item"] for row in found] == expected.item.tolist()
    reasons = results("explain", folder / "model", file, "--groups", "p3", "--top", "1")
    assert {row["group"] for row in reasons} == {"p3"}
    facts = {row["name"]: row["value"] for row in results("info", folder / "model")}
    assert facts["calendar"] == "False" and "EventEFA" in facts.values()


def test_a_fit_shows_what_was_tried(folder, run, tmp_path):
    words = ["fit", folder / "dated.csv", *FIT, "-o", tmp_path / "model", "--format", "csv"]
    status, out, _ = run(*words)
    assert status == 0 and '"nats_time","nats_item"' in out
    status, out, _ = run("predict", tmp_path / "model", folder / "dated.csv", "--format", "csv")
    assert status == 0 and "2024-03-" in out


def test_a_report_has_what_came_and_what_was_expected(folder, run, tmp_path):
    page = tmp_path / "page.html"
    status, _, err = run("report", folder / "model", folder / "stays.csv", "-o", page)
    assert status == 0 and "page.html" in err
    assert "Calibration of counts" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (FIT[:4], "`--time` must name a column of"),
        ([*FIT, "--checkpoint", "c"], "`--checkpoint` must be left out for a model of events"),
    ],
)
def test_bad_fits_are_refused(folder, refusal, tmp_path, words, message):
    assert message in refusal("fit", folder / "stays.csv", *words, "-o", tmp_path / "model")


def test_bad_answers_are_refused(folder, refusal):
    given = (folder / "model", folder / "stays.csv")
    assert "`MODEL` must be of groups, not of events, got EventEFA" in refusal("recommend", *given)
    message = "`--groups` must be groups of the file, got 'zzz'"
    assert message in refusal("explain", *given, "--groups", "zzz")
