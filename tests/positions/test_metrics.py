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
    row_locality,
    row_symmetry,
    symmetry,
)
from positions.direct import locality_by_loops, symmetry_by_loops

close = torch.testing.assert_close


def random_weights(*shape, seed=0, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    assert drawn.std() > 0.4
    return (sharpness * drawn).softmax(-1)


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("length", [3, 4, 7, 12])
@pytest.mark.parametrize("average", metrics.AVERAGES)
def test_scores_are_those_of_loops_over_the_equations(length, average):
    weights = random_weights(2, 3, length, length)
    for matrix, local, alike in zip(
        weights.flatten(0, 1),
        locality(weights).flatten(),
        symmetry(weights, average=average).flatten(),
        strict=True,
    ):
        assert local.item() == pytest.approx(locality_by_loops(matrix.tolist()))
        assert alike.item() == pytest.approx(symmetry_by_loops(matrix.tolist(), average=average))


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
    for score in (locality, symmetry, raw_symmetry):
        close(score(stored.mT), score(stored.mT.contiguous()), rtol=0, atol=0)
        close(score(stored.mT[:1].expand(3, 7, 7)), score(stored.mT[:1]).expand(3))
    assert torch.equal(stored, before)


def test_the_papers_examples():
    first, last = torch.eye(5)[0], torch.eye(5)[4]
    assert row_locality(torch.stack([first] * 5))[0] == 1.0
    assert row_locality(torch.stack([last] * 5))[0] == 1 / 16


def test_rows_are_scored_alone():
    weights = random_weights(9, 9)
    other = weights.clone()
    other[4] = random_weights(9, seed=1)
    for score in (row_locality, row_symmetry):
        same = score(weights) == score(other)
        defined = ~score(weights).isnan()
        assert same[defined].tolist() == [row != 4 for row in range(9) if defined[row]]
    assert row_symmetry(weights).isnan().tolist() == [True, *[False] * 7, True]
    close(symmetry(weights, average="macro"), row_symmetry(weights)[1:-1].mean())
    close(locality(weights), row_locality(weights).mean())


def test_mirrored_sentences_have_the_same_scores():
    weights = random_weights(8, 8)
    mirrored = weights.flip(0, 1)
    for score in (locality, symmetry, raw_symmetry):
        close(score(mirrored), score(weights))


def test_scores_are_between_their_bounds_and_reach_them():
    weights = random_weights(50, 6, 6, sharpness=4.0)
    for score in (locality, symmetry, raw_symmetry):
        scores = score(weights)
        assert 0 <= scores.min() < scores.max() <= 1
    eye, uniform = torch.eye(6), torch.full((6, 6), 1 / 6)
    assert locality(eye) == 1 and symmetry(uniform) == raw_symmetry(uniform) == 1
    assert raw_symmetry(eye) == 1


def test_an_encodings_precision_changes_nothing_and_is_left_as_it_was():
    encoding = RelativeBias(2, generator=seeded())
    single = encoding_weights(encoding, 6)
    assert {each.dtype for each in encoding.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(single, encoding_weights(encoding.double(), 6), rtol=0, atol=0)
    assert single.dtype == torch.float64 and single.std() > 0


def test_what_positions_without_meaning_score():
    length = 128
    causal = renormalized(torch.ones(length, length).tril())
    ahead = torch.eye(length).roll(1, 1)
    ahead[-1] = 0
    assert symmetry(causal) == 1.0 and raw_symmetry(causal) == 0.0
    assert symmetry(ahead).item() == pytest.approx(0.969, abs=1e-3) and raw_symmetry(ahead) == 0.0
    exponential = -torch.rand(8, length, length, generator=torch.Generator().manual_seed(0)).log()
    drawn = symmetry(renormalized(exponential))
    assert drawn.mean().item() == pytest.approx(0.753, abs=0.01)


def test_rows_of_zeros_are_left_out():
    weights = random_weights(6, 6)
    weights[0] = 0.0
    assert locality(weights).item() == pytest.approx(row_locality(weights)[1:].mean().item())
    weights[2] = 0.0
    assert symmetry(weights, average="macro") == row_symmetry(weights)[[1, 3, 4]].mean()
    assert symmetry(weights).isfinite() and raw_symmetry(weights).isfinite()


def test_rounding_is_no_asymmetry():
    place = torch.arange(128)
    exact = (-(place - place[:, None]).abs() / 5.0).softmax(-1)
    noise = torch.rand(128, 128, generator=torch.Generator().manual_seed(0)) - 0.5
    rounded = exact * (1 + 2e-7 * noise)
    assert symmetry(rounded) == 1.0
    assert symmetry(rounded, tolerance=0.0) < 0.9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_half_precision_is_scored_in_double(dtype):
    weights = random_weights(20, 20)
    scores = locality(weights.to(dtype))
    assert scores.dtype == torch.float64
    close(scores, locality(weights), atol=1e-2, rtol=0)


# Encodings by themselves: the figures that were measured for them.


@pytest.mark.parametrize(
    ("encoding", "options", "expected"),
    [
        *(
            (Sinusoidal(dim), {}, result)
            for dim, result in {64: 0.093, 128: 0.149, 256: 0.254, 512: 0.411, 768: 0.506}.items()
        ),
        *(
            (Rotary(dim), {"head_dim": dim}, result)
            for dim, result in {32: 0.151, 64: 0.260, 128: 0.421}.items()
        ),
        *((ALiBi(heads), {}, result) for heads, result in {8: 0.148, 12: 0.207, 16: 0.167}.items()),
        *(
            (Attenuated(w=w), {}, result)
            for w, result in {0.008844: 0.162, 0.009872: 0.17, 0.014349: 0.2, 0.038105: 0.3}.items()
        ),
    ],
)
def test_fixed_encodings_are_as_local_as_they_are_known_to_be_and_symmetric(
    encoding, options, expected
):
    weights = encoding_weights(encoding, 128, **options).mean(0)
    assert locality(weights).item() == pytest.approx(expected, abs=1e-3)
    for average in metrics.AVERAGES:
        assert symmetry(weights, average=average).item() == pytest.approx(1.0, abs=1e-3)


def test_each_slope_of_alibi_is_as_local_as_it_is_known_to_be():
    heads = encoding_weights(ALiBi(8), 128)
    known = [0.464, 0.292, 0.173, 0.100, 0.060]
    close(locality(heads)[:5], torch.tensor(known, dtype=torch.float64), atol=1e-3, rtol=0)


def test_causal_alibi_is_as_symmetric_as_it_is_known_to_be():
    weights = encoding_weights(ALiBi(8), 128, direction="causal").mean(0)
    assert locality(weights).item() == pytest.approx(0.213, abs=1e-3)
    assert symmetry(weights).item() == pytest.approx(0.840, abs=1e-3)
    assert weights.triu(1).abs().max() == 0


@pytest.mark.parametrize(
    ("w", "s", "local", "alike"),
    [
        (0.01, 0.1, 0.096, 0.446),
        (0.01, 0.5, 0.145, 0.632),
        (0.01, 0.9, 0.167, 0.677),
        (0.01, 2.0, 0.196, 0.720),
        (0.1, 0.5, 0.373, 0.863),
        (0.1, 2.0, 0.470, 0.899),
        (1.0, 0.5, 0.716, 0.953),
        (1.0, 10.0, 0.859, 0.968),
    ],
)
def test_attenuation_is_as_local_and_symmetric_as_it_is_known_to_be(w, s, local, alike):
    weights = encoding_weights(Attenuated(w=w, s=s), 128)[0]
    assert locality(weights).item() == pytest.approx(local, abs=1e-3)
    assert symmetry(weights).item() == pytest.approx(alike, abs=1e-3)


# What is refused


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.ones(4), r"`weights` must be square matrices.*got shape \(4,\)"),
        (torch.ones(4, 5), r"`weights` must be square matrices.*got shape \(4, 5\)"),
        (torch.ones(0, 0), r"`weights` must be square matrices.*got shape \(0, 0\)"),
        (torch.ones(4, 4), r"rows that sum to 1 or are zeros, got 4 at \[0\] \(4 of 4\)"),
        (torch.eye(4) * math.nan, r"finite numbers, got nan at \[0, 0\]"),
        (torch.eye(4) / 0, r"finite numbers, got inf at \[0, 0\]"),
        (2 * torch.eye(4) - 0.25, r"numbers >= 0, got -0.25 at \[0, 1\].*take their softmax"),
    ],
)
def test_weights_that_are_none_are_refused(wrong, message):
    for score in (locality, symmetry, raw_symmetry):
        with pytest.raises(DataError, match=message):
            score(wrong)


