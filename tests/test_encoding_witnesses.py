"""Rotary, ALiBi and T5 encodings against those of transformers."""

import pytest
import torch

from exfam.encodings import ALiBi, RelativeBias, Rotary
from model_cases import generator

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
