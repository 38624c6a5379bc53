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


PAIRS, HUNDRED = 150 * 2 ** np.arange(20), np.full(20, 100.0)
MEANS = {
    "predicted": {"EFA": np.array([1.1, 2.9, 3.1]), "LF": np.array([2.0, 2.0, 2.0])},
    "true": np.array([1.0, 3.0, 3.0]),
    "case": np.array(["low", "high", "high"]),
}
BARS = {"labels": ["EFA", "LF"], "values": np.array([1.03, 2.2]), "metric": "MSE"}
MORE = {"spread": np.array([0.1, 0.2]), "paper": np.array([1.04, np.nan])}
POINTS = np.random.default_rng(0).normal(size=(30, 2))
PLACES = np.random.default_rng(1).uniform([25, -124], [49, -67], (30, 2))
NORTH = PLACES[:, 0]
SITES = [f"site {i}" for i in range(30)]
ATTENTION = np.random.default_rng(2).dirichlet(np.ones(60), size=2).reshape(2, 2, 30)
MATRICES = {f"head {k}": np.random.default_rng(k).dirichlet(np.ones(8), size=8) for k in range(3)}

# Function, what it is called with.
FIGURES = [
    ("coverage_curve", (np.linspace(0, 1, 50),), {}),
    ("crps_by_site", (PLACES, NORTH, SITES), {"unit": "°F"}),
    ("field_map", (PLACES, NORTH, -NORTH), {"observed": PLACES[:9]}),
    ("field_map", (PLACES, NORTH, np.ones(30)), {"style": "surface", "observed": PLACES}),
    ("site_attention_map", (PLACES, ATTENTION, 3), {"names": SITES}),
    ("site_attention_map", (PLACES, ATTENTION, 3), {"heads": "each", "metric": "euclidean"}),
    ("position_matrices", (MATRICES,), {"columns": 2}),
    ("histogram", (np.array([1, 2, 2, 5]),), {"label": "length", "of": "groups"}),
    ("histogram", (POINTS.ravel(),), {"label": "value"}),
    ("integral_histogram", (np.linspace(0, 1, 50),), {}),
    ("interval_rows", (["LF"], np.array([[0.1, 0.2, 0.3]])), {"metric": "x"}),
    ("item_map", (POINTS, [f"item {i}" for i in range(30)]), {"labels": ("a", "b")}),
    ("layer_map", (explanation(),), {"part": "values", "layer": 2}),
    ("layer_map", (explanation(20),), {"part": "values", "layer": 1}),
    ("reliability_diagram", (Reliability(PAIRS, HUNDRED, HUNDRED, HUNDRED),), {}),
    ("attention_map", (explanation(),), {}),
    ("attention_map", (explanation(60, layers=1, heads=1),), {"heads": "mean"}),
    (
        "expert_bars",
        (["age = 7", "km = 90"], np.array([0.2, 0.8]), np.eye(2)),
        {"outputs": ["poor", "good"]},
    ),
    (
        "missing_curves",
        (np.array([0.0, 0.5]), {"trees": np.array([0.8, 0.6])}),
        {"metric": "accuracy"},
    ),
    ("learning_curve", (history(),), {"references": {"Bayes": 0.5}}),
    ("learning_curve", (history(validation=False),), {}),
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
    words = [figure.get_supxlabel(), figure.get_supylabel()]
    words += [label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel())]
    names = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    names += [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any(words) and any(names)


def test_matrices_say_how_local_they_are_on_one_scale():
    figure = plots.position_matrices({"itself": np.eye(5), "even": np.full((5, 5), 0.2)})
    first, second = figure.axes[:2]
    assert first.get_title() == "itself\nlocality 1.00\nsymmetry 1.00 (raw 1.00)"
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0.0, 1.0)


def test_an_attention_map_shows_the_weights_of_the_chosen_part():
    both = explanation(parts=("items", "values"))
    both.weights["values"] = both.weights["values"][:1]
    assert len(plots.attention_map(both).axes) == 2 * 2 + 1
    figure = plots.attention_map(both, part="values")
    assert len(figure.axes) == 2 + 1
    for head, axes in enumerate(figure.axes[:2]):
        shown = axes.collections[0].get_array().reshape(3, 4)
        assert_array_equal(shown, both.weights["values"][0, head])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == both.centers
    top, bottom = figure.axes[0].get_ylim()[::-1]
    assert top < bottom, "the first center is at the top"


def test_a_layer_is_the_mean_of_its_heads():
    two_layers = explanation()
    means = two_layers.weights["values"].mean(axis=1)
    figure = plots.attention_map(two_layers, heads="mean")
    assert [axes.get_title() for axes in figure.axes[:2]] == ["layer 1", "layer 2"]
    layer = plots.layer_map(two_layers, part="values", layer=2).axes[0]
    for axes, mean in zip((*figure.axes[:2], layer), (*means, means[1]), strict=True):
        assert_allclose(axes.collections[0].get_array().reshape(3, 4), mean)
    assert [label.get_text() for label in layer.get_xticklabels()] == ["1", "2", "3", "∅"]


def test_a_learning_curve_marks_the_epoch_kept():
    axes = plots.learning_curve(history()).axes[0]
    kept = next(line for line in axes.lines if line.get_label() == "kept")
    assert kept.get_xydata().tolist() == [[3.0, 2.2 / 3]]
    lines = plots.learning_curve(history(validation=False)).axes[0].lines
    assert [line.get_label() for line in lines] == ["training"]


def test_bars_and_dots_are_at_their_values():
    axes = plots.result_bars(**BARS).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [1.03, 2.2]
    assert [text.get_text() for text in axes.texts] == ["1.030", "2.200"]
    assert axes.get_legend() is None
    dots = {
        line.get_label(): line.get_xdata() for line in plots.means_by_case(**MEANS).axes[0].lines
    }
    assert_allclose(dots["EFA"], [1.1, 3.0])
    assert_allclose(dots["LF"], [2.0, 2.0])


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
        (
            "histogram",
            (np.array([np.nan]),),
            {"label": "x"},
            "`value` must hold at least one finit",
        ),
        ("integral_histogram", (np.zeros(0),), {}, "`integral` must hold at least one row, got no"),
        ("coverage_curve", (np.zeros(0),), {}, "`integral` must hold at least one row, got none"),
        (
            "reliability_diagram",
            (Reliability(np.full(20, 9), *[np.full(20, 4.0)] * 3),),
            {},
            "`reliability` must hold a bin with 5 expected hits",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, given, more, message):
    with pytest.raises(ExfamError, match=message):
        getattr(plots, name)(*given, **more)
