"""Positional encodings: their laws, and the same by transformers."""

import math

import pytest
import torch

from exfam.encodings import (
    ENCODINGS,
    ALiBi,
    Attenuated,
    AttenuatedBias,
    AttenuatedTable,
    EncodingSizes,
    LearnedAbsolute,
    RelativeBias,
    Rotary,
    Sinusoidal,
    build_encoding,
    pair_scores,
)
from model_cases import generator
from networks import HEAD_DIM, HEADS, random_encoding

# Tables and vectors of positions, compared pair by pair.
OF_PAIRS = ("attenuated-probability", "attenuated-table", "attenuated-table-shared", "tupe")
POSITION = torch.arange(6)[None].expand(2, -1)


def queries_and_keys(batch=2, length=6):
    return torch.randn(2, batch, HEADS, length, HEAD_DIM, generator=generator(3)).unbind(0)


def scores(encoding, position, pairs=None):
    """What attention would see from this encoding for given queries and keys."""
    q, k = queries_and_keys() if pairs is None else pairs
    fixed = encoding.log_weights(position, position)
    if fixed is not None:
        return fixed.expand(q.shape[0], q.shape[1], -1, -1)
    product = encoding.rotate(q, position) @ encoding.rotate(k, position).mT
    bias = encoding.bias(q, position, position)
    return product if bias is None else product + bias


def embedded(encoding, position):
    """What is added to the vectors of elements, zero of an encoding that adds none."""
    added = encoding.embed(position)
    return torch.zeros(*position.shape, 12) if added is None else added


@pytest.mark.parametrize("name", sorted(ENCODINGS))
class TestEveryEncoding:
    def test_says_which_hooks_do_anything(self, name):
        encoding = random_encoding(name, generator())
        q, k = queries_and_keys()
        assert embedded(encoding, POSITION).shape == (2, 6, 12)
        assert encoding.embeds == (encoding.embed(POSITION) is not None)
        assert encoding.rotates == (not torch.equal(encoding.rotate(q, POSITION), q))
        assert encoding.replaces == (encoding.log_weights(POSITION, POSITION) is not None)
        turned = [encoding.rotate(x, POSITION) for x in (q, k)]
        paired = pair_scores(encoding, *turned, (POSITION, POSITION), scale=1.0)
        assert paired.shape == (2, HEADS, 6, 6)
        torch.testing.assert_close(paired, scores(encoding, POSITION))
        # Shared positions give the same as repeated ones.
        torch.testing.assert_close(scores(encoding, POSITION.contiguous()), paired)

    def test_scores_depend_on_differences_of_positions_unless_pairs_have_their_own(self, name):
        encoding = random_encoding(name, generator())
        moved, still = scores(encoding, POSITION + 17), scores(encoding, POSITION)
        if name in OF_PAIRS:
            assert (moved - still).abs().max() > 1e-3
        else:
            torch.testing.assert_close(moved, still, atol=2e-5, rtol=0)
        added = encoding.embed(POSITION)
        assert added is None or not torch.equal(added, encoding.embed(POSITION + 17))

    def test_scores_go_with_their_elements(self, name):
        encoding = random_encoding(name, generator())
        order, whole = torch.tensor([3, 0, 5, 1, 4, 2]), scores(encoding, POSITION)
        pairs = [x[:, :, order] for x in queries_and_keys()]
        mixed = scores(encoding, POSITION[:, order], pairs)
        torch.testing.assert_close(mixed, whole[:, :, order][..., order])
        added = embedded(encoding, POSITION)
        torch.testing.assert_close(embedded(encoding, POSITION[:, order]), added[:, order])

    def test_longer_groups_have_scores_or_are_refused(self, name):
        encoding, position = random_encoding(name, generator()), torch.arange(300)[None]

        def total():
            pairs = queries_and_keys(1, 300)
            return embedded(encoding, position).sum() + scores(encoding, position, pairs)

        if name in OF_PAIRS or name == "learned":
            with pytest.raises(ValueError, match=r"`position` must be in 0 \.\. 49 for encoding="):
                total()
        else:
            assert total().isfinite().all()

    def test_every_parameter_gets_a_gradient(self, name):
        encoding = random_encoding(name, generator())
        total = scores(encoding, POSITION).square().sum()
        total = total + embedded(encoding, POSITION).square().sum()
        parameters = list(encoding.parameters())
        if parameters:
            for gradient in torch.autograd.grad(total, parameters):
                assert gradient.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("name", ["alibi", "attenuated", "distance", "relative", "rotary", "shaw"])
def test_times_may_be_large_numbers(name, dtype):
    # Seconds since 1970, of which single precision holds every 128th.
    encoding = random_encoding(name, generator())
    position = torch.tensor([[0, 1, 3, 4, 8, 9]], dtype=dtype).expand(2, -1)
    late, early = scores(encoding, position + 1_700_000_000), scores(encoding, position)
    torch.testing.assert_close(late, early, atol=2e-5, rtol=0)


def learned(n):
    return LearnedAbsolute(n, 2, generator=generator())


