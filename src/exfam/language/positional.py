"""The classifier of sentences whose words attend to each other by position alone."""

from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import DataError, ExfamError, checked_validation
from exfam.encodings import Attenuated
from exfam.estimator.base import attribute, parameter, settings_from
from exfam.estimator.record import recorded
from exfam.estimator.rules import Choice, Positive, Whole, python_number
from exfam.groups import Groups
from exfam.language.network_estimator import LanguageEstimator
from exfam.language.networks.sentence_networks import (
    PADDINGS,
    PositionalSentenceNetwork,
    SentenceNats,
)
from exfam.language.sentences import (
    LabeledSentences,
    LabelPredictions,
    checked_targets,
    known_labels,
    known_words,
    label_codes,
    split_sentences,
)
from exfam.positions import encoding_weights
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.vectors import WordVectors

# Padded words that are scored at once.
_AT_ONCE = 8192


class PositionalSentenceClassifier(LabelPredictions, LanguageEstimator):
    """p(label | sentence) from fixed word vectors and attention that knows positions alone.

    One layer, one head: h_i = sum_j delta_ij x_j W_V with the attenuated weights delta of `w` and
    `s`, dropout, the mean over words, a linear softmax; W_V and the last layer are learned. Words
    without a vector are dropped before they are numbered; `coverage_` is the share that has one.
    Source: Chen, Varoquaux & Suchanek (2023), section 3.3.1, eq. 8 and Listing 2.

    {parameters}

    >>> vectors = WordVectors(("good", "bad"), np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> model = PositionalSentenceClassifier(learning_rate=0.1, batch_size=4)
    >>> X, y = ["so good", "too bad"] * 32, ["positive", "negative"] * 32
    >>> model = model.fit(X, y, vectors=vectors)
    >>> model.predict(["good good", "Bad"]).tolist(), model.coverage_
    (['positive', 'negative'], 0.5)
    """

    w: float = parameter(
        Positive(),
        "above 0; the larger, the more local: near 0 all positions weigh alike, and from "
        "about 100 on a word sees itself alone; locality is .2 at the default",
        default=0.0143,
    )
    s: float = parameter(
        Positive(),
        "above 0; by how much faster weights fall after the word than before it; 1 for both "
        "sides alike",
        default=1.0,
    )
    n_positions: int = parameter(
        Whole(),
        "over which weights are normalized, those beyond a sentence's end among them; of "
        "longer sentences the first words are taken",
        default=128,
    )
    padding: str = parameter(
        Choice(PADDINGS),
        'weights beyond the end of a sentence: "zeroed" with the others as they are, as in '
        'the paper\'s listing, or "renormalized": the others then sum to 1',
        default="zeroed",
    )
    dropout: float = parameter(text="of the encoder's output", default=0.5)
    learning_rate: float = parameter(text="of Adam, falling to 0 along a cosine", default=0.002)
    batch_size: int = parameter(text="sentences a step", default=64)
    max_epochs: int = parameter(Whole(), "passes over the sentences", default=5)
    seed: int = parameter(text="of initial weights, batches and dropout", default=0)

    kind: ClassVar[str] = "positional-sentence-classifier"

    classes_: np.ndarray = attribute()
    vectors_: WordVectors = attribute()
    coverage_: float = attribute()

    @recorded
    def fit(
        self, X: Any, y: Any, *, vectors: Any, validation: Any = None
    ) -> "PositionalSentenceClassifier":
        """Fit to sentences, each a text or a list of words, with a label each.

        `vectors`: WordVectors; those of the center of a window count
        `validation`: (X, y) whose log-likelihood chooses the epoch; the last one's weights are kept
            without
        """
        self.check_rules()
        fixed: dict[str, Any] = {"betas": (0.9, 0.999), "warmup": 0.0, "clip": None}
        patience, weights = python_number(self.max_epochs), self._weights()
        settings = settings_from(self, TrainingSettings, patience=patience, **fixed)
        if not isinstance(vectors, WordVectors):
            raise ExfamError(
                f"`vectors` must be WordVectors, got {type(vectors).__name__}. Use "
                "WordVectors.load(path), or WordVectors(words, array)."
            )
        sentences = split_sentences(X, name="X")
        labels = checked_targets(y, n_sentences=len(sentences), name="X")
        self._start_fit()
        self.vectors_, self.classes_ = vectors, known_labels(labels)
        self.data_counts_ = {"sentences": len(sentences), "labels": len(self.classes_)}
        self.vocabulary_ = {"word": np.array(vectors.words, dtype=object)}
        train, self.coverage_ = self._source(sentences, labels, name="X")
        if not train.lengths.any():
            raise DataError("`vectors` must have a word of `X`, got none. Give other vectors.")
        held = None
        if validation is not None:
            held = self._source(*checked_validation(validation), name="validation")[0]
        model = self._network(weights).to(choose_device(self.device))
        self._train(
            model, objective=SentenceNats(), train=train, validation=held, settings=settings
        )
        return self

    def coverage(self, X: Any) -> float:
        """The share of the words of some sentences that have a vector."""
        self._check_fitted()
        return self._known(split_sentences(X, name="X"))[1]

    def predict_log_proba(self, X: Any) -> Float64[np.ndarray, "sentences labels"]:
        """Log-probability in nats of each of `classes_`."""
        model = self.model_
        words = self._known(split_sentences(X, name="X"))[0]
        unknown = np.zeros(len(words), dtype=np.int64)
        source = LabeledSentences(words, self.vectors_.center, unknown)
        log_proba = np.empty((len(words), len(self.classes_)))
        device = model.output.weight.device
        for index in source.sequential_batches(max_tokens=_AT_ONCE):
            with torch.inference_mode():
                logits = model(source.pad(index).to(device))
            log_proba[index] = logits.double().log_softmax(-1).cpu().numpy()
        return log_proba

    def _weights(self) -> torch.Tensor:
        encoding = Attenuated(w=python_number(self.w), s=python_number(self.s))
        return encoding_weights(encoding, int(self.n_positions))[0]

    def _network(self, weights: torch.Tensor) -> PositionalSentenceNetwork:
        return PositionalSentenceNetwork(
            weights,
            dim=self.vectors_.dim,
            n_labels=len(self.classes_),
            dropout=float(self.dropout),
            padding=self.padding,
            generator=torch.Generator().manual_seed(int(self.seed)),
        )

    def _source(self, X: Any, y: Any, *, name: str) -> tuple[LabeledSentences, float]:
        sentences = split_sentences(X, name=name)
        labels = checked_targets(y, n_sentences=len(sentences), name=name)
        code = label_codes(labels, self.classes_, name=name)
        words, share = self._known(sentences)
        return LabeledSentences(words, self.vectors_.center, code), share

    def _known(self, sentences: list[list[str]]) -> tuple[Groups, float]:
        longest = int(self.parameters_["n_positions"])
        return known_words(sentences, self.vectors_.index, longest=longest)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        plain = {"classes": self.classes_.tolist(), "coverage": self.coverage_}
        return plain, {"vectors": torch.from_numpy(self.vectors_.center)}

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        self.classes_, self.coverage_ = np.array(config["classes"]), config["coverage"]
        words = tuple(vocabulary["word"].tolist())
        self.vectors_ = WordVectors(words, tensors["vectors"].numpy())

    def _restored_member(self, config: Any) -> PositionalSentenceNetwork:
        return self._network(self._weights())
