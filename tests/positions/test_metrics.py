"""Locality and symmetry: the paper's sums, their laws, what is refused."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.encodings import ALiBi, Attenuated, DistanceBias, RelativeKeys, Rotary, Sinusoidal
from exfam.positions import (
    check_weights,
    encoding_weights,
    locality,
    metrics,
    position_scores,
    raw_symmetry,
    symmetry,
)
from model_cases import generator

close = torch.testing.assert_close
SCORES = (locality, symmetry, raw_symmetry)


def random_weights(*shape, sharpness=1.0):
    drawn = torch.randn(*shape, generator=generator(), dtype=torch.float64)
    assert drawn.std() > 0.4
    return (sharpness * drawn).softmax(-1)


def locality_by_loops(weights):
    """Equation 6, one number at a time."""
    n = len(weights)
    rows = [sum(weights[i][j] * 2.0 ** -abs(i - j) for j in range(n)) for i in range(n)]
    return sum(rows) / n


def symmetry_by_loops(weights, *, average="micro"):
    """Equation 7, one number at a time."""
    n, rows = len(weights), []
    for i in range(n):
        apart = [
            abs(weights[i][i - k] - weights[i][i + k]) for k in range(1, min(i, n - 1 - i) + 1)
        ]
        if not apart:
            continue
        least, span = min(apart), max(apart) - min(apart)
        rows.append([(x - least) / span if span > 1e-5 * max(weights[i]) else 0.0 for x in apart])
    if average == "macro":
        return 1.0 - sum(sum(row) / len(row) for row in rows) / len(rows)
    return 1.0 - sum(map(sum, rows)) / sum(map(len, rows))


@pytest.mark.parametrize("length", [3, 4, 12])
@pytest.mark.parametrize("average", metrics.AVERAGES)
def test_scores_are_those_of_loops_over_the_equations(length, average, monkeypatch):
    # A view, which is left as it was, in pieces of any size.
    weights = random_weights(2, 3, length, length).mT.contiguous().mT
    before = weights.clone()
    for at_once in (1, 20, metrics._AT_ONCE):
        monkeypatch.setattr(metrics, "_AT_ONCE", at_once)
        scores = zip(
            weights.flatten(0, 1).tolist(),
            locality(weights).flatten().tolist(),
            symmetry(weights, average=average).flatten().tolist(),
            strict=True,
        )
        for matrix, local, alike in scores:
            assert local == pytest.approx(locality_by_loops(matrix))
            assert alike == pytest.approx(symmetry_by_loops(matrix, average=average))
    assert torch.equal(weights, before)
    own = getattr(
        position_scores(weights), {"micro": "symmetry", "macro": "macro_symmetry"}[average]
    )
    close(own, symmetry(weights, average=average))


def test_scores_are_between_their_bounds_and_reach_them_and_the_same_mirrored():
    weights = random_weights(50, 6, 6, sharpness=4.0)
    for score in SCORES:
        scores = score(weights)
        assert 0 <= scores.min() < scores.max() <= 1
        close(score(weights.flip(1, 2)), scores)
    eye, uniform = torch.eye(6), torch.full((6, 6), 1 / 6)
    assert locality(eye) == 1 and symmetry(uniform) == raw_symmetry(uniform) == 1
    assert raw_symmetry(eye) == 1
    # The paper's examples: all attention to the first, or to the last of five.
    for column, first_row in ((0, 1.0), (4, 1 / 16)):
        others = sum(2.0 ** -abs(i - column) for i in range(1, 5))
        result = locality(torch.eye(5)[[column] * 5])
        assert result == pytest.approx((first_row + others) / 5)


def test_rows_of_zeros_are_left_out():
    weights = random_weights(6, 6)
    weights[[0, 2]] = 0.0
    kept = [row for row in range(6) if row not in (0, 2)]
    by_hand = sum(weights[i, j].item() * 2.0 ** -abs(i - j) for i in kept for j in range(6)) / len(
        kept
    )
    assert locality(weights).item() == pytest.approx(by_hand)
    # In the loops a row of zeros is perfectly symmetric: as many pairs and nothing unlike.
    loops, n_pairs = 1.0 - symmetry_by_loops(weights.tolist()), {1: 1, 2: 2, 3: 2, 4: 1}
    share = sum(n_pairs.values()) / sum(n_pairs[row] for row in kept if row in n_pairs)
    assert symmetry(weights).item() == pytest.approx(1.0 - loops * share)
    assert symmetry(weights, average="macro").isfinite() and raw_symmetry(weights).isfinite()


def test_rounding_is_no_asymmetry():
    position = torch.arange(128)
    exact = (-(position - position[:, None]).abs() / 5.0).softmax(-1)
    rounded = exact * (1 + 2e-7 * (torch.rand(128, 128, generator=generator()) - 0.5))
    assert symmetry(rounded) == 1.0 and symmetry(rounded, tolerance=0.0) < 0.9
    weights = random_weights(20, 20)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        scores = locality(weights.to(dtype))
        assert scores.dtype == torch.float64
        close(scores, locality(weights), atol=1e-2, rtol=0)


# Encodings by themselves: the figures that were measured for them.
MEASURED = [
    (Sinusoidal(64), {}, 0.093, 1.0),
    (Sinusoidal(768), {}, 0.506, 1.0),
    (Rotary(128), {"head_dim": 128}, 0.421, 1.0),
    (ALiBi(8), {}, 0.148, 1.0),
    (ALiBi(8), {"direction": "causal"}, 0.213, 0.840),
    (Attenuated(w=0.008844), {}, 0.162, 1.0),
    (Attenuated(w=0.01, s=0.1), {}, 0.096, 0.446),
    (Attenuated(w=0.1, s=2.0), {}, 0.470, 0.899),
    (Attenuated(w=1.0, s=10.0), {}, 0.859, 0.968),
]


@pytest.mark.parametrize(("encoding", "options", "local", "alike"), MEASURED)
def test_fixed_encodings_are_as_local_and_symmetric_as_they_are_known_to_be(
    encoding, options, local, alike
):
    weights = encoding_weights(encoding, 128, **options).mean(0)
    assert locality(weights).item() == pytest.approx(local, abs=1e-3)
    assert symmetry(weights).item() == pytest.approx(alike, abs=1e-3)
    assert (weights.triu(1).abs().max() == 0) == ("direction" in options)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.ones(4, 5), r"square matrices.*got shape \(4, 5\)"),
        (torch.ones(0, 0), r"square matrices.*got shape \(0, 0\)"),
        (torch.ones(4, 4), r"rows that sum to 1 or are zeros, got 4 at \[0\] \(4 of 4\)"),
        (torch.eye(4) * math.nan, r"finite numbers, got nan at \[0, 0\]"),
        (2 * torch.eye(4) - 0.25, r"numbers >= 0, got -0.25 at \[0, 1\].*take their softmax"),
        (np.eye(4), "a torch tensor, got ndarray. Use torch"),
    ],
)
def test_weights_that_are_none_are_refused(wrong, message):
    for score in (*SCORES, check_weights) if torch.is_tensor(wrong) else (check_weights,):
        with pytest.raises(DataError, match=f"`weights` must be {message}"):
            score(wrong)


KEYS = RelativeKeys(4, generator=generator())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: symmetry(torch.eye(4), average="mean"), "`average` must be one of 'micro', 'mac"),
        (lambda: symmetry(torch.eye(4), tolerance=-1.0), "`tolerance` must be a number >= 0"),
        (lambda: symmetry(torch.eye(2)), "at least 3 positions for a symmetry, got 2"),
        (lambda: raw_symmetry(torch.eye(2)), "at least 3 positions for a symmetry, got 2"),
        (lambda: encoding_weights(ALiBi(2), 0), "`length` must be an integer >= 1, got 0"),
        (lambda: encoding_weights(ALiBi(2), 4, direction="forward"), "`direction` must be one of"),
        (lambda: encoding_weights(Rotary(4), 3), "`head_dim` must be 4, which R.* was built for,"),
        (lambda: encoding_weights(KEYS, 3), "`head_dim` must be 4, which R.* was built for, got 6"),
        (
            lambda: encoding_weights(DistanceBias(2, metric="haversine"), 3),
            "`encoding` must take one number a position, got Distan",
        ),
    ],
)
def test_options_are_checked(call, message):
    with pytest.raises(ExfamError, match=message):
        call()
