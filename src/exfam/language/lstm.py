"""The LSTM language model as an estimator."""

import math
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped

from exfam.checks import DataError, ExfamError, check_whole, shown
from exfam.estimator.base import parameter
from exfam.estimator.file_parameters import TextFiles
from exfam.estimator.precision import RoundedProducts
from exfam.estimator.record import recorded
from exfam.estimator.rules import Choice, Fraction, OrNone, Positive, Whole, python_number
from exfam.language.network_estimator import CheckpointLike, LanguageEstimator
from exfam.language.networks.lstm_network import (
    LSTM_TIES,
    CarriedNats,
    LSTMNetwork,
    Streams,
    build_lstm_lm,
    cut,
    draw_tokens,
    token_log_probs,
)
from exfam.language.tokens import Lexicon, encode_known, encode_text, learn, text_source
from exfam.reading.text.corpus import warn_unknown_words
from exfam.training.optimizer import TrainingSettings
from exfam.training.precision import PRECISIONS

# Tokens of all texts that are drawn together, which take 8 bytes each.
_MOST_DRAWN = 10**8
# Pieces that a validation text is read in, side by side, at most; and their tokens, at least: the
# first of each are predicted without what comes before them.
_VALIDATION_COLUMNS, _VALIDATION_LENGTH = 10, 1000
# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "validation_fraction")


