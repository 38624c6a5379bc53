"""Labels and numbers of sentences, or pairs, by a masked language model that is trained further."""

import copy
import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64, Real
from scipy.stats import spearmanr
from sklearn.base import RegressorMixin

from exfam.checks import DataError, ExfamError, checked_validation
from exfam.estimator.base import attribute, parameter, settings_from
from exfam.estimator.plain import to_plain
from exfam.estimator.record import recorded
from exfam.estimator.rules import Choice
from exfam.language.masked import MaskedLanguageModel
from exfam.language.network_estimator import AdamTraining, CheckpointLike, LanguageEstimator
from exfam.language.networks.sentence_networks import SentenceHead, SentenceNats
from exfam.language.networks.token_pieces import TokenPieces
from exfam.language.sentences import (
    LabelPredictions,
    checked_targets,
    finite_numbers,
    known_labels,
    label_codes,
)
from exfam.language.text_encoders import SENTENCE_POOLINGS, TextEncoder
from exfam.language.tokens import sentence_list
from exfam.layers import linear
from exfam.reading.text.subwords import SPECIAL, Subwords
from exfam.training.optimizer import TrainingSettings
from exfam.training.precision import PRECISIONS


class _Tuned(LanguageEstimator, AdamTraining):
    """What both share: an encoder, one more layer, steps on both."""

    pooling: str = parameter(
        Choice(SENTENCE_POOLINGS),
        'the vector of a sentence is the "mean" of its tokens, or the "first"',
        default="mean",
    )
    dropout: float = parameter(text="of that vector; the encoder keeps its own", default=0.1)
    learning_rate: float = parameter(default=0.0003)
    batch_size: int = parameter(text="sentences a step", default=32)
    max_epochs: int = parameter(text="passes over the sentences", default=4)
    long_sentences: str = parameter(
        text='"error", or "cut" to leave out what is beyond the encoder\'s last position',
        default="error",
    )
    seed: int = parameter(
        text="of the last layer's initial weights, batches and dropout", default=0
    )

    kind: ClassVar[str]

    encoder_parameters_: dict[str, Any] = attribute()

    @recorded
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        encoder: Any,
        validation: Any = None,
        checkpoint: CheckpointLike = None,
    ) -> Any:
        """Fit to sentences (texts or lists of words), or pairs of these in tuples.

        `encoder`: a fitted model whose copy is trained along
        `validation`: (X, y) that chooses the epoch
        `checkpoint`: a folder from which a fit that was cut short goes on to the same bits
        """
        self._check_parameters()
        if not isinstance(encoder, MaskedLanguageModel):
            raise ExfamError(
                f"`encoder` must be a MaskedLanguageModel, got {type(encoder).__name__}."
            )
        targets = checked_targets(y, n_sentences=len(_given(X, name="X")), name="X")
        self._start_fit()
        self.data_counts_ = {"sentences": len(targets)}
        network = copy.deepcopy(encoder.model_)
        self.encoder_parameters_ = dict(encoder.parameters_)
        self.vocabulary_ = dict(encoder.vocabulary_)
        self._learn(targets)
        train = self._source(network, X, targets, name="X")
        held = None
        if validation is not None:
            held = self._source(network, *checked_validation(validation), name="validation")
        self._train(
            self._head(network),
            objective=SentenceNats(PRECISIONS[self.precision]),
            train=train,
            validation=held,
            settings=settings_from(self, TrainingSettings),
            checkpoint=checkpoint,
        )
        return self

    @abstractmethod
    def _learn(self, y: np.ndarray) -> None:
        """What is known of targets before anything is fitted; DataError if they are none."""

    @abstractmethod
    def _targets(self, y: np.ndarray, *, name: str) -> Real[np.ndarray, "sentences"]:
        """Targets as the network takes them."""

    @abstractmethod
    def _learned(self) -> Any: ...

    @abstractmethod
    def _relearn(self, learned: Any) -> None: ...

    def encoder(self, *, term: str = "both") -> TextEncoder:
        """The encoder as it came out of the fit, for vectors and attention; `term` as there."""
        return self._text_encoder(self.model_.encoder, term)

    def _text_encoder(self, network: Any, term: str = "both") -> TextEncoder:
        subwords = Subwords(self.vocabulary_["subwords"][0])
        return TextEncoder(network, subwords, term, self.long_sentences)

    def _outputs(self, X: Any, term: str) -> torch.Tensor:
        vectors = self.encoder(term=term).vectors(_given(X, name="X"), pooling=self.model_.pooling)
        output = self.model_.output
        with torch.inference_mode():
            outputs = output(torch.from_numpy(vectors).to(output.weight.device))
        return outputs.double().cpu()

    def _source(self, network: Any, X: Any, y: Any, *, name: str) -> TokenPieces:
        sentences = _given(X, name=name)
        targets = checked_targets(y, n_sentences=len(sentences), name=name)
        try:
            coded = self._text_encoder(network).pieces(sentences)
        except DataError as error:
            raise DataError(f"In `{name}`: {error}") from error
        targets = self._targets(targets, name=name)
        return TokenPieces(coded, share=0.0, n_special=len(SPECIAL), target=targets)

    def _head(self, network: Any) -> SentenceHead:
        n_outputs = len(getattr(self, "classes_", [None]))
        generator = torch.Generator().manual_seed(int(self.seed))
        output = linear(network.words.dim, n_outputs, generator=generator)
        return SentenceHead(network, output, pooling=self.pooling, dropout=float(self.dropout))

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        encoder = {name: to_plain(name, value) for name, value in self.encoder_parameters_.items()}
        return {"encoder": encoder, "learned": self._learned()}, {}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        self.encoder_parameters_ = config["encoder"]
        self._relearn(config["learned"])

    def _restored_member(self, config: Any) -> SentenceHead:
        encoder = MaskedLanguageModel(**self.encoder_parameters_)
        encoder.check_rules()
        return self._head(encoder.network(Subwords(self.vocabulary_["subwords"][0])))