SITES = torch.zeros(1, 2, 2)
SIZES = EncodingSizes(n_heads=1, head_dim=2, embed_dim=2, n_positions=2, generator=generator())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_encoding("alibix", SIZES), "`encoding` must be one of .* Did you mean 'ali"),
        (lambda: learned(4).embed(torch.tensor([[0, 4]])), r"0 \.\. 3 for .* got 4\. .* \(4 a gro"),
        (lambda: learned(4).embed(torch.tensor([[0, -1]])), r"must be in 0 \.\. 3 for .* got -1\."),
        (lambda: learned(4).embed(torch.tensor([[0.5]])), "one integer an element for encoding='l"),
        (lambda: learned(1_000_000_001), "`position` must be below 1,000,000 .* a range of 1,"),
        (lambda: Attenuated().log_weights(SITES, SITES), "one number an element for this encoding"),
        (lambda: Rotary(4).rotate(torch.zeros(1, 1, 2, 4), SITES), "for encoding='rotary'"),
        (lambda: Sinusoidal(4).embed(SITES), "for encoding='sinusoidal'"),
        (lambda: Rotary(3), "`head_dim` must be even for rotary"),
        (lambda: RelativeBias(1, generator=generator(), n_buckets=6), "a multiple of 4, got 6"),
        (lambda: Sinusoidal(5), "`embed_dim` must be even for sinusoidal encoding, got 5"),
        (lambda: ALiBi(0), "`n_heads` must be a number > 0, got 0"),
        (lambda: AttenuatedTable(9000), "`position` must be below 8,192 for a table .* of 9,000"),
        (lambda: AttenuatedTable(4, added="logs"), "`added` must be one of 'log', 'probability'"),
        (lambda: Attenuated(w=1e19, s=1e2), r"`w` and `s` \* `w` must be at most 1e\+20"),
    ],
)
def test_names_sizes_and_positions_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_attenuation_is_the_papers_softmax_in_every_form():
    w, s, n = 0.3, 0.5, 5
    position, q = torch.arange(n)[None], torch.zeros(1, 2, n, 4)
    fixed = Attenuated(w=w, s=s).log_weights(position, position)[0, 0]
    for i in range(n):
        raw = [math.exp(-(s if i <= j else 1) * w * (i - j) ** 2) for j in range(n)]
        torch.testing.assert_close(fixed.softmax(-1)[i], torch.tensor(raw) / sum(raw))
    added = AttenuatedBias(Attenuated(w=w, s=s)).bias(q, position, position)[0, 0]
    torch.testing.assert_close(added, fixed)
    for how, start in (("log", fixed), ("probability", fixed.softmax(-1))):
        table = AttenuatedTable(n, n_tables=2, w=w, s=s, added=how).bias(q, position, position)[0]
        torch.testing.assert_close(table, start.expand(2, -1, -1))
    assert not list(AttenuatedTable(5, learned=False).parameters())
    whole, real = (Attenuated(w=w).log_weights(position, position) for w in (2**64, 2.0**64))
    torch.testing.assert_close(whole, real)


pytest.importorskip("transformers", reason="transformers (extra hf) is not installed")


# Both hold speeds in single precision: what a difference of 1e-7 makes grows with the position.
@pytest.mark.parametrize(("most", "atol"), [(16, 1e-6), (500, 5e-5)])
def test_rotary_turns_as_llamas_does(most, atol):
    from transformers.models.llama import configuration_llama, modeling_llama

    q, k = torch.randn(2, 3, 4, 20, 16, generator=generator()).unbind(0)
    position = torch.randint(most, (3, 20), generator=generator(1))
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 512}
    config = configuration_llama.LlamaConfig(**sizes)
    cos_sin = modeling_llama.LlamaRotaryEmbedding(config)(q, position)
    expected = modeling_llama.apply_rotary_pos_emb(q, k, *cos_sin)
    for x, witness in zip((q, k), expected, strict=True):
        torch.testing.assert_close(Rotary(16).rotate(x, position), witness, atol=atol, rtol=0)


@pytest.mark.parametrize("n_heads", [1, 12])
def test_alibi_weighs_as_blooms_does(n_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    position = torch.arange(24)[None]
    witness = build_alibi_tensor(torch.ones(1, 24), n_heads, torch.float32)
    own = ALiBi(n_heads).bias(torch.zeros(1, n_heads, 24, 4), position, position)[0]
    later = torch.ones(24, 24, dtype=torch.bool).triu(1)
    # Bloom adds slope * j: the same as -slope * (i - j), but for a constant in each row.
    weights = [x.masked_fill(later, -torch.inf).softmax(-1) for x in (own, witness)]
    torch.testing.assert_close(*weights, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (16, 40)])
def test_relative_bias_is_that_of_t5(n_buckets, max_distance):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=32, num_heads=4, relative_attention_num_buckets=n_buckets,
        relative_attention_max_distance=max_distance,
    )  # fmt: skip
    with torch.random.fork_rng():
        witness = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    own = RelativeBias(4, n_buckets=n_buckets, max_distance=max_distance, generator=generator())
    with torch.no_grad():
        witness.relative_attention_bias.weight.copy_(own.table.weight)
        expected = witness.compute_bias(200, 200)
    position = torch.arange(200)[None]
    bias = own.bias(torch.zeros(1, 4, 200, 8), position, position)
    torch.testing.assert_close(bias, expected, atol=1e-6, rtol=0)
    assert expected.unique().numel() == 4 * (n_buckets - 1)
