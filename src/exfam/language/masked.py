"""The masked language model as an estimator."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from exfam.checks import DataError, ExfamError, check_positive
from exfam.encodings import ENCODINGS
from exfam.estimator.base import check_fitted, parameter, settings_from
from exfam.estimator.file_parameters import TextFiles
from exfam.estimator.record import recorded
from exfam.estimator.rules import Choice, Flag, Fraction, Whole
from exfam.estimator.scikit import Transformer
from exfam.language.network_estimator import AdamTraining, CheckpointLike, LanguageEstimator
from exfam.language.networks.masked_lm import MaskedLM, MaskedLMSizes
from exfam.language.networks.token_pieces import (
    MaskedTokens,
    TokenPieces,
    masked_choices,
    sentence_log_probs,
)
from exfam.language.text_encoders import TextEncoder
from exfam.language.tokens import located_lines, sentence_list, text_source
from exfam.layers import CONNECTIONS
from exfam.reading.text.corpus import warn_unknown_words
from exfam.reading.text.subwords import (
    END,
    MASK,
    SPECIAL,
    START,
    SUBWORDS,
    UNKNOWN,
    Subwords,
    learn_subwords,
)
from exfam.training.optimizer import TrainingSettings
from exfam.training.precision import PRECISIONS

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "validation_fraction", "long_sentences")
# Words of a line that are cut into pieces at a time.
_WORDS_AT_ONCE = 1000
_UNKNOWN_CODE = SPECIAL.index(UNKNOWN)

_Pieces = list[np.ndarray]


class MaskedLanguageModel(Transformer, TextFiles, LanguageEstimator, AdamTraining):
    """p(token | all other tokens of its piece of text), by attention among them.

    A text is a file (plain, .gz, .bz2) or several, or lines (texts or lists of words). Its words
    are cut into pieces that are learned from it; "<unk>" is unknown. It is read in stretches of
    `length` tokens, line ends among them.

    {parameters}

    Source: Devlin et al. (2019). Extra: exfam[hf], for the package tokenizers.

    >>> model = MaskedLanguageModel(vocabulary_size=40, embed_dim=8, n_heads=2, n_layers=1,
    ...     feed_forward_dim=16, length=16, max_epochs=2)
    >>> model = model.fit(["a man runs", "a dog sleeps"] * 40)
    >>> model.embed(["a dog runs"]).shape
    (1, 8)
    """

    subwords: str = parameter(
        Choice(tuple(SUBWORDS)),
        '"wordpiece" or "bpe": how pieces of words are learned; "word" for whole words alone,'
        " the rarer ones unknown",
        default="wordpiece",
    )
    vocabulary_size: int = parameter(
        Whole(), "of pieces, 5 special ones and all characters included", default=8000
    )
    min_count: int = parameter(
        Whole(), "how often a whole word, or two pieces that become one, must be read", default=2
    )
    lower: bool = parameter(Flag(), "whether letters are made small first", default=True)
    encoding: str = parameter(
        Choice(tuple(ENCODINGS)),
        'how positions enter, see `exfam.encodings.ENCODINGS`: "rotary" learns from little '
        'text, where "learned" may stay at the words\' frequencies',
        default="rotary",
    )
    embed_dim: int = parameter(Whole(), "length of the tokens' vectors", default=128)
    n_heads: int = parameter(Whole(), "of attention; divides `embed_dim`", default=4)
    n_layers: int = parameter(Whole(), "of attention", default=4)
    feed_forward_dim: int = parameter(
        Whole(least=0), "of the layers between; 0 for none", default=512
    )
    connection: str = parameter(
        Choice(tuple(CONNECTIONS)), '"pre-norm", or "post-norm" as in BERT', default="pre-norm"
    )
    length: int = parameter(
        Whole(least=3),
        "tokens of a stretch; the longest sentence for encodings that have tables",
        default=128,
    )
    mask_share: float = parameter(Fraction(), "of tokens that are masked", default=0.15)
    validation_fraction: float = parameter(
        Fraction(),
        "share of the stretches, at the text's end, that is held out where no validation text"
        " is given, though pieces of words are learned from it too; 0 for none, and none "
        "where it is less than one stretch",
        default=0.05,
    )

    kind: ClassVar[str] = "masked-language-model"

    @recorded
    def fit(
        self, X: Any, y: None = None, *, validation: Any = None, checkpoint: CheckpointLike = None
    ) -> "MaskedLanguageModel":
        """Fit to a text.

        `validation`: a text that chooses the epoch.
        `checkpoint`: a folder from which a fit that was cut short goes on to the same bits.
        """
        self._check_parameters()
        learned, pieces, held = self._texts(X, validation)
        self._start_fit()
        self.data_counts_ = {"stretches of text": len(pieces), "pieces": len(learned.labels)}
        self.vocabulary_ = {"token": learned.labels, "subwords": np.array([learned.text], object)}
        self._train(
            self.network(learned),
            objective=self._objective(),
            train=TokenPieces(pieces, float(self.mask_share), len(SPECIAL)),
            validation=None if held is None else self._scored(held),
            settings=settings_from(self, TrainingSettings),
            checkpoint=checkpoint,
            irrelevant=_IRRELEVANT,
        )
        return self

    def _texts(self, X: Any, validation: Any) -> tuple[Subwords, _Pieces, _Pieces | None]:
        """The vocabulary of a text, its stretches, and those that are held out."""
        lines = list(_lines(X, name="X", encoding=self.file_encoding))
        options = {"size": int(self.vocabulary_size), "min_count": int(self.min_count)}
        try:
            learned = learn_subwords(
                [line for line, _ in lines], kind=self.subwords, lower=bool(self.lower), **options
            )
        except ExfamError as error:
            message = str(error).replace("`size`", "`vocabulary_size`").replace("`lines`", "`X`")
            raise type(error)(message) from error
        length = int(self.length)
        pieces = _stretches(lines, learned, length=length)
        if not _has_words(pieces):
            raise DataError("`X` must have words, got only characters that no piece is made of.")
        if validation is not None:
            held = _stretches(
                _lines(validation, name="validation", encoding=self.file_encoding),
                learned,
                length=length,
            )
            missing = "`validation` must have words that `X` has pieces of, got none."
        elif n_held := int(len(pieces) * float(self.validation_fraction)):
            pieces, held = pieces[:-n_held], pieces[-n_held:]
            missing = (
                f"`validation_fraction` must hold out words of `X`, got none in the last {n_held} "
                "stretches. Set it to 0, or give `validation`."
            )
        else:
            return learned, pieces, None
        if not _has_words(held):
            raise DataError(missing)
        return learned, pieces, held

    @property
    def subwords_(self) -> Subwords:
        """The vocabulary of pieces, and how words are cut into them."""
        check_fitted(self, "vocabulary_")
        return Subwords(self.vocabulary_["subwords"][0])

    def encoder(self, *, term: str = "both") -> TextEncoder:
        """The encoder that probes of vectors and attention take.

        `term`: "both", or "contextual" or "positional" alone: see `MaskedLM.forward`
        """
        return TextEncoder(self.model_, self.subwords_, term, self.long_sentences)

    def embed(
        self, X: Any, *, layer: int = -1, pooling: str = "mean"
    ) -> Float32[np.ndarray, "sentences embed"]:
        """A vector for each sentence (a text or a list of words), or pair of these in a tuple.

        `layer`, `pooling`: see `TextEncoder.vectors`.
        """
        return self.encoder().vectors(sentence_list(X, name="X"), layer=layer, pooling=pooling)

    def transform(self, X: Any) -> Float32[np.ndarray, "sentences embed"]:
        """`embed`, as pipelines call it."""
        return self.embed(X)

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-likelihood in nats of a text's masked tokens, given the others.

        A share of `mask_share` of all tokens but special ones and unknown words is masked, always
        the same ones of the same text. Unknown words are left out, with a warning.
        """
        source, objective = self._read(X), self._objective()
        nats = weight = 0.0
        device = self.model_.bias.device
        for index in source.sequential_batches(max_tokens=4096):
            with torch.inference_mode():
                own, n_tokens = objective(self.model_, source.pad(index).to(device))
            nats, weight = nats + float(own), weight + float(n_tokens)
        if not weight:
            raise DataError("`X` must have tokens to score, got none.")
        codes = np.concatenate(source.pieces)
        unknown = int((codes == _UNKNOWN_CODE).sum())
        warn_unknown_words(unknown, unknown + int((codes >= len(SPECIAL)).sum()), unit="tokens")
        return -nats / weight

    def masked_tokens(self, X: Any) -> Int64[np.ndarray, "tokens"]:
        """The tokens of a text that `score` masks: indices of `vocabulary_["token"]`."""
        source = self._read(X)
        masked = map(np.extract, source.chosen or (), source.pieces)
        return np.concatenate([np.empty(0, dtype=np.int64), *masked]).astype(np.int64)

    def perplexity(self, X: Any) -> float:
        """exp of the mean nats of a masked token."""
        return math.exp(-self.score(X))

    def log_prob(self, X: Any) -> list[Float64[np.ndarray, "_"]]:
        """Of every sentence, log-probabilities in nats of its tokens, each given all others of it.

        Each token is masked in a pass of its own; the sum is the pseudo-log-likelihood. Special
        tokens and unknown words have none.
        """
        model, pieces = self.model_, self.encoder().pieces(sentence_list(X, name="X"))
        return [sentence_log_probs(model, piece, n_special=len(SPECIAL)) for piece in pieces]

    def network(self, learned: Subwords) -> MaskedLM:
        """A network of initial weights, for a vocabulary of pieces."""
        of_text = {"n_tokens": len(learned), "mask": learned.index[MASK]}
        sizes = settings_from(self, MaskedLMSizes, n_positions=int(self.length), **of_text)
        return MaskedLM(sizes, generator=torch.Generator().manual_seed(int(self.seed)))

    def _check_parameters(self) -> None:
        self.check_rules()
        check_positive("mask_share", self.mask_share)
        if self.embed_dim % self.n_heads:
            raise ExfamError(
                f"`n_heads` must divide `embed_dim`, {self.embed_dim}, got {self.n_heads}."
            )

    def _objective(self) -> MaskedTokens:
        return MaskedTokens(float(self.mask_share), len(SPECIAL), PRECISIONS[self.precision])

    def _read(self, X: Any) -> TokenPieces:
        self._check_parameters()
        subwords, length = self.subwords_, int(self.parameters_["length"])
        return self._scored(
            _stretches(_lines(X, name="X", encoding=self.file_encoding), subwords, length=length)
        )

    def _scored(self, pieces: list[np.ndarray]) -> TokenPieces:
        of_tokens: dict[str, Any] = {"share": float(self.mask_share), "n_special": len(SPECIAL)}
        return TokenPieces(pieces, **of_tokens, chosen=masked_choices(pieces, **of_tokens))

    def _restored_member(self, config: Any) -> MaskedLM:
        return self.network(self.subwords_)


