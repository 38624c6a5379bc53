import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.plots import setting_curve

K, VALUES = np.array([5.0, 1.0, 10.0]), np.array([22.0, 37.0, 30.0])
NAMES = {"name": "LF", "setting_name": "k", "metric": "MSE"}


def test_points_are_joined_in_the_order_of_the_setting():
    axes = setting_curve(K, VALUES, **NAMES).axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1, 37], [5, 22], [10, 30]]
    assert axes.get_yscale() == "log"


def test_spreads_and_the_papers_figures_stay_with_their_setting():
    paper = np.array([22.7, np.nan, 29.9])
    axes = setting_curve(K, VALUES, **NAMES, spread=VALUES / 10, paper=paper).axes[0]
    (marks,) = [line for line in axes.lines if line.get_label() == "LF, paper"]
    np.testing.assert_array_equal(marks.get_xydata(), np.stack([K, paper], axis=1))
    bars = axes.collections[0].get_segments()
    assert {tuple(bar[:, 0]) for bar in bars} == {(k, k) for k in K}
    for k, value in zip(K, VALUES, strict=True):
        (ends,) = [bar[:, 1] for bar in bars if bar[0, 0] == k]
        np.testing.assert_allclose(ends, [0.9 * value, 1.1 * value])


def test_no_two_references_look_alike():
    many = {f"model {n}": 5.0 + n for n in range(12)}
    axes = setting_curve(K, VALUES, **NAMES, references=many).axes[0]
    lines = axes.lines[1:]
    assert [line.get_ydata()[0] for line in lines] == list(many.values())
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


def test_what_a_logarithmic_scale_cannot_show_is_refused():
    with pytest.raises(ExfamError, match="`setting` must hold at least one setting to draw"):
        setting_curve(K[:0], VALUES[:0], **NAMES)
    with pytest.raises(ExfamError, match=r"`values` must be above 0 .*, got 0\.0"):
        setting_curve(K, np.array([1.0, 0.0, 2.0]), **NAMES)
    with pytest.raises(ExfamError, match=r"`values` must be above 0 .*, got -1\.0"):
        setting_curve(K, VALUES, **NAMES, references={"ridge": -1.0})
