import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

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


def reliable(error=1.0):
    """100 targets a bin; with `error` times as many hits as expected."""
    predicted, pairs = np.full(20, 100.0), 150 * 2 ** np.arange(20)
    return Reliability(pairs, predicted, error * predicted, predicted * (1 - predicted / pairs))


MEANS = {
    "predicted": {"EFA": np.array([1.1, 2.9, 3.1]), "LF": np.array([2.0, 2.0, 2.0])},
    "true": np.array([1.0, 3.0, 3.0]),
    "case": np.array(["low", "high", "high"]),
}
BARS = {"labels": ["EFA", "LF"], "values": np.array([1.03, 2.2]), "metric": "MSE"}

POINTS = np.random.default_rng(0).normal(size=(30, 2))

COORDINATES = np.random.default_rng(1).uniform([25, -124], [49, -67], (30, 2))
SITES = [f"site {i}" for i in range(30)]
ATTENTION = np.random.default_rng(2).dirichlet(np.ones(60), size=2).reshape(2, 2, 30)
LINES = {"positional": np.array([0.2, 0.9, np.nan]), "contextual": np.array([0.4, 0.3, 0.3])}

FIGURES = {
    "coverage_curve": lambda: plots.coverage_curve(np.linspace(0, 1, 50)),
    "crps_by_site": lambda: plots.crps_by_site(COORDINATES, COORDINATES[:, 0], SITES, unit="°F"),
    "field_map": lambda: plots.field_map(
        COORDINATES, COORDINATES[:, 0], -COORDINATES[:, 1], observed=COORDINATES[:9]
    ),
    "field_map, surface": lambda: plots.field_map(
        COORDINATES, COORDINATES[:, 0], np.ones(30), style="surface", observed=COORDINATES
    ),
    "site_attention_map": lambda: plots.site_attention_map(COORDINATES, ATTENTION, 3, names=SITES),
    "site_attention_map, each head": lambda: plots.site_attention_map(
        COORDINATES, ATTENTION, 3, heads="each", metric="euclidean"
    ),
    "position_scatter": lambda: plots.position_scatter(
        {"fixed": {"rotary": (0.2, 1.0)}, "learned": {"bert": (0.16, 0.88)}},
        heads={"heads of bert": POINTS[:9, :2]},
    ),
    "position_matrices": lambda: plots.position_matrices(
        {f"head {k}": np.random.default_rng(k).dirichlet(np.ones(8), size=8) for k in range(3)},
        columns=2,
    ),
    "accuracy_by_distance": lambda: plots.accuracy_by_distance(
        np.array([5, 1, 2]), LINES, references={"root": 0.1}
    ),
    "histogram": lambda: plots.histogram(np.array([1, 2, 2, 5]), label="length", of="groups"),
    "histogram, of ranges": lambda: plots.histogram(POINTS.ravel(), label="value"),
    "integral_histogram": lambda: plots.integral_histogram(np.linspace(0, 1, 50)),
    "interval_rows": lambda: plots.interval_rows(["LF"], np.array([[0.1, 0.2, 0.3]]), metric="x"),
    "item_map": lambda: plots.item_map(POINTS, [f"item {i}" for i in range(30)], labels=("a", "b")),
    "layer_map": lambda: plots.layer_map(explanation(), part="values", layer=2),
    "layer_map, large": lambda: plots.layer_map(explanation(20), part="values", layer=1),
    "reliability_diagram": lambda: plots.reliability_diagram(reliable()),
    "attention_map": lambda: plots.attention_map(explanation()),
    "attention_map, one panel a layer": lambda: plots.attention_map(explanation(), heads="mean"),
    "attention_map, large": lambda: plots.attention_map(explanation(60, layers=1, heads=1)),
    "expert_bars": lambda: plots.expert_bars(
        ["age = 7", "km = 90"], np.array([0.2, 0.8]), np.eye(2), outputs=["poor", "good"]
    ),
    "missing_curves": lambda: plots.missing_curves(
        np.array([0.0, 0.5]), {"trees": np.array([0.8, 0.6])}, metric="accuracy"
    ),
    "learning_curve": lambda: plots.learning_curve(history(), references={"Bayes": 0.5}),
    "learning_curve, no validation": lambda: plots.learning_curve(history(validation=False)),
    "means_by_case": lambda: plots.means_by_case(**MEANS, unit="rating"),
    "result_bars": lambda: plots.result_bars(
        **BARS,
        spread=np.array([0.1, 0.2]),
        paper=np.array([1.04, np.nan]),
        references={"Bayes": 1.02},
    ),
}


