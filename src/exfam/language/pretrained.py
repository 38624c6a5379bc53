"""Encoders of Hugging Face's transformers, as probes use them. Extra: exfam[hf]."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.checks import DataError, ExfamError
from exfam.language.text_encoders import (
    WORD_MARKS,
    attention_of_words,
    check_tokens,
    probe_words,
    repeated_words,
    token_vectors,
)
from exfam.vectors import WordVectors

_EAGER = {"attn_implementation": "eager"}


class PretrainedEncoder:
    """A transformers model that returns its attention weights ("eager"), and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        kind = getattr(model.config, "_attn_implementation", "eager")
        if kind != "eager":
            raise ExfamError(
                f"`model` must have eager attention to return its weights, got {kind!r}. Load it "
                "with attn_implementation='eager'."
            )
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "PretrainedEncoder":
        """The encoder of a local folder, as `save_pretrained` writes it; nothing is downloaded."""
        transformers = _transformers()
        path = Path(folder)
        if not (path / "config.json").is_file():
            raise DataError(
                f"`folder` must hold a transformers model, got {str(path)!r} without a "
                "config.json. Save one there: model.save_pretrained(folder)."
            )
        logging, local = transformers.utils.logging, {"local_files_only": True}
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            model = transformers.AutoModel.from_pretrained(path, **local, **_EAGER)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **local)
        except Exception as error:  # what damaged files raise has no base in common
            raise DataError(
                "`folder` must hold a transformers encoder and its tokenizer, got "
                f"{str(path)!r}, which cannot be read. Save both there again. transformers says "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            if shown:
                logging.enable_progress_bar()
        return cls(model, tokenizer)

    def randomized(self, seed: int) -> "PretrainedEncoder":
        """The same architecture with weights as they are before training."""
        transformers = _transformers()
        # transformers draw from torch's default generator and take no other.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = transformers.AutoModel.from_config(self.model.config, **_EAGER)
        return PretrainedEncoder(model, self.tokenizer)

    @property
    def most_tokens(self) -> int:
        """The longest sentence that the encoder has positions for."""
        n_positions = getattr(self.model.config, "max_position_embeddings", None) or 0
        parts = self.model.named_modules()
        tables = [part for name, part in parts if name.endswith("position_embeddings")]
        padding = [getattr(table, "padding_idx", None) for table in tables]
        # RoBERTa and MPNet, and those built as they are, count from behind the row of padding.
        unused = max((row + 1 for row in padding if row is not None), default=0)
        return n_positions - unused if n_positions > 0 else 10**9

    def word_vectors(self) -> WordVectors:
        """The vectors that tokens enter with, of all words that are one token."""
        matrix = self.model.get_input_embeddings().weight.detach().float().cpu().numpy()
        special = frozenset(self.tokenizer.all_special_tokens)
        return token_vectors(self.tokenizer.get_vocab(), matrix, special=special)

    def probe_words(self) -> list[str]:
        """Words of one token, as `TextEncoder.probe_words`."""
        return probe_words(self.tokenizer.get_vocab())

    def repeated(
        self, words: Sequence[str], length: int, *, special_tokens: bool
    ) -> Float[Tensor, "words layers heads length length"]:
        """Attention of sentences of one word over and over, as `TextEncoder.repeated`."""
        ends: list[int] | None = None
        if special_tokens:
            ends = [getattr(self.tokenizer, f"{name}_token_id") for name in ("cls", "sep")]
        if ends is not None and None in ends:
            raise ExfamError(
                "`special_tokens` must be 'none' for an encoder that has no tokens at the ends of "
                "sentences."
            )
        vocabulary, most = self.tokenizer.get_vocab(), self.most_tokens
        return self.attention(repeated_words(words, length, vocabulary, most=most, ends=ends))

    def fits(self, sentences: Sequence[Sequence[str]]) -> Bool[np.ndarray, "sentences"]:
        """Which sentences have no more tokens than the encoder takes, special ones included."""
        coded = self._encoded(sentences)["input_ids"] if len(sentences) else []
        most = self.most_tokens
        return np.array([len(tokens) <= most for tokens in coded], dtype=bool)

    def word_attention(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[Float[Tensor, "layers heads words words"]]:
        """Attention from each word of a sentence to each, as `TextEncoder.word_attention`."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise ExfamError(
                "`tokenizer` must be a fast one, which knows the word of each token, got "
                f"{type(self.tokenizer).__name__}."
            )
        encoded = self._encoded(sentences, padding=True, return_tensors="pt")
        most = self.most_tokens
        for index, count in enumerate(encoded["attention_mask"].sum(1).tolist()):
            check_tokens(count, most=most, index=index)
        weights = self.attention(encoded["input_ids"], encoded["attention_mask"])
        return [
            attention_of_words(weights[index], encoded.word_ids(index), n_words=len(words))
            for index, words in enumerate(sentences)
        ]

    def attention(
        self, tokens: Tensor, present: Tensor | None = None
    ) -> Float[Tensor, "sentences layers heads length length"]:
        """Weights of all layers. `present`: tokens, not padding."""
        seen = torch.ones_like(tokens) if present is None else present.long()
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            output = self.model(
                input_ids=tokens.to(device), attention_mask=seen.to(device), output_attentions=True
            )
        layers = [layer for layer in getattr(output, "attentions", None) or () if layer is not None]
        if not layers:
            raise ExfamError(
                f"`model` must return its attention weights, got none from "
                f"{type(self.model).__name__}. Choose an encoder of softmax attention."
            )
        return torch.stack(layers, 1)

    def _encoded(self, sentences: Sequence[Sequence[str]], **options: Any) -> Any:
        # To byte-level BPE, what no space comes before goes on with the last word.
        is_bpe = any(token.startswith(WORD_MARKS[0]) for token in self.tokenizer.get_vocab())
        space = " " if is_bpe else ""
        spaced = [[space + word for word in words] for words in sentences]
        return self.tokenizer(spaced, is_split_into_words=True, **options)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ExfamError(
            "transformers must be installed to probe its encoders. Install exfam[hf]."
        ) from error
    return transformers
