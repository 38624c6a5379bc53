import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from exfam import plots
from exfam.checks import ExfamError
from exfam.efa.explain import Explanation
from exfam.scores.calibration import Reliability
from exfam.training.history import Epoch, History


def explanation(n=3, *, layers=2, heads=2, parts=("values",)):
    weights = np.random.default_rng(0).dirichlet(np.ones(n + 1), size=(layers, heads, n))
    names = [f"movie {i}" for i in range(n)]
    return Explanation("u", names, [*names, "(nothing)"], {part: weights for part in parts})


def history(*, validation=True):
    rows = [
        Epoch(e, 10 * e, 2.0 / e, 2.2 / e if validation else None, 3e-3, 0.1 * e, validation)
        for e in (1, 2, 3)
    ]
    return History(tuple(rows), "max_epochs")


def words(texts):
    return [text.get_text() for text in texts]


PAIRS, HUNDRED = 150 * 2 ** np.arange(20), np.full(20, 100.0)
MEANS = {
    "predicted": {"EFA": np.array([1.1, 2.9, 3.1]), "LF": np.array([2.0, 2.0, 2.0])},
    "true": np.array([1.0, 3.0, 3.0]),
    "case": np.array(["low", "high", "high"]),
}
BARS = {"labels": ["EFA", "LF"], "values": np.array([1.03, 2.2]), "metric": "MSE"}
MORE = {"spread": np.array([0.1, 0.2]), "paper": np.array([1.04, np.nan])}
POINTS = np.random.default_rng(0).normal(size=(30, 2))
SITES = np.random.default_rng(1).uniform([25, -124], [49, -67], (30, 2))
NORTH = SITES[:, 0]
NAMES = [f"site {i}" for i in range(30)]
ATTENTION = np.random.default_rng(2).dirichlet(np.ones(60), size=2).reshape(2, 2, 30)
MATRICES = {f"head {k}": np.random.default_rng(k).dirichlet(np.ones(8), size=8) for k in range(3)}
CURVES = (np.array([0.0, 0.5]), {"trees": np.array([0.8, 0.6])})

# Function, what it is called with.
FIGURES = [
    ("coverage_curve", (np.linspace(0, 1, 50),), {}),
    ("crps_by_site", (SITES, NORTH, NAMES), {"unit": "°F"}),
    ("field_map", (SITES, NORTH, -NORTH), {"observed": SITES[:9]}),
    ("field_map", (SITES, NORTH, np.ones(30)), {"style": "surface", "observed": SITES}),
    ("site_attention_map", (SITES, ATTENTION, 3), {"names": NAMES}),
    ("site_attention_map", (SITES, ATTENTION, 3), {"heads": "each", "metric": "euclidean"}),
    ("position_matrices", (MATRICES,), {"columns": 2}),
    ("histogram", (np.array([1, 2, 2, 5]),), {"label": "length", "of": "groups"}),
    ("integral_histogram", (np.linspace(0, 1, 50),), {}),
    ("interval_rows", (["LF"], np.array([[0.1, 0.2, 0.3]])), {"metric": "x"}),
    ("item_map", (POINTS, [f"item {i}" for i in range(30)]), {"labels": ("a", "b")}),
    ("layer_map", (explanation(20),), {"part": "values", "layer": 1}),
    ("reliability_diagram", (Reliability(PAIRS, HUNDRED, HUNDRED, HUNDRED),), {}),
    ("attention_map", (explanation(60, layers=1, heads=1),), {"heads": "mean"}),
    ("expert_bars", (["a = 7", "km = 90"], np.eye(2)[0], np.eye(2)), {"outputs": ["poor", "good"]}),
    ("missing_curves", CURVES, {"metric": "accuracy"}),
    ("learning_curve", (history(),), {"references": {"Bayes": 0.5}}),
    ("means_by_case", (), {**MEANS, "unit": "rating"}),
    ("result_bars", (), {**BARS, **MORE}),
]


def test_every_plot_is_tried():
    functions = {name for name in plots.__all__ if callable(getattr(plots, name))}
    assert functions == {name for name, _, _ in FIGURES}


@pytest.mark.parametrize(("name", "given", "more"), FIGURES)
def test_a_figure_can_be_drawn_and_says_what_its_axes_are(name, given, more):
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
        ("histogram", (np.array([np.nan]),), {"label": "x"}, "`value` must hold at least one fini"),
        ("integral_histogram", (EMPTY,), {}, "`integral` must hold at least one row, got none"),
        ("coverage_curve", (EMPTY,), {}, "`integral` must hold at least one row, got none"),
        ("reliability_diagram", (FEW,), {}, "`reliability` must hold a bin with 5 expected hits"),
        ("field_map", (SITES, NORTH[1:], NORTH), {}, "`mean` must be one for each of 30 places"),
        ("field_map", (SITES, NORTH, NORTH[1:]), {}, "`sd` must be one for each of 30"),
        ("field_map", (SITES, NORTH, NORTH), {"style": "dots"}, "`style` must be one of 'sites'"),
        ("field_map", (SITES, NORTH, NORTH), {"metric": "km"}, "`metric` must be one of 'haversi"),
        ("crps_by_site", (SITES, NORTH, NAMES[1:]), {}, "`labels` must be one for each of 30"),
        ("crps_by_site", (SITES[:0], NORTH[:0], []), {}, r"have two columns .* shape \(0, 2\)"),
        ("site_attention_map", (SITES, ATTENTION, 30), {}, "`site` must be a row of `coordinates`"),
        ("site_attention_map", (SITES, WIDE, 0), {}, "`weights` must be one for each of"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, given, more, message):
    with pytest.raises(ExfamError, match=message):
        getattr(plots, name)(*given, **more)
