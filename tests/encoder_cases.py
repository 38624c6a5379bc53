"""A tiny BERT of random weights, and one with tokens of RoBERTa, as transformers saves them."""

from pathlib import Path
from typing import Any

import pytest
import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def _save_model(folder: Path, n_tokens: int, n_layers: int, longest: int) -> Any:
    """Write a BERT; transformers itself. Skips the test where transformers is absent."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers (extra hf) is not installed"
    )
    config = transformers.BertConfig(
        vocab_size=n_tokens, hidden_size=16, num_hidden_layers=n_layers, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=longest, initializer_range=0.6,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return transformers


def save_tiny_bert(folder: Path, words: list[str], *, n_layers: int = 2, longest: int = 20) -> None:
    """Its vocabulary: special tokens, then `words`."""
    transformers = _save_model(folder, len(SPECIAL) + len(words), n_layers, longest)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *words]) + "\n", encoding="utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)


def save_tiny_roberta(folder: Path, *, longest: int = 20) -> None:
    """Its byte-level BPE knows "man" and "runs", after a space or not, and all letters."""
    pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    merges = [("a", "n"), ("m", "an"), ("n", "s"), ("u", "ns"), ("r", "uns")]
    merges += [("\u0120", word) for word in ("a", "man", "runs")]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *letters, *map("".join, merges)]
    codes = {token: code for code, token in enumerate(tokens)}
    bpe = Tokenizer(models.BPE(vocab=codes, merges=merges, unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    transformers = _save_model(folder, len(tokens), 2, longest)
    transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, **special).save_pretrained(folder)