class SentenceClassifier(LabelPredictions, _Tuned):
    """p(label | sentence), or of a pair of sentences, by an encoder that is trained along.

    A pair is read as one: [CLS] first [SEP] second [SEP].

    {parameters}

    >>> sentences = ["a man runs", "a dog sleeps"] * 40
    >>> encoder = MaskedLanguageModel(vocabulary_size=40, embed_dim=8, n_heads=2, n_layers=1,
    ...     feed_forward_dim=16, length=16, max_epochs=2).fit(sentences)
    >>> model = SentenceClassifier(learning_rate=0.03).fit(
    ...     sentences, ["person", "animal"] * 40, encoder=encoder)
    >>> model.predict(["a man sleeps"]).shape, model.classes_.tolist()
    ((1,), ['animal', 'person'])
    """

    kind: ClassVar[str] = "sentence-classifier"

    classes_: np.ndarray = attribute()

    def predict_log_proba(
        self, X: Any, *, term: str = "both"
    ) -> Float64[np.ndarray, "sentences labels"]:
        """Log-probability in nats of each of `classes_`; `term`: as in `encoder`."""
        return self._outputs(X, term).log_softmax(-1).numpy()

    def _learn(self, y: np.ndarray) -> None:
        self.classes_ = known_labels(y)

    def _targets(self, y: np.ndarray, *, name: str) -> Real[np.ndarray, "sentences"]:
        return label_codes(y, self.classes_, name=name)

    def _learned(self) -> Any:
        return self.classes_.tolist()

    def _relearn(self, learned: Any) -> None:
        self.classes_ = np.array(learned)


class SentenceRegressor(RegressorMixin, _Tuned):
    """A number for each sentence, or pair of sentences, by an encoder that is trained along.

    Numbers are normal around the output, with one standard deviation that is learned. `score` is
    Spearman's rank correlation, as GLUE reports it.

    {parameters}

    >>> pairs = [("a man runs", "a man runs"), ("a man runs", "a dog sleeps")] * 40
    >>> encoder = MaskedLanguageModel(vocabulary_size=40, embed_dim=8, n_heads=2, n_layers=1,
    ...     feed_forward_dim=16, length=16, max_epochs=2).fit(["a man runs", "a dog sleeps"] * 40)
    >>> SentenceRegressor(max_epochs=1).fit(pairs, [5.0, 1.0] * 40, encoder=encoder).predict(
    ...     pairs[:2]).shape
    (2,)
    """

    kind: ClassVar[str] = "sentence-regressor"

    center_: float = attribute()
    scale_: float = attribute()

    def predict(self, X: Any, *, term: str = "both") -> Float64[np.ndarray, "sentences"]:
        """The mean of each sentence's number; `term`: as in `encoder`."""
        return self.center_ + self.scale_ * self._outputs(X, term)[:, 0].numpy()

    def predict_std(self, X: Any) -> Float64[np.ndarray, "sentences"]:
        """Standard deviations of the numbers, which are all alike."""
        return np.full(len(_given(X, name="X")), self.model_.spread.exp().item() * self.scale_)

    def score(self, X: Any, y: Any) -> float:
        """Spearman's correlation of predicted and true numbers, in [-1, 1]; neither all alike."""
        predicted = self.predict(X)
        checked = checked_targets(y, n_sentences=len(predicted), name="X")
        targets = finite_numbers(checked, name="X")
        if len(np.unique(targets)) < 2 or len(np.unique(predicted)) < 2:
            raise DataError("`y` and predictions must not be all alike to be ranked.")
        return float(spearmanr(predicted, targets).statistic)

    def _learn(self, y: np.ndarray) -> None:
        numbers = finite_numbers(y, name="X")
        if numbers.min() == numbers.max():
            raise DataError(f"`y` must not be all alike, got {numbers[0]:g} {len(numbers)} times.")
        # By a power of two, which rounds nothing: no float holds squares of huge or tiny numbers.
        unit = _power_of_two(np.abs(numbers).max())
        shares = numbers / unit
        self.center_, self.scale_ = float(shares.mean()) * unit, float(shares.std()) * unit

    def _targets(self, y: np.ndarray, *, name: str) -> Real[np.ndarray, "sentences"]:
        unit = _power_of_two(self.scale_)
        scaled = (finite_numbers(y, name=name) / unit - self.center_ / unit) / (self.scale_ / unit)
        # Whole multiples of 2^-20: what rounding leaves of another unit would grow in the fit.
        return np.ldexp(np.round(np.ldexp(scaled, 20)), -20)

    def _learned(self) -> Any:
        return [self.center_, self.scale_]

    def _relearn(self, learned: Any) -> None:
        self.center_, self.scale_ = map(float, learned)


def _power_of_two(number: float) -> float:
    """The largest that is not above a number."""
    return math.ldexp(1.0, math.frexp(number)[1] - 1)


def _given(X: Any, *, name: str) -> list[Any]:
    sentences = sentence_list(X, name=name)
    if not sentences:
        raise DataError(f"`{name}` must have sentences, got none.")
    return sentences
