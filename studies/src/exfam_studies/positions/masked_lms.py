"""Masked language models that experiments of positions share: one a size, encoding and seed.

Batches and rate of "small" were chosen by validation, with learned encodings, among (8, 1e-3),
(8, 2e-3) and (16, 2e-3). "paper" has the sizes, rate, batches and length of BERT-base, for a text
given with `--corpus`.
"""

import copy
import json
from collections.abc import Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from exfam.language import MaskedLanguageModel, SentenceClassifier
from exfam.language.tokens import located_lines
from exfam.training.precision import multiplies_bfloat16
from exfam_studies.common.harness import Options
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row
from exfam_studies.common.token_streams import CORPORA, corpus_path

# The encodings that are compared: as users name them, T5's is "relative".
COMPARED = (
    "learned", "sinusoidal", "rotary", "alibi", "relative", "tupe", "attenuated-table",
    "attenuated-table-shared",
)  # fmt: skip
# Size -> parameters. All encodings have the same ones.
SIZES: Mapping[str, Mapping[str, Any]] = {
    "small": {
        "vocabulary_size": 8000, "embed_dim": 128, "n_heads": 4, "n_layers": 4,
        "feed_forward_dim": 512, "length": 128, "batch_size": 8, "learning_rate": 1e-3,
        "max_epochs": 2,
    },
    "paper": {
        "vocabulary_size": 30_522, "embed_dim": 768, "n_heads": 12, "n_layers": 12,
        "feed_forward_dim": 3072, "connection": "post-norm", "length": 512, "batch_size": 64,
        "learning_rate": 5e-4, "max_epochs": 1, "device": "auto", "precision": "bfloat16",
    },
}  # fmt: skip
_FAST: Mapping[str, Any] = {
    "vocabulary_size": 500, "embed_dim": 8, "n_heads": 2, "n_layers": 2, "feed_forward_dim": 8,
    "length": 64, "batch_size": 8, "learning_rate": 1e-2, "max_epochs": 1, "precision": "float32",
}  # fmt: skip
_FAST_LINES = 60
_CORPUS = "wikitext-2"


def masked_lm_folder(size: str, encoding: str, *, seed: int, options: Options) -> Path:
    """Where a model is kept, below a folder of fits; its parameters are there as a digest."""
    text, n_bytes = _CORPUS, ""
    if options.corpus is not None:
        text, n_bytes = options.corpus.stem, str(options.corpus.stat().st_size)
    settings = short_digest({**_parameters(size, options), "text": n_bytes})
    text += "-fast" if options.fast else ""
    return Path("masked-lms", text, f"{size}-{settings}", encoding, f"{seed:02}")


def short_digest(settings: Mapping[str, Any]) -> str:
    """Eight letters that differ where settings do."""
    return sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()[:8]


def _parameters(size: str, options: Options) -> dict[str, Any]:
    precision = "bfloat16" if multiplies_bfloat16() else "float32"
    common = {"precision": precision, "warmup": 0.1, "weight_decay": 0.01}
    return {**common, **SIZES[size], **(_FAST if options.fast else {})}


def _model(size: str, encoding: str, *, seed: int, options: Options) -> MaskedLanguageModel:
    parameters = _parameters(size, options)
    return MaskedLanguageModel(encoding=encoding, seed=seed, long_sentences="cut", **parameters)


def masked_lm_parameters(size: str, encoding: str, options: Options) -> dict[str, Any]:
    """The parameters of a model of a size of SIZES that differ from the defaults."""
    model = _model(size, encoding, seed=0, options=options)
    return {**changed_parameters(model), "encoding": encoding}


def row_parameters(row: Row, options: Options) -> dict[str, Any]:
    """The parameters of the small model whose encoding, the longest that fits, begins the name."""
    encodings = [name for name in COMPARED if row.model.startswith(name)]
    return masked_lm_parameters("small", max(encodings, key=len), options) if encodings else {}


def fit_masked_lm(size: str, encoding: str, *, seed: int, options: Options) -> MaskedLanguageModel:
    """The model of a size of SIZES; from `--folder` if it is there, and kept there.

    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    named = masked_lm_folder(size, encoding, seed=seed, options=options)
    folder = None if options.folder is None else options.folder / named
    if folder and (folder / "model").is_dir():
        return MaskedLanguageModel.load(folder / "model")
    model, texts = _model(size, encoding, seed=seed, options=options), masked_lm_texts(options)
    checkpoint = folder and folder / "checkpoint"
    model.fit(texts["train"], validation=texts["validation"], checkpoint=checkpoint)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    if folder:
        model.save(folder / "model")
    return model


def fit_classifier(
    encoder: MaskedLanguageModel, train: Any, validation: Any, *, settings: Any, seed: int
) -> SentenceClassifier:
    """A classifier of sentences whose encoder is trained along; parts are sentences and labels.

    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    model = SentenceClassifier(**settings, long_sentences="cut", seed=seed)
    model.fit(*train, encoder=encoder, validation=validation)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return model


def untrained(model: MaskedLanguageModel) -> MaskedLanguageModel:
    """The same model with the weights that its fit began with."""
    fresh = copy.copy(model)
    fresh.members_ = [model.network(model.subwords_).eval()]
    return fresh


def masked_lm_texts(options: Options) -> dict[str, Any]:
    """Train, validation and test text: WikiText-2, or the given corpus with WikiText-2's rest."""
    paths = {part: corpus_path(CORPORA[_CORPUS], part) for part in ("train", "validation", "test")}
    if options.corpus is not None:
        paths["train"] = options.corpus
    if not options.fast:
        return paths
    heads = {part: islice(located_lines(path), _FAST_LINES) for part, path in paths.items()}
    return {part: [words for _, words in head] for part, head in heads.items()}