@pytest.mark.parametrize("wrong", [np.eye(4), np.eye(4).tolist()])
def test_what_is_no_tensor_is_refused(wrong):
    name = type(wrong).__name__
    with pytest.raises(DataError, match=f"`weights` must be a torch tensor, got {name}. Use torch"):
        check_weights(wrong)
    check_weights(torch.as_tensor(wrong))


@pytest.mark.parametrize("length", [1, 2])
def test_two_positions_have_no_symmetry(length):
    weights = torch.eye(length)
    assert locality(weights) == 1.0
    for score in (symmetry, raw_symmetry, row_symmetry):
        with pytest.raises(ExfamError, match=f"at least 3 positions for a symmetry, got {length}"):
            score(weights)


def test_options_are_checked():
    with pytest.raises(ExfamError, match="`average` must be one of 'micro', 'macro', got 'mean'"):
        symmetry(torch.eye(4), average="mean")
    with pytest.raises(ExfamError, match="`tolerance` must be a number >= 0, got -1"):
        symmetry(torch.eye(4), tolerance=-1.0)
    with pytest.raises(ExfamError, match="`length` must be an integer >= 1, got 0"):
        encoding_weights(ALiBi(2), 0)
    with pytest.raises(ExfamError, match="`direction` must be one of"):
        encoding_weights(ALiBi(2), 4, direction="forward")
    with pytest.raises(ExfamError, match="`head_dim` must be an integer >= 1, got 0"):
        encoding_weights(ALiBi(2), 4, head_dim=0)


@pytest.mark.parametrize("built", [Rotary, lambda dim: RelativeKeys(dim, generator=seeded())])
def test_queries_must_be_as_long_as_the_encoding_has_them(built):
    assert encoding_weights(built(4), 3, head_dim=4).shape == (1, 3, 3)
    with pytest.raises(ExfamError, match="`head_dim` must be 4, which R.* was built for, got 64"):
        encoding_weights(built(4), 3)


def test_distances_on_a_sphere_have_no_positions_in_a_row():
    with pytest.raises(ExfamError, match="`encoding` must take one number a position, got Distan"):
        encoding_weights(DistanceBias(2, metric="haversine"), 3)
