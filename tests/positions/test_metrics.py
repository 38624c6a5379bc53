"""Locality and symmetry: the paper's sums, their laws, what is refused."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.encodings import (
    ALiBi,
    Attenuated,
    DistanceBias,
    RelativeBias,
    RelativeKeys,
    Rotary,
    Sinusoidal,
)
from exfam.positions import (
    check_weights,
    encoding_weights,
    locality,
    metrics,
    position_scores,
    raw_symmetry,
    renormalized,
    symmetry,
)
from positions.direct import locality_by_loops, symmetry_by_loops

close = torch.testing.assert_close
SCORES = (locality, symmetry, raw_symmetry)


def seeded():
    return torch.Generator().manual_seed(0)


def random_weights(*shape, sharpness=1.0):
    drawn = torch.randn(*shape, generator=seeded(), dtype=torch.float64)
    assert drawn.std() > 0.4
    return (sharpness * drawn).softmax(-1)


@pytest.mark.parametrize("length", [3, 4, 7, 12])
@pytest.mark.parametrize("average", metrics.AVERAGES)
def test_scores_are_those_of_loops_over_the_equations(length, average):
    weights = random_weights(2, 3, length, length)
    scores = zip(
        weights.flatten(0, 1).tolist(),
        locality(weights).flatten().tolist(),
        symmetry(weights, average=average).flatten().tolist(),
        strict=True,
    )
    for matrix, local, alike in scores:
        assert local == pytest.approx(locality_by_loops(matrix))
        assert alike == pytest.approx(symmetry_by_loops(matrix, average=average))


def test_pieces_change_nothing(monkeypatch):
    weights = random_weights(3, 2, 9, 9)
    whole = position_scores(weights)
    for at_once in (1, 9, 20, 100, 200):
        monkeypatch.setattr(metrics, "_AT_ONCE", at_once)
        pieces = position_scores(weights)
        for name in ("locality", "symmetry", "macro_symmetry", "raw_symmetry"):
            close(getattr(pieces, name), getattr(whole, name))
            assert getattr(whole, name).shape == (3, 2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_views_are_scored_as_their_copies_are_and_left_as_they_were(dtype):
    stored = random_weights(2, 7, 7).to(dtype).mT.contiguous()
    before = stored.clone()
    for score in SCORES:
        close(score(stored.mT), score(stored.mT.contiguous()), rtol=0, atol=0)
        close(score(stored.mT[:1].expand(3, 7, 7)), score(stored.mT[:1]).expand(3))
    assert torch.equal(stored, before)


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


def test_an_encodings_precision_changes_nothing_and_is_left_as_it_was():
    encoding = RelativeBias(2, generator=seeded())
    single = encoding_weights(encoding, 6)
    assert {value.dtype for value in encoding.state_dict().values()} == {torch.float32}
    close(single, encoding_weights(encoding.double(), 6), rtol=0, atol=0)
    assert single.dtype == torch.float64 and single.std() > 0


def test_what_positions_without_meaning_score():
    length = 128
    causal = renormalized(torch.ones(length, length).tril())
    ahead = torch.eye(length).roll(1, 1)
    ahead[-1] = 0
    assert symmetry(causal) == 1.0 and raw_symmetry(causal) == 0.0
    assert symmetry(ahead).item() == pytest.approx(0.969, abs=1e-3) and raw_symmetry(ahead) == 0.0
    exponential = -torch.rand(8, length, length, generator=seeded()).log()
    drawn = symmetry(renormalized(exponential))
    assert drawn.mean().item() == pytest.approx(0.753, abs=0.01)


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
    rounded = exact * (1 + 2e-7 * (torch.rand(128, 128, generator=seeded()) - 0.5))
    assert symmetry(rounded) == 1.0 and symmetry(rounded, tolerance=0.0) < 0.9
    weights = random_weights(20, 20)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        scores = locality(weights.to(dtype))
        assert scores.dtype == torch.float64
        close(scores, locality(weights), atol=1e-2, rtol=0)


# Encodings by themselves: the figures that were measured for them.
MEASURED = [
    *((Sinusoidal(n), {}, x) for n, x in {64: 0.093, 128: 0.149, 256: 0.254, 768: 0.506}.items()),
    *((Rotary(n), {"head_dim": n}, x) for n, x in {32: 0.151, 64: 0.260, 128: 0.421}.items()),
    *((ALiBi(n), {}, x) for n, x in {8: 0.148, 12: 0.207, 16: 0.167}.items()),
    *((Attenuated(w=w), {}, x) for w, x in {0.008844: 0.162, 0.014349: 0.2, 0.038105: 0.3}.items()),
]


@pytest.mark.parametrize(("encoding", "options", "expected"), MEASURED)
def test_fixed_encodings_are_as_local_as_they_are_known_to_be_and_symmetric(
    encoding, options, expected
):
    weights = encoding_weights(encoding, 128, **options).mean(0)
    assert locality(weights).item() == pytest.approx(expected, abs=1e-3)
    for average in metrics.AVERAGES:
        assert symmetry(weights, average=average).item() == pytest.approx(1.0, abs=1e-3)


def test_alibi_is_as_local_and_symmetric_as_it_is_known_to_be():
    heads = encoding_weights(ALiBi(8), 128)
    known = torch.tensor([0.464, 0.292, 0.173, 0.100, 0.060], dtype=torch.float64)
    close(locality(heads)[:5], known, atol=1e-3, rtol=0)
    causal = encoding_weights(ALiBi(8), 128, direction="causal").mean(0)
    assert locality(causal).item() == pytest.approx(0.213, abs=1e-3)
    assert symmetry(causal).item() == pytest.approx(0.840, abs=1e-3)
    assert causal.triu(1).abs().max() == 0


@pytest.mark.parametrize(
    ("w", "s", "local", "alike"),
    [
        (0.01, 0.1, 0.096, 0.446),
        (0.01, 0.9, 0.167, 0.677),
        (0.01, 2.0, 0.196, 0.720),
        (0.1, 0.5, 0.373, 0.863),
        (0.1, 2.0, 0.470, 0.899),
        (1.0, 10.0, 0.859, 0.968),
    ],
)
def test_attenuation_is_as_local_and_symmetric_as_it_is_known_to_be(w, s, local, alike):
    weights = encoding_weights(Attenuated(w=w, s=s), 128)[0]
    assert locality(weights).item() == pytest.approx(local, abs=1e-3)
    assert symmetry(weights).item() == pytest.approx(alike, abs=1e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.ones(4), r"square matrices.*got shape \(4,\)"),
        (torch.ones(4, 5), r"square matrices.*got shape \(4, 5\)"),
        (torch.ones(0, 0), r"square matrices.*got shape \(0, 0\)"),
        (torch.ones(4, 4), r"rows that sum to 1 or are zeros, got 4 at \[0\] \(4 of 4\)"),
        (torch.eye(4) * math.nan, r"finite numbers, got nan at \[0, 0\]"),
        (torch.eye(4) / 0, r"finite numbers, got inf at \[0, 0\]"),
        (2 * torch.eye(4) - 0.25, r"numbers >= 0, got -0.25 at \[0, 1\].*take their softmax"),
        (np.eye(4), "a torch tensor, got ndarray. Use torch"),
        ([[1.0]], "a torch tensor, got list. Use torch"),
    ],
)
def test_weights_that_are_none_are_refused(wrong, message):
    for score in (*SCORES, check_weights) if torch.is_tensor(wrong) else (check_weights,):
        with pytest.raises(DataError, match=f"`weights` must be {message}"):
            score(wrong)


@pytest.mark.parametrize("length", [1, 2])
def test_two_positions_have_no_symmetry(length):
    assert locality(torch.eye(length)) == 1.0
    for score in (symmetry, raw_symmetry):
        with pytest.raises(ExfamError, match=f"at least 3 positions for a symmetry, got {length}"):
            score(torch.eye(length))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: symmetry(torch.eye(4), average="mean"), "`average` must be one of 'micro', 'mac"),
        (lambda: symmetry(torch.eye(4), tolerance=-1.0), "`tolerance` must be a number >= 0"),
        (lambda: encoding_weights(ALiBi(2), 0), "`length` must be an integer >= 1, got 0"),
        (lambda: encoding_weights(ALiBi(2), 4, direction="forward"), "`direction` must be one of"),
        (lambda: encoding_weights(ALiBi(2), 4, head_dim=0), "`head_dim` must be an integer >= 1"),
        (
            lambda: encoding_weights(DistanceBias(2, metric="haversine"), 3),
            "`encoding` must take one number a position, got Distan",
        ),
    ],
)
def test_options_are_checked(call, message):
    with pytest.raises(ExfamError, match=message):
        call()


@pytest.mark.parametrize("built", [Rotary, lambda dim: RelativeKeys(dim, generator=seeded())])
def test_queries_must_be_as_long_as_the_encoding_has_them(built):
    assert encoding_weights(built(4), 3, head_dim=4).shape == (1, 3, 3)
    with pytest.raises(ExfamError, match="`head_dim` must be 4, which R.* was built for, got 64"):
        encoding_weights(built(4), 3)
