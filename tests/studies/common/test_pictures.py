import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam_studies.common import pictures

K, VALUES = np.array([5.0, 1.0, 10.0]), np.array([22.0, 37.0, 30.0])
SETTING = {"name": "LF", "setting_name": "k", "metric": "MSE"}
RATE = {"slope": -0.5, "slope_name": "rate", "metric": "loss"}

FIGURES = {
    "agreement_curves": lambda: pictures.agreement_curves(
        np.array([400.0, 100.0]),
        {"seeds": np.array([[0.9, 0.01], [0.4, 0.1]]), "null": np.array([[-3, 0], [0.1, 0]])},
        size_name="groups",
    ),
    "layer_curves": lambda: pictures.layer_curves(
        {
            name: {"positional": np.linspace(0.4, 0.6, 4), "both": np.linspace(0.5, 0.9, 4)}
            for name in ("Tense", "BShift", "$SOMO")
        },
        references={"Tense": 0.5},
        columns=2,
    ),
    "setting_curve": lambda: pictures.setting_curve(
        np.array([5.0, 1.0]), np.array([22.0, 37.0]), name="LF", setting_name="k", metric="MSE"
    ),
    "rate_curve": lambda: pictures.rate_curve(
        np.array([10.0, 100.0]),
        {"fitted": np.array([0.1, 0.02]), "zero": np.array([0.3, 0.3])},
        slope=-0.5,
        slope_name="rate term",
        metric="excess loss",
        spread=np.array([0.02, 0.01]),
    ),
    "score_points": lambda: pictures.score_points(
        {"a": np.array([[0.1, 0.7, 0.01], [0.5, 0.8, np.nan]]), "b": np.array([[0.3, 0.6, 0.02]])},
        setting_name="locality",
        metric="accuracy",
        references={"majority": 0.5},
    ),
    "matrix_map": lambda: pictures.matrix_map(np.eye(3) - 0.5, label="Q"),
    "vector_map": lambda: pictures.vector_map({"key": np.eye(3), "value": -np.eye(3)}, list("abc")),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_can_be_drawn_and_says_what_its_axes_are(name):
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    words = [figure.get_supxlabel(), figure.get_supylabel()]
    words += [label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel())]
    assert any(words)


def test_every_picture_is_tried():
    functions = {
        name
        for name, value in vars(pictures).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == pictures.__name__
    }
    assert functions == {name.split(",")[0] for name in FIGURES}


def test_vectors_of_all_kinds_are_shown_on_one_scale():
    vectors = {"key": np.array([[1.0, -4.0]] * 3), "value": np.ones((3, 5))}
    figure = pictures.vector_map(vectors, ["a", "b", "c"])
    shown = [axes.collections[0] for axes in figure.axes[:2]]
    for picture, expected in zip(shown, vectors.values(), strict=True):
        np.testing.assert_array_equal(picture.get_array().reshape(expected.shape), expected)
        assert (picture.norm.vmin, picture.norm.vmax) == (-4.0, 4.0)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b", "c"]


def test_agreement_is_drawn_by_increasing_size():
    (axes,) = FIGURES["agreement_curves"]().axes
    assert axes.lines[0].get_xydata().tolist() == [[100, 0.4], [400, 0.9]]
    assert axes.get_ylim()[0] == pytest.approx(-1.05), "far below 0 nothing can be distinguished"


def test_points_are_joined_in_the_order_of_the_setting():
    axes = pictures.setting_curve(K, VALUES, **SETTING).axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1, 37], [5, 22], [10, 30]]
    assert axes.get_yscale() == "log"


def test_spreads_and_the_papers_figures_stay_with_their_setting():
    paper = np.array([22.7, np.nan, 29.9])
    axes = pictures.setting_curve(K, VALUES, **SETTING, spread=VALUES / 10, paper=paper).axes[0]
    (marks,) = [line for line in axes.lines if line.get_label() == "LF, paper"]
    np.testing.assert_array_equal(marks.get_xydata(), np.stack([K, paper], axis=1))
    bars = axes.collections[0].get_segments()
    assert {tuple(bar[:, 0]) for bar in bars} == {(k, k) for k in K}
    for k, value in zip(K, VALUES, strict=True):
        (ends,) = [bar[:, 1] for bar in bars if bar[0, 0] == k]
        np.testing.assert_allclose(ends, [0.9 * value, 1.1 * value])


def test_no_two_references_look_alike():
    many = {f"model {n}": 5.0 + n for n in range(12)}
    axes = pictures.setting_curve(K, VALUES, **SETTING, references=many).axes[0]
    lines = axes.lines[1:]
    assert [line.get_ydata()[0] for line in lines] == list(many.values())
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


SIZES, CURVE = np.array([1.0, 2.0]), np.ones((2, 2))
ONE = np.array([0.1])
REFUSED = {
    "`losses` must hold a loss at 2 sizes at least to draw": lambda: pictures.rate_curve(
        np.array([10.0]), {"fitted": ONE}, **RATE
    ),
    "`losses` must be above 0 on a logarithmic scale, got -1": lambda: pictures.rate_curve(
        SIZES, {"fitted": np.array([0.1, -1.0])}, **RATE
    ),
    "`series` must hold at least one point to draw, got none": lambda: pictures.score_points(
        {"a": np.zeros((0, 3))}, setting_name="locality", metric="accuracy"
    ),
    "`accuracies` must hold at least one line to draw": lambda: pictures.layer_curves(
        {"Tense": {}}
    ),
    "`curves` must hold at least one comparison to draw": lambda: pictures.agreement_curves(
        SIZES, {}, size_name="groups"
    ),
    r"`sizes` must be above 0, got \[0.0, 1.0\]": lambda: pictures.agreement_curves(
        SIZES - 1, {"seeds": CURVE}, size_name="groups"
    ),
    r"for each of 2 sizes, got shape \(1, 2\) of 'seeds'": lambda: pictures.agreement_curves(
        SIZES, {"seeds": CURVE[:1]}, size_name="groups"
    ),
    "`names` must be one for each vector, got 1 names for 2": lambda: pictures.vector_map(
        {"key": np.eye(2)}, ["a"]
    ),
    "`matrix` must have an entry to draw, got shape": lambda: pictures.matrix_map(
        np.zeros((0, 3)), label="Q"
    ),
    "`setting` must hold at least one setting to draw": lambda: pictures.setting_curve(
        K[:0], VALUES[:0], **SETTING
    ),
    r"`values` must be above 0 .*, got 0\.0": lambda: pictures.setting_curve(
        K, np.array([1.0, 0.0, 2.0]), **SETTING
    ),
    r"`values` must be above 0 .*, got -1\.0": lambda: pictures.setting_curve(
        K, VALUES, **SETTING, references={"ridge": -1.0}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_drawn_is_refused(message):
    with pytest.raises(ExfamError, match=message):
        REFUSED[message]()