def test_every_plot_is_tried():
    functions = {name for name in plots.__all__ if callable(getattr(plots, name))}
    assert functions == {name.split(",")[0] for name in FIGURES}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_be_drawn_and_says_what_its_axes_are(name):
    figure = FIGURES[name]()
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


def test_lines_by_distance_go_from_near_to_far():
    (axes,) = plots.accuracy_by_distance(np.array([5, 1, 2]), LINES).axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 2, 5]] * 2
    assert axes.lines[1].get_ydata().tolist() == [0.3, 0.3, 0.4]


@pytest.mark.parametrize("name", FIGURES)
def test_drawing_leaves_no_global_trace(name):
    before = dict(matplotlib.rcParams)
    FIGURES[name]()
    assert dict(matplotlib.rcParams) == before


def test_an_attention_map_shows_the_weights_of_the_chosen_part():
    both = explanation(parts=("items", "values"))
    both.weights["values"] = both.weights["values"][:1]
    assert len(plots.attention_map(both).axes) == 2 * 2 + 1
    figure = plots.attention_map(both, part="values")
    assert len(figure.axes) == 2 + 1
    for head, axes in enumerate(figure.axes[:2]):
        shown = axes.collections[0].get_array().reshape(3, 4)
        np.testing.assert_array_equal(shown, both.weights["values"][0, head])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == both.centers
    top, bottom = figure.axes[0].get_ylim()[::-1]
    assert top < bottom, "the first center is at the top"


def test_a_learning_curve_marks_the_epoch_kept():
    axes = plots.learning_curve(history()).axes[0]
    kept = next(line for line in axes.lines if line.get_label() == "kept")
    assert kept.get_xydata().tolist() == [[3.0, 2.2 / 3]]
    labels = [
        line.get_label() for line in plots.learning_curve(history(validation=False)).axes[0].lines
    ]
    assert labels == ["training"]


def test_dots_are_the_means_of_the_predictions_of_a_case():
    axes = plots.means_by_case(**MEANS).axes[0]
    dots = {line.get_label(): line.get_xdata() for line in axes.lines}
    np.testing.assert_allclose(dots["EFA"], [1.1, 3.0])
    np.testing.assert_allclose(dots["LF"], [2.0, 2.0])


def test_bars_are_as_long_as_their_values():
    axes = plots.result_bars(**BARS).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [1.03, 2.2]
    assert [text.get_text() for text in axes.texts] == ["1.030", "2.200"]
    assert axes.get_legend() is None


def test_one_panel_a_layer_shows_the_mean_over_heads():
    two_layers = explanation()
    figure = plots.attention_map(two_layers, heads="mean")
    assert [axes.get_title() for axes in figure.axes[:2]] == ["layer 1", "layer 2"]
    for layer, axes in enumerate(figure.axes[:2]):
        shown = axes.collections[0].get_array().reshape(3, 4)
        np.testing.assert_allclose(shown, two_layers.weights["values"][layer].mean(axis=0))


REFUSED = {
    "`points` must hold at least one encoding or encoder": lambda: plots.position_scatter({}),
    "`matrices` must hold at least one to draw, got none": lambda: plots.position_matrices({}),
    "`accuracies` must hold at least one line to draw": lambda: plots.accuracy_by_distance(
        np.array([1, 2]), {}
    ),
    "must be one a distance, got 1 of 'both' for 2": lambda: plots.accuracy_by_distance(
        np.array([1, 2]), {"both": np.array([0.5])}
    ),
    r"must be in \[0, 1\], got \[0.5, 28.4\] of 'both'": lambda: plots.accuracy_by_distance(
        np.array([1, 2]), {"both": np.array([0.5, 28.4])}
    ),
    "`part` must be one of 'values', got 'items'": lambda: plots.attention_map(
        explanation(), part="items"
    ),
    "`heads` must be one of 'each', 'mean', got 'both'": lambda: plots.attention_map(
        explanation(), heads="both"
    ),
    "`history` must hold at least one epoch to draw": lambda: plots.learning_curve(
        History((), "interrupted")
    ),
    "`predicted` must hold the means of at least one model": lambda: plots.means_by_case(
        {}, true=MEANS["true"], case=MEANS["case"]
    ),
    "`labels` must be one a value, got 1 labels for 2": lambda: plots.result_bars(
        ["EFA"], np.array([1.0, 2.0]), metric="MSE"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_drawn_is_refused(message):
    with pytest.raises(ExfamError, match=message):
        REFUSED[message]()
