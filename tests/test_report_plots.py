"""Pictures that reports are made of."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from exfam import plots
from exfam.plots.style import drawable, name_width, shortened, write_name
from exfam.report.inline import inline_svg
from exfam.scores.calibration import Reliability

STRANGE = ["$x$ & <b>", "$", "寿司 🍣", "naïve\u200d", "a\ud800b", "_^{\\frac", "é\u0301"]


def drawn_words(figure):
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize("name", STRANGE)
def test_any_name_can_be_drawn_anywhere(name):
    drawn_words(plots.interval_rows([name, "b"], np.zeros((2, 3)), metric="nats"))
    figure = plots.item_map(np.array([[0.0, 0.0], [1.0, 1.0]]), [name, "b"])
    assert drawable(name) in drawn_words(figure)


def test_only_letters_without_a_picture_are_replaced():
    assert drawable("tea 茶 ☕") == "tea □ ☕"
    assert drawable("plain, naïve, Ω") == "plain, naïve, Ω"
    assert drawable("a\u200d\ue000b") == "ab"
    assert shortened("a  b\n c", most=9) == "a b c"
    assert len(shortened("word " * 30, most=20)) == 20


def test_a_page_shows_the_letters_that_the_picture_lacks():
    figure = plots.interval_rows(["寿司 <b>", "plain"], np.zeros((2, 3)), metric="nats")
    svg = inline_svg(figure, title="t", prefix="p-")
    assert "寿司 &lt;b&gt;</text>" in svg and ">plain</text>" in svg
    assert "□" not in svg and "name:" not in svg
    figure = Figure()
    figure.subplots().set_xlabel("0.123456")
    assert ">0.123456</text>" in inline_svg(figure, title="t", prefix="p-"), "words keep digits"


def test_widths_of_names_are_those_that_matplotlib_measures():
    figure = Figure(figsize=(6, 1), dpi=720)
    for name in ("Star Wars (1977)", "iiiiiiiiii", "WWWWW"):
        text = write_name(figure.text(0, 0, "", fontsize=10), name)
        box = text.get_window_extent(FigureCanvasAgg(figure).get_renderer())
        assert name_width(name, size=10.0) == pytest.approx(box.width / 10, rel=0.05, abs=0.5)


@pytest.mark.parametrize("n", [5, 60, 300])
def test_names_on_a_map_overlap_neither_each_other_nor_the_edge(n):
    points = np.random.default_rng(n).normal(size=(n, 2))
    names = [f"item number {i}" for i in range(n)]
    figure = plots.item_map(points, names, weight=np.linspace(2, 1, n))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    # The font's exact extents differ from the estimate by less than two points.
    room = [text.get_window_extent(canvas.get_renderer()).padded(-2.0) for text in axes.texts]
    assert 5 <= len(room) <= n
    for index, box in enumerate(room):
        assert not any(box.overlaps(other) for other in room[:index])
        assert axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0 and box.y1 <= axes.bbox.y1


def test_of_names_at_one_point_the_first_is_kept():
    shown = drawn_words(plots.item_map(np.zeros((40, 2)), [f"item {i}" for i in range(40)]))
    assert "item 0" in shown and len(shown) < 12
    assert drawn_words(plots.item_map(np.zeros((0, 2)), [])) == []


@pytest.mark.parametrize(
    "value",
    [np.array([3, 3, 9]), np.arange(2000), np.random.default_rng(0).normal(size=500), np.ones(4)],
)
def test_bars_count_every_value_once(value):
    bars = plots.histogram(value, label="value").axes[0].patches
    assert sum(bar.get_height() for bar in bars) == len(value)
    assert len(bars) <= 45


def test_bars_of_long_tails_say_what_they_leave_out():
    value = np.append(np.random.default_rng(0).normal(size=5000), 1e6)
    axes = plots.histogram(value, label="value").axes[0]
    left = 5001 - sum(bar.get_height() for bar in axes.patches)
    assert 0 < left <= 0.011 * 5001
    assert axes.get_xlabel() == f"value ({left:.0f} beyond the axis)"


@pytest.mark.parametrize("error", [1.0, 0.5])
def test_dots_of_calibrated_items_lie_on_the_line(error):
    predicted = np.full(20, 100.0)
    result = Reliability(150 * 2 ** np.arange(20), predicted, error * predicted, predicted)
    line, dots = plots.reliability_diagram(result).axes[0].lines
    assert_allclose(dots.get_ydata(), error * dots.get_xdata())
    assert_allclose(line.get_xdata(), line.get_ydata())


def test_a_coverage_curve_is_the_share_inside_each_central_interval():
    integral = np.random.default_rng(0).beta(2, 2, 300)
    axes = plots.coverage_curve(integral).axes[0]
    curve = next(line for line in axes.lines if line.get_label() == "this model")
    for level, share in curve.get_xydata()[::20]:
        low, high = 0.5 - level / 2, 0.5 + level / 2
        assert share == pytest.approx(((integral >= low) & (integral <= high)).mean())
    dots = {line.get_xdata()[0]: line.get_ydata()[0] for line in axes.lines if line is not curve}
    assert dots[0.8] == ((integral >= 0.1) & (integral <= 0.9)).mean() > 0.85
