"""Every encoding: shapes, permutation and shift laws, gradients, refusals."""

import math

import pytest
import torch

from exfam.encodings import (
    ENCODINGS,
    ALiBi,
    Attenuated,
    AttenuatedBias,
    AttenuatedTable,
    DistanceBias,
    EncodingSizes,
    LearnedAbsolute,
    RelativeBias,
    Rotary,
    Sinusoidal,
    build_encoding,
    pair_scores,
    share_positions,
)
from networks import HEAD_DIM, HEADS, random_encoding

SIZES = {"n_heads": 1, "head_dim": 2, "embed_dim": 2, "n_positions": 2}
# Tables and vectors of positions, compared pair by pair.
OF_PAIRS = ("attenuated-probability", "attenuated-table", "attenuated-table-shared", "tupe")
every_encoding = pytest.mark.parametrize("name", sorted(ENCODINGS))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def scores(encoding, q, k, position):
    """What attention would see from this encoding for given queries and keys."""
    fixed = encoding.log_weights(position, position)
    if fixed is not None:
        return fixed.expand(q.shape[0], q.shape[1], -1, -1)
    product = encoding.rotate(q, position) @ encoding.rotate(k, position).mT
    bias = encoding.bias(q, position, position)
    return product if bias is None else product + bias


def queries_and_keys(batch=2, length=6):
    return torch.randn(2, batch, HEADS, length, HEAD_DIM, generator=generator(3)).unbind(0)