def _lines(source: Any, *, name: str, encoding: str | None) -> Iterator[tuple[str, bool]]:
    """A text in lines, and whether each ends there: very long ones come in parts."""
    for _, words in located_lines(text_source(source, name=name, encoding=encoding), name=name):
        for first in range(0, len(words), _WORDS_AT_ONCE):
            last = first + _WORDS_AT_ONCE
            yield " ".join(words[first:last]), last >= len(words)


def _has_words(pieces: _Pieces) -> bool:
    return any((piece >= len(SPECIAL)).any() for piece in pieces)


def _stretches(lines: Iterable[tuple[str, bool]], subwords: Subwords, *, length: int) -> _Pieces:
    """A text as stretches of tokens, each between special tokens, a special one at line ends."""
    start, end = subwords.index[START], subwords.index[END]
    listed, flat = list(lines), []
    coded = subwords.encode([line for line, _ in listed])
    for line, (_, ends) in zip(coded, listed, strict=True):
        flat += [line.codes, np.array([end][: int(ends)], dtype=np.int32)]
    stream = np.concatenate(flat)[:-1] if flat else np.empty(0, dtype=np.int32)
    own = length - 2
    return [
        np.concatenate([[start], stream[first : first + own], [end]]).astype(np.int32)
        for first in range(0, len(stream), own)
    ]
