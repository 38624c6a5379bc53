"""Pictures that reports are made of, and of tables, show the numbers that they were given."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from exfam import plots
from exfam.checks import ExfamError
from exfam.plots.style import drawable, shortened
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
    assert drawable("tea 茶 ☕, naïve, Ω") == "tea □ ☕, naïve, Ω"
    assert drawable("a\u200d\ue000b") == "ab"
    assert shortened("a  b\n c", most=9) == "a b c"
    assert len(shortened("word " * 30, most=20)) == 20


def test_words_on_a_page_keep_their_digits():
    figure = Figure()
    figure.subplots().set_xlabel("0.123456")
    assert ">0.123456</text>" in inline_svg(figure, title="t", prefix="p-")


@pytest.mark.parametrize("n", [5, 300])
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


def test_bars_count_every_value_once_and_say_what_they_leave_out():
    random = np.random.default_rng(0)
    for value in (np.array([3, 3, 9]), np.arange(2000), random.normal(size=500), np.ones(4)):
        bars = plots.histogram(value, label="value").axes[0].patches
        assert sum(bar.get_height() for bar in bars) == len(value) and len(bars) <= 45
    axes = plots.histogram(np.append(random.normal(size=5000), 1e6), label="value").axes[0]
    left = 5001 - sum(bar.get_height() for bar in axes.patches)
    assert 0 < left <= 0.011 * 5001
    assert axes.get_xlabel() == f"value ({left:.0f} beyond the axis)"


def test_dots_of_calibrated_items_lie_on_the_line():
    predicted = np.full(20, 100.0)
    result = Reliability(150 * 2 ** np.arange(20), predicted, 0.5 * predicted, predicted)
    line, dots = plots.reliability_diagram(result).axes[0].lines
    assert_allclose(dots.get_ydata(), 0.5 * dots.get_xdata())
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


CELLS = [f"column {i} = {i}" for i in range(4)]
WEIGHTS = np.array([0.1, 0.4, 0.2, 0.3])
PARTS = np.random.default_rng(0).normal(size=(4, 3))
LABELS = ["poor", "fair", "good"]


def texts(items):
    return [item.get_text() for item in items]


def widths(bars):
    return [bar.get_width() for bar in bars]


def test_experts_stand_in_the_order_of_their_weights_beside_what_they_add():
    left, right = plots.expert_bars(CELLS, WEIGHTS, PARTS, outputs=LABELS).axes
    order = [1, 3, 2, 0]
    assert texts(left.get_yticklabels()) == [CELLS[i] for i in order]
    assert widths(left.containers[0]) == WEIGHTS[order].tolist()
    centered = PARTS - PARTS.mean(1, keepdims=True)
    assert np.abs(centered - PARTS).min() > 1e-3
    for number, bars in enumerate(right.containers):
        np.testing.assert_allclose(widths(bars), centered[order, number])
    sums = zip(LABELS, centered.sum(0), strict=True)
    assert texts(right.get_legend().get_texts()) == [f"{name} (sum {x:+.2f})" for name, x in sums]
    # A single output is drawn as it is.
    axes = plots.expert_bars(CELLS, WEIGHTS, PARTS[:, :1], outputs=["mean"]).axes[1]
    np.testing.assert_allclose(widths(axes.containers[0]), PARTS[order, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": [], "weights": WEIGHTS[:0], "parts": PARTS[:0]}, "`cells` must name at least"),
        ({"cells": CELLS[1:]}, "`weights` must be one for each of 3 cells, got 4"),
        ({"outputs": LABELS[1:]}, "`outputs` must name each output, .* got 2 names for 3"),
        ({"parts": np.ones((4, 6)), "outputs": list("abcdef")}, "`outputs` must .* at most 5, got"),
    ],
)
def test_experts_that_cannot_be_drawn(change, message):
    given = {"cells": CELLS, "weights": WEIGHTS, "parts": PARTS, "outputs": LABELS, **change}
    outputs = given.pop("outputs")
    with pytest.raises(ExfamError, match=message):
        plots.expert_bars(*given.values(), outputs=outputs)


def test_scores_are_drawn_by_share_in_order():
    shares = np.array([0.5, 0.0, 0.25])
    scores = {"joint": np.array([0.6, 0.9, 0.8]), "trees": np.array([0.4, 0.95, np.nan])}
    axes = plots.missing_curves(shares, scores, metric="accuracy", references={"most": 0.3}).axes[0]
    joint, trees, line = axes.get_lines()
    assert joint.get_xdata().tolist() == [0.0, 0.25, 0.5]
    assert joint.get_ydata().tolist() == [0.9, 0.8, 0.6]
    np.testing.assert_array_equal(trees.get_ydata(), [0.95, np.nan, 0.4])
    assert set(line.get_ydata()) == {0.3} and axes.get_ylabel() == "accuracy"
    assert texts(axes.get_legend().get_texts()) == ["joint", "trees", "most"]


@pytest.mark.parametrize(
    ("shares", "scores", "message"),
    [
        ([0.0, 1.5], {}, r"`shares` must be in \[0, 1\], got"),
        ([0.0, 0.5], {}, "`scores` must hold at least one model to draw, got none"),
        ([0.0, 0.5], {"joint": np.ones(1)}, "`scores` must be one a share, got 1 of 'joint' for 2"),
    ],
)
def test_curves_that_cannot_be_drawn(shares, scores, message):
    with pytest.raises(ExfamError, match=message):
        plots.missing_curves(np.array(shares), scores, metric="accuracy")
