"""Figures and results as notebooks show them, and results as frames of the caller's kind."""

import io
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from exfam import plots
from exfam.checks import ExfamError
from exfam.columns.results import frame_kind_of, make_frame
from exfam.efa.recommend import Recommendations
from exfam.training import progress
from exfam.training.history import Epoch
from exfam.training.progress import EpochProgress, NotebookLine, StepProgress
from plot_cases import FIGURES, drawings
from result_cases import RECOMMENDED


def n_marks(figure):
    """How much is drawn in a figure, those inside it included."""
    return sum(len(axes.get_children()) for axes in figure.axes)


@pytest.mark.parametrize(("name", "given", "more"), FIGURES)
def test_a_plot_is_a_figure_of_its_own_or_is_drawn_on_the_axes_given(name, given, more):
    for drawing in drawings(name, given, more):
        assert_on_its_own_or_on_axes(*drawing)


def assert_on_its_own_or_on_axes(name, given, more):
    draw, before = getattr(plots, name), plt.get_fignums()
    own = draw(*given, **more)
    content, size = own._repr_png_()
    assert content.startswith(b"\x89PNG") and size["width"] == round(own.get_figwidth() * own.dpi)
    assert plt.get_fignums() == before, (
        "a figure of our own is not pyplot's, which would show it again"
    )
    whole, panels = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    before = n_marks(whole)
    assert draw(*given, **more, ax=panels[0]) is None
    whole.savefig(io.BytesIO(), format="png", dpi=30)
    assert n_marks(whole) > before and panels[1].has_data() is False
    plt.close(whole)


def test_a_picture_of_several_panels_needs_axes_of_a_grid():
    whole = plt.figure()
    with pytest.raises(ExfamError, match="`ax` must be axes of a grid, such as those of plt"):
        RECOMMENDED.plot(ax=whole.add_axes((0, 0, 1, 1)))
    plt.close(whole)


FRAMES = {
    "pandas": pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="key")),
    "polars": pl.DataFrame({"a": [1]}),
    "pyarrow": pa.table({"a": [1]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_of_the_kind_that_the_data_came_in(kind):
    frame = RECOMMENDED.like(FRAMES[kind]).to_frame()
    assert type(frame).__module__.split(".")[0] == kind
    columns = make_frame(RECOMMENDED.to_dict(), kind="pyarrow").to_pydict()
    assert pa.table(frame).to_pydict() == columns
    assert columns["item"] == ["milk", "tea", "salt", "milk"] and columns["rank"] == [1, 2, 1, 2]


def test_data_in_no_frame_and_lazy_ones_have_a_kind_too():
    others = [{"a": [1]}, "baskets.csv", [["milk"]], np.zeros(2), None]
    assert {frame_kind_of(data) for data in others} == {"pyarrow"}
    assert frame_kind_of(pl.LazyFrame({"a": [1]})) == "polars"
    assert frame_kind_of(pd.Series([1])) == "pandas"
    assert make_frame({"label": np.array(["a", 1], object)}, kind="pyarrow").to_pydict() == {
        "label": ["a", "1"]
    }
    with pytest.raises(ExfamError, match="`kind` must be a kind of frame that is installed, .*'x'"):
        RECOMMENDED.to_frame("x")


def test_what_is_shown_is_short_rounded_and_harmless():
    hostile = "<script>alert(1)</script>\n" + "x" * 100
    many = np.full((1, 20), hostile, object)
    shown = Recommendations(np.array(["u"]), many, np.full((1, 20), 1 / 3))
    lines = repr(shown).splitlines()
    assert lines[0] == "Recommendations: 20 rows of group, rank, item, probability"
    assert lines[-1] == "… 14 more. Call to_frame(), plot()." and len(lines) == 9
    assert all(len(line) < 100 for line in lines) and "0.3333" in lines[2]
    page = shown._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page


class Page:
    """What IPython's `display` leaves below a cell: the last text of each output."""

    def __init__(self):
        self.shown = []

    def display(self, data, *, raw, display_id=False):
        assert raw
        self.shown.append(data["text/plain"])
        return _Handle(self.shown, len(self.shown) - 1) if display_id else None


class _Handle:
    def __init__(self, shown, number):
        self.shown, self.number = shown, number

    def update(self, data, *, raw):
        self.shown[self.number] = data["text/plain"]


@pytest.fixture
def page(monkeypatch):
    """A notebook without ipywidgets."""
    page = Page()
    monkeypatch.setattr(progress, "_open_bar", lambda *_, **__: NotebookLine(page.display))
    monkeypatch.setattr(progress, "_is_seen", lambda _: True)
    return page


def test_progress_in_a_notebook_is_one_line_that_is_updated(page):
    with StepProgress("column", total=4, shown=True) as steps:
        for _ in range(3):
            steps.advance()
    (line,) = page.shown
    assert line.startswith("━" * 15 + "┄" * 5) and " 75%  column 3/4  " in line
    rows = [Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True)]
    with EpochProgress(shown=True, max_epochs=2) as epochs:
        epochs.draw([])
        time.sleep(0.11)
        epochs.draw(rows)
        epochs.say("Stopped by Ctrl-C.")
    # What is said stays, and the line goes on where it was.
    assert "epoch 1/2  validation 3.8000 nats" in page.shown[1]
    assert page.shown[2:] == ["Stopped by Ctrl-C."]


def test_progress_that_is_switched_off_shows_nothing(page):
    with StepProgress("column", total=4, shown=False) as steps:
        steps.advance()
    assert not page.shown
