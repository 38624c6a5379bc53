"""A tiny BERT of random weights, as transformers saves it."""

from pathlib import Path

import pytest
import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def save_tiny_bert(folder: Path, words: list[str], *, n_layers: int = 2, longest: int = 20) -> None:
    """Its vocabulary: special tokens, then `words`. Skips the test where transformers is absent."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers (extra hf) is not installed"
    )
    folder.mkdir(exist_ok=True)
    tokens = [*SPECIAL, *words]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(tokens), hidden_size=16, num_hidden_layers=n_layers, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=longest, initializer_range=0.6,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
