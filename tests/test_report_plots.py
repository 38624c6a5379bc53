"""Pictures that reports are made of."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from exfam import plots
from exfam.checks import DataError, ExfamError
from exfam.efa.explain import Explanation
from exfam.plots.style import drawable, name_width, shortened, write_name
from exfam.report.inline import inline_svg
from exfam.scores.calibration import Reliability

STRANGE = ["$x$ & <b>", "$", "寿司 🍣", "naïve\u200d", "a\ud800b", "_^{\\frac", "é\u0301"]


def drawn_words(figure):
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize("name", STRANGE)
def test_any_name_can_be_drawn_anywhere(name):
    figure = plots.interval_rows([name, "b"], np.zeros((2, 3)), metric="nats")
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    figure = plots.item_map(np.array([[0.0, 0.0], [1.0, 1.0]]), [name, "b"])
    assert drawable(name) in drawn_words(figure)


def test_only_letters_without_a_picture_are_replaced():
    assert drawable("tea 茶 ☕") == "tea □ ☕"
    assert drawable("plain, naïve, Ω") == "plain, naïve, Ω"
    assert drawable("a\u200d\ue000b") == "ab"


def test_a_page_shows_the_letters_that_the_picture_lacks():
    figure = plots.interval_rows(["寿司 <b>", "plain"], np.zeros((2, 3)), metric="nats")
    svg = inline_svg(figure, title="t", prefix="p-")
    assert "寿司 &lt;b&gt;</text>" in svg and "□" not in svg
    assert ">plain</text>" in svg
    assert "name:" not in svg


def test_words_of_a_picture_keep_their_digits():
    figure = Figure()
    figure.subplots().set_xlabel("0.123456")
    assert ">0.123456</text>" in inline_svg(figure, title="t", prefix="p-")


def test_names_are_cut_to_length_and_line():
    assert shortened("a  b\n c", most=9) == "a b c"
    assert len(shortened("word " * 30, most=20)) == 20


def test_widths_of_names_are_those_that_matplotlib_measures():
    figure = Figure(figsize=(6, 1), dpi=720)
    for name in ("Star Wars (1977)", "iiiiiiiiii", "WWWWW"):
        text = figure.text(0, 0, "", fontsize=10)
        write_name(text, name)
        box = text.get_window_extent(FigureCanvasAgg(figure).get_renderer())
        assert name_width(name, size=10.0) == pytest.approx(box.width / 10, rel=0.05, abs=0.5)


def boxes(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    return [text.get_window_extent(renderer) for text in figure.axes[0].texts], figure.axes[0]


@pytest.mark.parametrize("n", [5, 60, 300])
def test_names_on_a_map_overlap_neither_each_other_nor_the_edge(n):
    points = np.random.default_rng(n).normal(size=(n, 2))
    names = [f"item number {i}" for i in range(n)]
    placed, axes = boxes(plots.item_map(points, names, weight=np.linspace(2, 1, n)))
    assert 5 <= len(placed) <= n
    # The font's exact extents differ from the estimate by less than two points.
    room = [box.padded(-2.0) for box in placed]
    for index, box in enumerate(room):
        assert not any(box.overlaps(other) for other in room[:index])
        assert axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0 and box.y1 <= axes.bbox.y1


def test_of_two_names_at_one_place_the_first_is_kept():
    points = np.zeros((40, 2))
    shown = drawn_words(plots.item_map(points, [f"item {i}" for i in range(40)]))
    assert "item 0" in shown and len(shown) < 12


def test_a_map_of_no_items_is_empty():
    assert drawn_words(plots.item_map(np.zeros((0, 2)), [])) == []


def test_each_dot_and_row_needs_a_name():
    with pytest.raises(ExfamError, match="`names` must be one a point, got 1 names for 2 points"):
        plots.item_map(np.zeros((2, 2)), ["a"])
    with pytest.raises(ExfamError, match="`labels` must be one a row, got 0 labels for 1 interv"):
        plots.interval_rows([], np.zeros((1, 3)), metric="nats")


@pytest.mark.parametrize(
    "value",
    [np.array([3, 3, 9]), np.arange(2000), np.random.default_rng(0).normal(size=500), np.ones(4)],
)
def test_bars_count_every_value_once(value):
    figure = plots.histogram(value, label="value")
    bars = figure.axes[0].patches
    assert sum(bar.get_height() for bar in bars) == len(value)
    assert len(bars) <= 45


def test_bars_of_long_tails_say_what_they_leave_out():
    value = np.append(np.random.default_rng(0).normal(size=5000), 1e6)
    axes = plots.histogram(value, label="value").axes[0]
    left = 5001 - sum(bar.get_height() for bar in axes.patches)
    assert 0 < left <= 0.011 * 5001
    assert axes.get_xlabel() == f"value ({left:.0f} beyond the axis)"


def test_nothing_has_no_histogram():
    with pytest.raises(DataError, match="`value` must hold at least one finite value, got none"):
        plots.histogram(np.array([np.nan]), label="value")
    with pytest.raises(DataError, match="`integral` must hold at least one row, got none"):
        plots.integral_histogram(np.zeros(0))


def test_dots_of_calibrated_items_lie_on_the_line():
    pairs = 150 * 2 ** np.arange(20)
    predicted = np.full(20, 100.0)
    result = Reliability(pairs, predicted, predicted, predicted)
    line, dots = plots.reliability_diagram(result).axes[0].lines
    np.testing.assert_allclose(dots.get_xdata(), dots.get_ydata())
    np.testing.assert_allclose(line.get_xdata(), line.get_ydata())
    bold = Reliability(pairs, predicted, predicted / 2, predicted)
    _, dots = plots.reliability_diagram(bold).axes[0].lines
    assert (np.array(dots.get_xdata()) > np.array(dots.get_ydata())).all()


def test_bins_with_hardly_a_hit_are_not_drawn():
    few = np.full(20, 4.0)
    with pytest.raises(DataError, match="`reliability` must hold a bin with 5 expected hits"):
        plots.reliability_diagram(Reliability(np.full(20, 9), few, few, few))


def test_a_layer_is_the_mean_of_its_heads():
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 3))
    result = Explanation("u", list("abc"), [*"abc", "(mask)"], {"items": weights})
    axes = plots.layer_map(result, part="items", layer=2).axes[0]
    shown = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(shown, weights[1].mean(axis=0))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "?"]
    with pytest.raises(ExfamError, match="`layer` must be one of 1, 2, got 3"):
        plots.layer_map(result, part="items", layer=3)
