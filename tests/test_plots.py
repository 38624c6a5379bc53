"""Figures show what they are given, alone and on a report's page."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from exfam import plots
from exfam.checks import ExfamError
from exfam.plots.style import drawable, shortened
from exfam.report.inline import inline_svg
from exfam.scores.calibration import IntegralShares, Reliability
from exfam.training.history import History
from plot_cases import (
    ATTENTION,
    BARS,
    FIGURES,
    MEANS,
    NAMES,
    NORTH,
    SITES,
    drawings,
    explanation,
    history,
)


def words(texts):
    return [text.get_text() for text in texts]


def test_every_plot_is_tried():
    functions = {name for name in plots.__all__ if callable(getattr(plots, name))}
    assert functions == {name for figure in FIGURES for name, _, _ in drawings(*figure)}


@pytest.mark.parametrize(("name", "given", "more"), FIGURES)
def test_a_figure_can_be_drawn_and_says_what_its_axes_are(name, given, more):
    for drawing in drawings(name, given, more):
        assert_drawn(*drawing)


def assert_drawn(name, given, more):
    before = dict(matplotlib.rcParams)
    figure = getattr(plots, name)(*given, **more)
    assert dict(matplotlib.rcParams) == before, "drawing leaves no global trace"
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    labels = [figure.get_supxlabel(), figure.get_supylabel()]
    labels += [label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel())]
    names = [words([*axes.get_yticklabels(), *axes.texts]) for axes in figure.axes]
    assert any(labels) and any(map(any, names))


def test_matrices_say_how_local_they_are_on_one_scale():
    figure = plots.position_matrices({"itself": np.eye(5), "even": np.full((5, 5), 0.2)})
    first, second = figure.axes[:2]
    assert first.get_title() == "itself\nlocality 1.00\nsymmetry 1.00 (raw 1.00)"
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0.0, 1.0)


def test_an_attention_map_shows_the_weights_of_the_chosen_part_or_the_mean_of_heads():
    both = explanation(parts=("items", "values"))
    both.weights["items"] = both.weights["items"][:, :, :, ::-1]
    figure, means = plots.attention_map(both, part="values"), both.weights["values"].mean(axis=1)
    weights = both.weights["values"].reshape(4, 3, 4)
    for axes, expected in zip(figure.axes[:4], weights, strict=True):
        assert_array_equal(axes.collections[0].get_array().reshape(3, 4), expected)
    assert words(figure.axes[0].get_yticklabels()) == both.centers
    top, bottom = figure.axes[0].get_ylim()[::-1]
    assert top < bottom, "the first center is at the top"
    layers = plots.attention_map(both, part="values", heads="mean").axes[:2]
    last = plots.layer_map(both, part="values", layer=2).axes[0]
    for axes, mean in zip((*layers, last), (*means, means[1]), strict=True):
        assert_allclose(axes.collections[0].get_array().reshape(3, 4), mean)


def test_a_learning_curve_marks_the_epoch_kept():
    axes = plots.learning_curve(history()).axes[0]
    kept = next(line for line in axes.lines if line.get_label() == "kept")
    assert kept.get_xydata().tolist() == [[3.0, 2.2 / 3]]
    lines = plots.learning_curve(history(validation=False)).axes[0].lines
    assert [line.get_label() for line in lines] == ["training"]


def test_bars_and_dots_are_at_their_values():
    axes = plots.result_bars(**BARS).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [1.03, 2.2]
    assert words(axes.texts) == ["1.030", "2.200"]
    lines = plots.means_by_case(**MEANS).axes[0].lines
    dots = {line.get_label(): line.get_xdata() for line in lines}
    assert_allclose(dots["EFA"], [1.1, 3.0])
    assert_allclose(dots["LF"], [2.0, 2.0])


def assert_shown(dots, value):
    """Each site has the color of its number."""
    sites = [tuple(site) for site in np.asarray(dots.get_offsets()).round(6).tolist()]
    expected = [tuple(site) for site in SITES[:, ::-1].round(6).tolist()]
    by_site = dict(zip(sites, dots.get_array().tolist(), strict=True))
    assert by_site == dict(zip(expected, value.tolist(), strict=True))


def test_a_map_shows_mean_and_sd_at_each_site():
    figure = plots.field_map(SITES, NORTH, -NORTH, unit="°F", observed=SITES[:5])
    left, right = figure.axes[:2]
    assert_shown(left.collections[0], NORTH)
    assert_shown(right.collections[0], -NORTH)
    assert_allclose(left.collections[1].get_offsets(), SITES[:5, ::-1])
    bars = [axes.get_xlabel() for axes in figure.axes[2:]]
    assert bars == ["predictive mean (°F)", "standard deviation (°F)"]
    crps = NORTH.copy()
    crps[[4, 7]] = 99.5, 98.25
    axes = plots.crps_by_site(SITES, crps, NAMES, n_labels=2).axes[0]
    assert words(axes.texts) == ["site 4 99.50", "site 7 98.25"]
    assert_shown(axes.collections[0], crps)


def test_grids_are_drawn_cell_by_cell():
    north, east = np.meshgrid(np.arange(30.0, 36.0), np.arange(-90.0, -80.0))
    grid = np.random.default_rng(0).permutation(np.stack([north.ravel(), east.ravel()], axis=1))
    value = 100 * grid[:, 0] + grid[:, 1]
    figure = plots.field_map(grid, value, value, style="surface")
    cells = figure.axes[0].collections[0].get_array().reshape(6, 10)
    assert_array_equal(cells, 100 * np.arange(30.0, 36)[:, None] + np.arange(-90, -80))


def test_a_map_across_the_date_line_is_one_piece():
    sites = np.array([[0.0, 178.0], [1.0, -179.0], [-1.0, -175.0]])
    axes = plots.field_map(sites, np.arange(3.0), np.ones(3), observed=sites[1:]).axes[0]
    dots, rings = (np.sort(np.asarray(c.get_offsets())[:, 0]) for c in axes.collections[:2])
    assert_allclose(np.diff(dots), [3, 4])
    assert_allclose(rings, dots[1:])
    axes.figure.draw_without_rendering()
    assert {tick[-1] for tick in words(axes.get_xticklabels())} >= {"E", "W"}


def test_attention_is_drawn_from_the_site_to_those_with_weight():
    weights = np.full((2, 3, 30), 0.001)
    weights[:, 0, 4], weights[:, 1, 9], weights[:, 2, 9] = 0.5, 0.3, 0.1
    weights[0, 0, 6] = 0.2
    figure = plots.site_attention_map(SITES, weights, 2, names=NAMES)
    titles = [axes.get_title(loc="left") for axes in figure.axes[:3]]
    assert titles == ["2 maps before: 13 %", "1 map before: 33 %", "same map: 63 %"]
    own = figure.axes[2]
    lines, dots, star = own.collections
    here, *others = SITES[[2, 4, 6], ::-1].tolist()
    assert_allclose(lines.get_segments(), [(here, other) for other in others])
    assert_shown(dots, weights[:, 0].mean(0))
    assert_allclose(star.get_offsets(), [here])
    assert words(own.texts) == ["site 4", "site 6"]
    heads = plots.site_attention_map(SITES, weights, 0, heads="each").axes[:6]
    for axes, shown in zip(heads[2::3], weights[:, 0], strict=True):
        assert_shown(axes.collections[1], shown)


EMPTY, FEW = np.zeros(0), Reliability(np.full(20, 9), *[np.full(20, 4.0)] * 3)
WIDE = np.ones((1, 1, 31))


@pytest.mark.parametrize(
    ("name", "given", "more", "message"),
    [
        ("position_matrices", ({},), {}, "`matrices` must hold at least one to draw, got none"),
        ("attention_map", (explanation(),), {"part": "items"}, "`part` must be one of 'values'"),
        ("attention_map", (explanation(),), {"heads": "both"}, "`heads` must be one of 'each', "),
        ("layer_map", (explanation(),), {"part": "values", "layer": 3}, "must be one of 1, 2, got"),
        ("learning_curve", (History((), "interrupted"),), {}, "`history` must hold at least one"),
        ("means_by_case", ({},), {"true": MEANS["true"], "case": MEANS["case"]}, "`predicted` mus"),
        ("result_bars", (["EFA"], np.ones(2)), {"metric": "x"}, "`labels` must be one for each of"),
        ("interval_rows", ([], np.zeros((1, 3))), {"metric": "x"}, "`labels` must be one for each"),
        ("item_map", (np.zeros((2, 2)), ["a"]), {}, "`names` must be one for each of 2 points, go"),
        ("spectrum_curves", ({},), {}, "`spectra` must hold the values of at least one matrix"),
        ("length_by_frequency", (np.ones(2), np.ones(3)), {"label": "x", "seed": 0}, "for each of"),
        ("histogram", (np.array([np.nan]),), {"label": "x"}, "`value` must hold at least one fini"),
        ("integral_histogram", (EMPTY,), {}, "`integral` must hold at least one row, got none"),
        ("coverage_curve", (EMPTY,), {}, "`integral` must hold at least one row, got none"),
        ("reliability_diagram", (FEW,), {}, "`reliability` must hold a bin with 5 expected hits"),
        ("field_map", (SITES, NORTH[1:], NORTH), {}, "`mean` must be one for each of 30 places"),
        ("field_map", (SITES, NORTH, NORTH[1:]), {}, "`sd` must be one for each of 30"),
        ("field_map", (SITES, NORTH, NORTH), {"style": "dots"}, "`style` must be one of 'sites'"),
        ("field_map", (SITES, NORTH, NORTH), {"metric": "km"}, "`metric` must be one of 'haversi"),
        ("plan_map", (SITES, NORTH[1:], SITES), {}, "`share` must be one for each of 30 candidat"),
        ("series_band", (NAMES, *[NORTH] * 3, NORTH[1:]), {}, "`high` must be one for each of 30"),
        ("conditional_band", (["a"], *[NORTH] * 3), {}, "`center` must be one for each of 1 poin"),
        ("conditional_shares", (["a"], np.eye(2), ["x"]), {}, "`labels` must name each column of"),
        ("conditional_shares", (["a"], np.eye(2), ["x", "y"]), {}, "`probability` must be one fo"),
        ("crps_by_site", (SITES, NORTH, NAMES[1:]), {}, "`labels` must be one for each of 30"),
        ("crps_by_site", (SITES[:0], NORTH[:0], []), {}, r"have two columns .* shape \(0, 2\)"),
        ("site_attention_map", (SITES, ATTENTION, 30), {}, "`site` must be a row of `coordinates`"),
        ("site_attention_map", (SITES, WIDE, 0), {}, "`weights` must be one for each of"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, given, more, message):
    with pytest.raises(ExfamError, match=message):
        getattr(plots, name)(*given, **more)


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


def test_bands_are_where_95_of_100_bars_would_be():
    shares = IntegralShares(np.array([0.3, 0.1, 0.4, 0.2]), np.array([0.01, 0.02, 0.2, 0.0]), 100)
    bars = plots.integral_bars(shares).axes[0].patches
    assert_allclose([bar.get_height() for bar in bars[:4]], shares.share)
    low = np.array([bar.get_y() for bar in bars[4:]])
    assert_allclose(low, np.maximum(0.25 - 1.96 * shares.spread, 0))
    assert_allclose([bar.get_height() for bar in bars[4:]] + low, 0.25 + 1.96 * shares.spread)
    # Draws are bars of shares, with the spread of shares of draws.
    bars = plots.integral_histogram(np.random.default_rng(0).random(400)).axes[0].patches
    assert len(bars) == 40 and sum(bar.get_height() for bar in bars[:20]) == pytest.approx(1)
    assert_allclose(bars[20].get_height(), 2 * 1.96 * np.sqrt(0.05 * 0.95 / 400))


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


def test_axes_of_small_ranges_can_be_read():
    narrow = plots.field_map(np.array([[50.0, 8.0], [54.0, 8.2]]), np.ones(2), np.ones(2)).axes[0]
    (west, east), (south, north) = narrow.get_xlim(), narrow.get_ylim()
    assert (north - south) * narrow.get_aspect() <= 2 * (east - west)
    alike = plots.histogram(np.full(5, 3), label="length").axes[0]
    assert {3.0} <= set(alike.get_xticks()) <= {2.0, 3.0, 4.0}
    pairs = np.array([100, 100])
    few = Reliability(pairs, np.array([20.0, 50.0]), np.array([25.0, 40.0]), np.ones(2))
    assert len(plots.reliability_diagram(few).axes[0].get_xticks()) >= 3