class LSTMLanguageModel(RoundedProducts, TextFiles, LanguageEstimator):
    """p(token | all tokens before it) by an LSTM, trained as PyTorch's example trains it.

    A text is a file (plain, .gz, .bz2) or several, lines (texts or lists of words), or a flat array
    of codes with -1 for line ends. Its tokens are the words of each line, then "<eos>"; it begins
    after an "<eos>". Tokens never seen in training are "<unk>" if that is one that was seen.

    {parameters}

    >>> model = LSTMLanguageModel(dim=4, epochs=2, batch_size=2, learning_rate=1.0, tie="tied")
    >>> model = model.fit(["a b a b"] * 20)
    >>> len(model.log_prob(["a b"])), model.perplexity(["a b"]) < 4
    (3, True)
    """

    dim: int = parameter(Whole(), "length of the words' vectors and of the states", default=200)
    n_layers: int = parameter(Whole(), "of the LSTM", default=2)
    tie: str | None = parameter(
        Choice(LSTM_TIES),
        'None for output vectors of their own, "tied" for those of the inputs, "reflection" '
        'for those with half of the coordinates\' signs flipped, which is equal to "tied" in '
        "distribution",
        default=None,
    )
    dropout: float = parameter(text="of inputs, between layers and of outputs", default=0.2)
    batch_size: int = parameter(text="pieces of the text that are read side by side", default=20)
    bptt: int = parameter(Whole(), "tokens of each piece that a step reads", default=35)
    learning_rate: float = parameter(
        text="of gradient descent; divided by 4 whenever an epoch's validation is not the best so "
        "far",
        default=20.0,
    )
    clip: float | None = parameter(
        OrNone(Positive()), "largest norm of the gradient; None for no limit", default=0.25
    )
    epochs: int = parameter(Whole(), "passes over the text", default=40)
    validation_fraction: float = parameter(
        Fraction(),
        "share of the text, at its end, that is held out where no validation text is given; 0"
        " for none",
        default=0.1,
    )
    seed: int = parameter(text="of initial weights and dropout", default=0)
    precision: str = parameter(
        text='"float32", or "bfloat16" for products with output vectors in training, whose factors'
        " are then rounded to 8 bits: steps take about two thirds of the time on processors "
        "that multiply such numbers (`multiplies_bfloat16`), many times it on others. Scores "
        "are in float32",
        default="float32",
    )

    kind: ClassVar[str] = "lstm-language-model"

    @recorded
    def fit(
        self, X: Any, y: None = None, *, validation: Any = None, checkpoint: CheckpointLike = None
    ) -> "LSTMLanguageModel":
        """Fit to a text.

        `validation`: a text that lowers the learning rate and chooses the epoch.
        `checkpoint`: a folder from which a fit that was cut short goes on to the same bits.
        """
        self.check_rules()
        lexicon, tokens = learn(self._opened(X, name="X"), name="X")
        held = None
        if validation is not None:
            opened_too = self._opened(validation, name="validation")
            held = encode_text(opened_too, lexicon, name="validation")
        if held is None and (n_held := int(len(tokens) * self.validation_fraction)):
            tokens, held = tokens[:-n_held], tokens[-n_held:]
        if held is not None and not len(held):
            raise DataError("`validation` must have tokens, got none.")
        self._start_fit()
        self.vocabulary_ = {"token": lexicon.labels}
        self.data_counts_ = {"tokens": len(tokens), "words": len(lexicon)}
        model = self._network(len(lexicon))
        self._train(
            model,
            objective=CarriedNats(PRECISIONS[self.precision]),
            train=self._streams(tokens, lexicon),
            validation=None if held is None else _validation_streams(held, lexicon),
            settings=self._settings(),
            checkpoint=checkpoint,
            irrelevant=_IRRELEVANT,
            # Each step starts from the state after the last one: there is nothing to share.
            shared=False,
        )
        model.zero_grad()
        return self

    def _opened(self, source: Any, *, name: str) -> Any:
        return text_source(source, name=name, encoding=self.file_encoding)

    def tokens(self, X: Any) -> Int64[np.ndarray, "tokens"]:
        """A text as codes: indices of `vocabulary_["token"]`.

        Words never seen in training are "<unk>" if that was seen; they are left out, with a
        warning, if not.
        """
        lexicon = self._lexicon()
        codes, n_unknown = encode_known(self._opened(X, name="X"), lexicon, name="X")
        n_known = int((codes != lexicon.line_end).sum())
        warn_unknown_words(n_unknown, n_unknown + n_known)
        return codes

    def log_prob(self, X: Any) -> Float64[np.ndarray, "tokens"]:
        """Log-probability in nats of each of `tokens`, line ends too, given all before it."""
        codes = self.tokens(X)
        return token_log_probs(self.model_, codes, start=self._lexicon().line_end)

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-likelihood in nats of a token of `tokens`: minus the cross entropy."""
        nats = self.log_prob(X)
        if not len(nats):
            raise DataError("`X` must have tokens to score, got none.")
        return float(nats.mean())

    def perplexity(self, X: Any) -> float:
        """exp of the mean nats of a token: of how many equally likely ones it seems to be drawn."""
        return math.exp(-self.score(X))

    def sample(
        self, n_tokens: int, *, n_texts: int = 1, after: Any = "", seed: int = 0
    ) -> Shaped[np.ndarray, "texts tokens"]:
        """Texts drawn token by token that go on from `after`; a seed gives the same draws again."""
        lexicon = self._lexicon()
        if not isinstance(after, str):
            raise ExfamError(f"`after` must be text, got {shown(after)}.")
        check_whole("n_tokens", n_tokens, least=0)
        check_whole("n_texts", n_texts)
        check_whole("seed", seed, least=0)
        if n_tokens * n_texts > _MOST_DRAWN:
            raise ExfamError(
                f"`n_tokens` times `n_texts` must be at most {_MOST_DRAWN}, got {n_tokens} times "
                f"{n_texts}. Draw them in parts, each with a `seed` of its own."
            )
        # Without the end of its last line.
        before = encode_text(iter(after.split("\n")), lexicon, name="after")[:-1]
        prompt = np.append(lexicon.line_end, before)
        return lexicon.labels[draw_tokens(self.model_, prompt, (n_texts, n_tokens), seed=seed)]

    def _lexicon(self) -> Lexicon:
        self._check_fitted()
        return Lexicon(self.vocabulary_["token"])

    def _streams(self, tokens: Int64[np.ndarray, "tokens"], lexicon: Lexicon) -> Streams:
        n_columns = int(self.batch_size)
        if len(tokens) < n_columns:
            raise ExfamError(
                f"`batch_size` must be at most the number of tokens, {len(tokens)}, got "
                f"{n_columns}. Give more text, or a smaller `batch_size`."
            )
        return cut(tokens, n_columns, start=lexicon.line_end, whole=False)

    def _settings(self) -> TrainingSettings:
        return TrainingSettings(
            optimizer="descent",
            learning_rate=float(self.learning_rate),
            batch_tokens=int(self.bptt) * int(self.batch_size),
            max_epochs=int(self.epochs),
            patience=int(self.epochs),
            clip=python_number(self.clip),
            seed=int(self.seed),
            device=self.device,
        )

    def _network(self, n_words: int) -> LSTMNetwork:
        return build_lstm_lm(
            n_words=n_words,
            dim=int(self.dim),
            n_layers=int(self.n_layers),
            tie=self.tie,
            dropout=float(self.dropout),
            generator=torch.Generator().manual_seed(int(self.seed)),
        )

    def _restored_member(self, config: Any) -> LSTMNetwork:
        return self._network(len(self.vocabulary_["token"]))


def _validation_streams(tokens: Int64[np.ndarray, "tokens"], lexicon: Lexicon) -> Streams:
    n_columns = max(1, min(_VALIDATION_COLUMNS, len(tokens) // _VALIDATION_LENGTH))
    return cut(tokens, n_columns, start=lexicon.line_end, whole=True)
