"""Pictures of tables show the numbers that they were given."""

import numpy as np
import pytest

from exfam import plots
from exfam.checks import ExfamError

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
        # Each bar lies on the row of its cell.
        assert [round(bar.get_y() + bar.get_height() / 2) for bar in bars] == [0, 1, 2, 3]
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


HALF = np.array([0.0, 0.5])


@pytest.mark.parametrize(
    ("shares", "scores", "message"),
    [
        (np.array([]), {}, r"`shares` must be in \[0, 1\], got"),
        (np.array([0.0, 1.5]), {}, r"`shares` must be in \[0, 1\], got"),
        (np.array([np.nan]), {}, r"`shares` must be in \[0, 1\], got"),
        (HALF, {}, "`scores` must hold at least one model to draw, got none"),
        (HALF, {"joint": np.ones(1)}, "`scores` must be one a share, got 1 of 'joint' for 2"),
    ],
)
def test_curves_that_cannot_be_drawn(shares, scores, message):
    with pytest.raises(ExfamError, match=message):
        plots.missing_curves(shares, scores, metric="accuracy")