@every_encoding
def test_hooks_have_the_shapes_they_say(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position = torch.arange(6)[None].expand(2, -1)
    assert scores(encoding, q, k, position).shape == (2, HEADS, 6, 6)
    added = encoding.embed(position)
    assert added is None or added.shape == (2, 6, 12)


@every_encoding
def test_an_encoding_says_which_hooks_do_anything(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position = torch.arange(6)[None].expand(2, -1)
    assert encoding.embeds == (encoding.embed(position) is not None)
    assert encoding.rotates == (not torch.equal(encoding.rotate(q, position), q))
    assert encoding.replaces == (encoding.log_weights(position, position) is not None)
    turned = [encoding.rotate(x, position) for x in (q, k)]
    told = pair_scores(encoding, *turned, (position, position), scale=1.0)
    torch.testing.assert_close(told, scores(encoding, q, k, position))


@every_encoding
def test_scores_depend_on_differences_of_positions_only_unless_pairs_have_their_own(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position = torch.arange(6)[None].expand(2, -1)
    moved, still = (scores(encoding, q, k, each) for each in (position + 17, position))
    if name in OF_PAIRS:
        assert (moved - still).abs().max() > 1e-3
    else:
        torch.testing.assert_close(moved, still, atol=2e-5, rtol=0)
    added = encoding.embed(position)
    assert added is None or not torch.equal(added, encoding.embed(position + 17))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("name", ["alibi", "attenuated", "distance", "relative", "rotary", "shaw"])
def test_times_may_be_large_numbers(name, dtype):
    # Seconds since 1970, which single precision tells apart by 128.
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position = torch.tensor([[0, 1, 3, 4, 8, 9]], dtype=dtype).expand(2, -1)
    late, early = (scores(encoding, q, k, each) for each in (position + 1_700_000_000, position))
    torch.testing.assert_close(late, early, atol=2e-5, rtol=0)


@every_encoding
def test_scores_go_with_their_elements(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position, order = torch.arange(6)[None].expand(2, -1), torch.tensor([3, 0, 5, 1, 4, 2])
    whole = scores(encoding, q, k, position)
    mixed = scores(encoding, q[:, :, order], k[:, :, order], position[:, order])
    torch.testing.assert_close(mixed, whole[:, :, order][..., order])
    added = encoding.embed(position)
    if added is not None:
        torch.testing.assert_close(encoding.embed(position[:, order]), added[:, order])


@every_encoding
def test_longer_groups_have_scores_or_are_refused(name):
    encoding = random_encoding(name, generator())
    q, k = (torch.randn(1, HEADS, 300, HEAD_DIM, generator=generator(seed)) for seed in (1, 2))
    position = torch.arange(300)[None]

    def told():
        added = encoding.embed(position)
        return scores(encoding, q, k, position) + (0 if added is None else added.sum())

    if name in OF_PAIRS or name == "learned":
        with pytest.raises(ValueError, match=r"`position` must be in 0 \.\. 49 for encoding="):
            told()
    else:
        assert told().isfinite().all()


@every_encoding
def test_shared_positions_give_the_same_as_repeated_ones(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    shared = torch.arange(6)[None].expand(2, -1)
    torch.testing.assert_close(
        scores(encoding, q, k, shared), scores(encoding, q, k, shared.contiguous())
    )


@every_encoding
def test_every_parameter_gets_a_gradient(name):
    encoding = random_encoding(name, generator())
    q, k = queries_and_keys()
    position = torch.arange(6)[None].expand(2, -1)
    added = encoding.embed(position)
    total = scores(encoding, q, k, position).square().sum()
    total = total if added is None else total + added.square().sum()
    parameters = list(encoding.parameters())
    if parameters:
        for gradient in torch.autograd.grad(total, parameters):
            assert gradient.abs().sum() > 0


@every_encoding
def test_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match=f"`encoding` must be one of .* Did you mean '{name}'"):
        build_encoding(name + "x", EncodingSizes(**SIZES, generator=generator()))


def test_learned_refuses_other_positions():
    encoding = LearnedAbsolute(4, 2, generator=generator())
    for wrong in (4, -1):
        message = rf"`position` must be in 0 \.\. 3 for .* got {wrong}\. .* \(4 a group at most"
        with pytest.raises(ValueError, match=message):
            encoding.embed(torch.tensor([[0, wrong]]))
    with pytest.raises(ValueError, match="must be one integer an element for encoding='lear"):
        encoding.embed(torch.tensor([[0.5]]))


def test_learned_keeps_no_table_of_times():
    with pytest.raises(ValueError, match="`position` must be below 1,000,000 .* got a range of 1,"):
        LearnedAbsolute(1_000_000_001, 2, generator=generator())


def test_vectors_are_for_distance():
    places, q = torch.zeros(1, 2, 2), torch.zeros(1, 1, 2, 4)
    with pytest.raises(ValueError, match="must be one number an element for this encoding"):
        Attenuated().log_weights(places, places)
    with pytest.raises(ValueError, match="one number an element for encoding='rotary'"):
        Rotary(4).rotate(q, places)
    with pytest.raises(ValueError, match="one number an element for encoding='sinusoidal'"):
        Sinusoidal(4).embed(places)


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="`head_dim` must be even for rotary"):
        Rotary(3)
    with pytest.raises(ValueError, match="`n_buckets` must be a multiple of 4, got 6"):
        RelativeBias(1, generator=generator(), n_buckets=6)
    with pytest.raises(ValueError, match="`embed_dim` must be even for sinusoidal encoding, got 5"):
        Sinusoidal(5)
    with pytest.raises(ValueError, match="`n_heads` must be a number > 0, got 0"):
        ALiBi(0)
    with pytest.raises(ValueError, match="`position` must be below 8,192 for a table .* of 9,000"):
        AttenuatedTable(9000)
    with pytest.raises(ValueError, match="`added` must be one of 'log', 'probability'"):
        AttenuatedTable(4, added="logs")


def test_a_table_starts_as_what_it_is_named_for():
    position = torch.arange(5)[None]
    q = torch.zeros(1, 2, 5, 4)
    assert (Attenuated(w=2**64).w, Attenuated(w=1, s=2).s) == (2.0**64, 2.0)
    whole = Attenuated(w=2**64).log_weights(position, position)
    torch.testing.assert_close(whole, Attenuated(w=2.0**64).log_weights(position, position))
    fixed = Attenuated(w=0.3, s=0.5).log_weights(position, position)[0, 0]
    added = AttenuatedBias(Attenuated(w=0.3, s=0.5)).bias(q, position, position)[0, 0]
    log, probability = (
        AttenuatedTable(5, n_tables=2, w=0.3, s=0.5, added=how).bias(q, position, position)[0]
        for how in ("log", "probability")
    )
    torch.testing.assert_close(added, fixed)
    for head in range(2):
        torch.testing.assert_close(log[head], fixed)
        torch.testing.assert_close(probability[head], fixed.softmax(-1))
    still = AttenuatedTable(5, learned=False)
    assert not list(still.parameters()) and list(AttenuatedTable(5).parameters())


def test_rotation_keeps_lengths():
    q, _ = queries_and_keys()
    position = 100 * torch.rand(2, 6, generator=generator())
    turned = Rotary(HEAD_DIM).rotate(q, position)
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))
    assert not torch.allclose(turned, q)


def test_haversine_is_kilometers():
    paris_london = torch.tensor([[[48.8566, 2.3522], [51.5074, -0.1278]]])
    encoding = DistanceBias(1, metric="haversine")
    assert abs(encoding.distance(paris_london, paris_london)[0, 0, 1] - 343.6) < 1


def test_attenuated_is_the_papers_softmax():
    w, s, n = 0.05, 0.5, 5
    position = torch.arange(n)[None]
    weights = Attenuated(w=w, s=s).log_weights(position, position)[0, 0].softmax(-1)
    for i in range(n):
        raw = [math.exp(-(s if i <= j else 1) * w * (i - j) ** 2) for j in range(n)]
        expected = torch.tensor(raw) / sum(raw)
        torch.testing.assert_close(weights[i], expected)


class TestSharedPositions:
    PRESENT = torch.tensor([[True, True, False], [True, True, True]])

    def test_groups_that_count_alike_share_one_row(self):
        position = torch.tensor([[3, 4, 0], [3, 4, 9]])
        shared = share_positions(position, self.PRESENT)
        assert shared.stride(0) == 0
        assert shared.tolist() == [[3, 4, 9], [3, 4, 9]]

    @pytest.mark.parametrize(
        "position",
        [
            torch.tensor([[3, 5, 0], [3, 4, 9]]),
            torch.tensor([[0.0, 1.5, 0.0], [0.0, 1.0, 2.0]]),
            torch.zeros(2, 3, 2),
            torch.zeros(2, 0, dtype=torch.int64),
        ],
    )
    def test_others_keep_theirs(self, position):
        present = self.PRESENT[:, : position.shape[1]]
        assert share_positions(position, present) is position
