"""Pictures of tables show the numbers that they were given."""

import numpy as np
import pytest

from exfam import plots
from exfam.checks import ExfamError

RANDOM = np.random.default_rng(0)
CELLS = [f"column {i} = {i}" for i in range(4)]
WEIGHTS = np.array([0.1, 0.4, 0.2, 0.3])
PARTS = RANDOM.normal(size=(4, 3))
LABELS = ["poor", "fair", "good"]


def widths(bars):
    return [bar.get_width() for bar in bars]


def test_experts_stand_in_the_order_of_their_weights_beside_what_they_add():
    left, right = plots.expert_bars(CELLS, WEIGHTS, PARTS, outputs=LABELS).axes
    order = [1, 3, 2, 0]
    assert [label.get_text() for label in left.get_yticklabels()] == [CELLS[i] for i in order]
    assert widths(left.containers[0]) == WEIGHTS[order].tolist()
    centered = PARTS - PARTS.mean(1, keepdims=True)
    assert np.abs(centered - PARTS).min() > 1e-3
    for number, bars in enumerate(right.containers):
        np.testing.assert_allclose(widths(bars), centered[order, number])
        # Each bar lies on the row of its cell.
        assert [round(bar.get_y() + bar.get_height() / 2) for bar in bars] == [0, 1, 2, 3]
    result = [text.get_text() for text in right.get_legend().get_texts()]
    sums = centered.sum(0)
    assert result == [f"{name} (sum {each:+.2f})" for name, each in zip(LABELS, sums, strict=True)]


def test_a_single_output_is_drawn_as_it_is():
    axes = plots.expert_bars(CELLS, WEIGHTS, PARTS[:, :1], outputs=["mean"]).axes[1]
    np.testing.assert_allclose(widths(axes.containers[0]), PARTS[[1, 3, 2, 0], 0])


@pytest.mark.parametrize(
    ("cells", "weights", "parts", "outputs", "message"),
    [
        ([], WEIGHTS[:0], PARTS[:0], LABELS, "`cells` must name at least one cell"),
        (CELLS[1:], WEIGHTS, PARTS, LABELS, "`weights` must be one for each of 3 cells, got 4"),
        (
            CELLS,
            WEIGHTS,
            PARTS,
            LABELS[1:],
            "`outputs` must name each output, .* got 2 names for 3",
        ),
        (CELLS, WEIGHTS, np.ones((4, 6)), list("abcdef"), "`outputs` must .* at most 5, got 6"),
    ],
)
def test_experts_that_cannot_be_drawn(cells, weights, parts, outputs, message):
    with pytest.raises(ExfamError, match=message):
        plots.expert_bars(cells, weights, parts, outputs=outputs)


def test_scores_are_drawn_by_share_in_order():
    shares = np.array([0.5, 0.0, 0.25])
    scores = {"joint": np.array([0.6, 0.9, 0.8]), "trees": np.array([0.4, 0.95, np.nan])}
    axes = plots.missing_curves(shares, scores, metric="accuracy", references={"most": 0.3}).axes[0]
    joint, trees, line = axes.get_lines()
    assert joint.get_xdata().tolist() == [0.0, 0.25, 0.5]
    assert joint.get_ydata().tolist() == [0.9, 0.8, 0.6]
    np.testing.assert_array_equal(trees.get_ydata(), [0.95, np.nan, 0.4])
    assert set(line.get_ydata()) == {0.3} and axes.get_ylabel() == "accuracy"
    result = [text.get_text() for text in axes.get_legend().get_texts()]
    assert result == ["joint", "trees", "most"]


def test_shares_that_are_none():
    for shares in (np.array([]), np.array([0.0, 1.5]), np.array([np.nan])):
        with pytest.raises(ExfamError, match=r"`shares` must be in \[0, 1\], got"):
            plots.missing_curves(shares, {}, metric="accuracy")


def test_scores_are_one_a_share():
    with pytest.raises(ExfamError, match="`scores` must hold at least one model to draw, got none"):
        plots.missing_curves(np.array([0.0, 0.5]), {}, metric="accuracy")
    with pytest.raises(ExfamError, match="`scores` must be one a share, got 1 of 'joint' for 2"):
        plots.missing_curves(np.array([0.0, 0.5]), {"joint": np.ones(1)}, metric="accuracy")
