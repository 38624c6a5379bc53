"""A masked language model as an encoder of sentences: vectors, and attention between words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int32
from torch import Tensor

from exfam.analysis.word_pieces import attention_of_words, probe_words, word_codes
from exfam.checks import DataError, ExfamError, check_choice, check_whole
from exfam.data.text.subwords import END, START, Coded, Subwords
from exfam.models.masked_lm import Encoded, MaskedLM
from exfam.models.sentence_heads import pooled
from exfam.models.token_pieces import padded, sequential_places

__all__ = ["LONG_SENTENCES", "POOLINGS", "TextEncoder"]

# How a sentence's vector is made: the mean of its tokens, or the first token's.
POOLINGS = ("mean", "first")
# What becomes of sentences of more tokens than the encoder has positions for.
LONG_SENTENCES = ("error", "cut")
# Padded tokens computed at a time.
_TOKENS_AT_ONCE = 4096

Sentence = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A network, its vocabulary, and the term of its attention that is used.

    `term`: "both", or "contextual" or "positional" alone: see `MaskedLM.forward`
    `long_sentences`: "error", or "cut" to leave out what is beyond the last position
    """

    network: MaskedLM
    subwords: Subwords
    term: str = "both"
    long_sentences: str = "error"

    @property
    def most_tokens(self) -> int:
        """Tokens of a sentence at most, special ones included."""
        encodings = [self.network.added, self.network.layers[0].attention.encoding]
        known = [each.n_positions for each in encodings if each.n_positions is not None]
        return min(known, default=10**9)

    def with_term(self, term: str) -> "TextEncoder":
        """The same with another term of attention."""
        return TextEncoder(self.network, self.subwords, term, self.long_sentences)

    def probe_words(self) -> list[str]:
        """Words of one token, of at least two letters a-z, sorted."""
        return probe_words(self.subwords.index)

    def repeated(
        self, words: Sequence[str], length: int, *, special_tokens: bool
    ) -> Float[Tensor, "words layers heads length length"]:
        """Attention of sentences of one word over and over.

        Raises ExfamError for a sentence longer than the encoder takes, UnknownItemError for a word
        that is not one token.
        """
        if length > self.most_tokens:
            raise ExfamError(
                f"`length` must be at most {self.most_tokens} for this encoder, got {length}."
            )
        tokens = torch.tensor(word_codes(words, self.subwords.index))[:, None].repeat(1, length)
        if special_tokens:
            tokens[:, 0], tokens[:, -1] = self.subwords.index[START], self.subwords.index[END]
        told = self._run(tokens, torch.ones_like(tokens, dtype=torch.bool))
        return torch.stack([each.expand(len(tokens), -1, -1, -1) for each in told.weights], 1)

    def word_attention(
        self, sentences: Sequence[Sentence]
    ) -> list[Float[Tensor, "layers heads words words"]]:
        """Attention from each word of a sentence to each, special tokens left out.

        Attention to a word is summed over its tokens, that from a word is their mean.
        Raises DataError for a sentence of more tokens than the encoder takes, naming its place.
        """
        coded = self.subwords.encode(sentences)
        for place, each in enumerate(coded):
            self._check_length(len(each.codes) + 2, place)
        found: list[Tensor] = [torch.empty(0)] * len(coded)
        for places, told, _ in self._batches([self._piece([each]) for each in coded]):
            for row, place in enumerate(places):
                given, words = sentences[place], coded[place].words.tolist()
                n_words = max(words, default=-1) + 1 if isinstance(given, str) else len(given)
                n = len(words) + 2
                own = torch.stack([w[row if len(w) > 1 else 0, :, :n, :n] for w in told.weights])
                found[place] = attention_of_words(own, [None, *words, None], n_words=n_words)
        return found

    def vectors(
        self,
        sentences: Sequence[Sentence | tuple[Sentence, Sentence]],
        *,
        layer: int = -1,
        pooling: str = "mean",
    ) -> Float32[np.ndarray, "sentences embed"]:
        """A vector a sentence, or a pair of sentences in a tuple.

        `layer`: 0 for what enters the first layer, 1 for what leaves it, …; -1 for the last
            (default -1)
        `pooling`: "mean" of the tokens, special ones included, or the "first" one (default "mean")

        Raises ExfamError for a layer that there is not; DataError for a sentence that is too long.
        """
        check_choice("pooling", pooling, POOLINGS)
        n_layers = len(self.network.layers)
        check_whole("layer", layer, least=-1)
        if layer > n_layers:
            raise ExfamError(f"`layer` must be at most {n_layers}, got {layer}.")
        pieces = self.pieces(sentences)
        out = np.empty((len(pieces), self.network.words.dim), dtype=np.float32)
        for places, told, present in self._batches(pieces):
            found = pooled(told.states[layer], present, pooling=pooling)
            out[places] = found.cpu().numpy()
        return out

    def pieces(
        self, sentences: Sequence[Sentence | tuple[Sentence, Sentence]]
    ) -> list[Int32[np.ndarray, "_"]]:
        """Sentences, or pairs of them in tuples, as tokens between special ones.

        [CLS] first [SEP], or [CLS] first [SEP] second [SEP]. Raises DataError, naming its place,
        for one that is too long, or is no sentence or pair.
        """
        flat: list[Sentence] = []
        for place, each in enumerate(sentences):
            if isinstance(each, tuple) and len(each) != 2:
                raise DataError(
                    f"Sentence {place} must be a text, a list of words or a pair of these in a "
                    f"tuple, got a tuple of {len(each)}. Give words as a list."
                )
            flat.extend(each if isinstance(each, tuple) else [each])
        coded = iter(self.subwords.encode(flat))
        made = [
            self._piece([next(coded) for _ in range(2 if isinstance(each, tuple) else 1)])
            for each in sentences
        ]
        return [self._fitting(piece, place) for place, piece in enumerate(made)]

    def _piece(self, parts: Sequence[Coded]) -> Int32[np.ndarray, "_"]:
        index = self.subwords.index
        codes = [np.array([index[START]])]
        for part in parts:
            codes += [part.codes, np.array([index[END]])]
        return np.concatenate(codes).astype(np.int32)

    def _fitting(self, piece: np.ndarray, place: int) -> np.ndarray:
        if len(piece) <= self.most_tokens:
            return piece
        if self.long_sentences == "error":
            self._check_length(len(piece), place)
        return np.append(piece[: self.most_tokens - 1], piece[-1])

    def _check_length(self, n_tokens: int, place: int) -> None:
        if n_tokens > self.most_tokens:
            raise DataError(
                f"`sentences` must have at most {self.most_tokens} tokens for this encoder, got "
                f"{n_tokens} in sentence {place}. Leave it out, or shorten it."
            )

    def _batches(self, pieces: list[np.ndarray]) -> Iterator[tuple[np.ndarray, Encoded, Tensor]]:
        """Places of sentences of like length, what the network makes of them, what is there."""
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
        for places in sequential_places(lengths, max_tokens=_TOKENS_AT_ONCE):
            tokens, present = padded([pieces[place] for place in places])
            told = self._run(tokens, present)
            yield places, told, present.to(told.states[0].device)

    def _run(self, tokens: Tensor, present: Tensor) -> Encoded:
        device = self.network.bias.device
        with torch.inference_mode():
            told: Encoded = self.network(tokens.to(device), present.to(device), term=self.term)
        return told
