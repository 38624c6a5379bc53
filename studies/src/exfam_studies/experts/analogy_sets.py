"""The sets of vectors that the study of analogies compares: fitted, of an encoder, given."""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.language import MaskedLanguageModel
from exfam.language.pretrained import PretrainedEncoder
from exfam.reading.text import PreparedText
from exfam.training.optimizer import multiplies_bfloat16
from exfam.vectors import WordVectors
from exfam.words import CBOW, SkipGram
from exfam_studies.common.encoders import packaged_encoder
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured, Store
from exfam_studies.common.word_corpus import corpus_name
from exfam_studies.common.word_fits import MIN_COUNT, Recipe, fit_words
from exfam_studies.positions.masked_lms import short_digest

SEEDS = 5
# Half an hour of a processor. The vocabulary is as large as that of the paper's BERT.
_MASKED: Mapping[str, Any] = {
    "subwords": "word", "vocabulary_size": 30_000, "min_count": MIN_COUNT, "lower": False,
    "validation_fraction": 0.0, "encoding": "rotary", "embed_dim": 128, "n_heads": 4, "n_layers": 4,
    "feed_forward_dim": 512, "length": 128, "batch_size": 32, "learning_rate": 2e-3,
    "max_epochs": 1,
}  # fmt: skip
_FAST_MASKED: Mapping[str, Any] = {
    **_MASKED, "vocabulary_size": 500, "embed_dim": 8, "n_heads": 2, "n_layers": 1,
    "feed_forward_dim": 8,
}  # fmt: skip
_WORDS_A_LINE = 1000


@dataclass(frozen=True, eq=False)
class VectorSet:
    """A model's vectors, one set a seed, or none, with the settings of its rows."""

    model: str
    settings: Mapping[str, str | int | float | bool]
    vectors: tuple[WordVectors, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class _Fit:
    """How a model's vectors are made of a text; `seeds`: how many fits unless the options say."""

    vectors: Callable[[PreparedText, Mapping[str, Any], int, Options], WordVectors]
    settings: Callable[[Options], dict[str, Any]]
    estimator: str
    seeds: int = SEEDS
    needs: str = "numpy"


def fitted_set(model: str, read: Callable[[], PreparedText], options: Options) -> VectorSet:
    """The vectors of a model of FITTED; with `--folder` they are kept there."""
    fit = FITTED[model]
    if importlib.util.find_spec(fit.needs) is None:
        return VectorSet(model, {}, note="not installed")
    seeds = range(options.n_seeds(fit.seeds))
    fits = [_fitted(model, fit.settings(options), seed, read, options) for seed in seeds]
    first, kept = fits[0]
    shown: dict[str, str | int | float | bool] = {
        "corpus": corpus_name(options),
        "tokens": int(kept.figures["tokens"] or 0),
        "words": len(first),
        "dim": first.dim,
    }
    seconds = tuple(kept.cpu_seconds for _, kept in fits)
    return VectorSet(model, shown, tuple(vectors for vectors, _ in fits), seconds)


def _fitted(
    model: str,
    settings: Mapping[str, Any],
    seed: int,
    read: Callable[[], PreparedText],
    options: Options,
) -> tuple[WordVectors, Measured]:
    names = ("analogies", corpus_name(options), f"{model}-{short_digest(settings)}")
    key, store, file = Key(names, seed), Store(options.folder), None
    if options.folder is not None:
        file = options.folder / key.path.with_suffix(".safetensors")
        kept = store.get(key)
        if kept is not None and file.is_file():
            return WordVectors.load(file), kept
    text, start = read(), time.process_time()
    vectors = FITTED[model].vectors(text, settings, seed, options)
    seconds = time.process_time() - start
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        vectors.save(file)
    figures = {"tokens": float((text.tokens >= 0).sum())}
    kept = Measured(figures, cpu_seconds=seconds, key=key)
    store.put(kept)
    return vectors, kept


def packaged_set() -> VectorSet:
    """The vectors that tokens enter the encoder of a package with; none where it is absent."""
    encoder = packaged_encoder()
    if encoder is None:
        return VectorSet("minilm", {}, note="not installed")
    return _outside("minilm", encoder.word_vectors())


def given_sets(path: Path | None) -> Iterator[VectorSet]:
    """The vectors at a path, by their names: a file's, an encoder's, or several of these.

    Raises DataError for an empty folder.
    """
    if path is None:
        return
    files = [path]
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(own for own in path.iterdir() if not own.name.startswith("."))
    if not files:
        raise DataError(
            f"`vectors` must be a file of vectors, the folder of an encoder, or a folder of "
            f"these, got an empty folder at {path}."
        )
    for own in files:
        if own.is_dir():
            vectors = PretrainedEncoder.load(own).word_vectors()
        else:
            # Published files repeat words, and have some that are no UTF-8.
            vectors = WordVectors.load(own, errors="replace", duplicates="first")
        yield _outside(own.name, vectors)


def _outside(model: str, vectors: WordVectors) -> VectorSet:
    unknown = dict.fromkeys(("corpus", "tokens"), "not known")
    return VectorSet(model, {**unknown, "words": len(vectors), "dim": vectors.dim}, (vectors,))


def text_lines(text: PreparedText) -> Iterator[list[str]]:
    """A prepared text as words: a line a sentence, long ones in lines of 1,000."""
    words = np.array(text.vocabulary.words, dtype=object)
    ends = np.flatnonzero(text.tokens == -1)
    for first, last in zip([0, *(ends + 1)], [*ends, len(text.tokens)], strict=True):
        for start in range(first, last, _WORDS_A_LINE):
            codes = text.tokens[start : min(last, start + _WORDS_A_LINE)]
            yield words[codes].tolist()


def fit_masked_words(
    text: PreparedText, settings: Mapping[str, Any], seed: int, options: Options
) -> WordVectors:
    """Vectors of a masked language model; with `--folder` its fit goes on from there."""
    precision = "bfloat16" if multiplies_bfloat16() else "float32"
    model = MaskedLanguageModel(**settings, seed=seed, device="auto", precision=precision)
    checkpoint = None
    if options.folder is not None:
        name = f"{corpus_name(options)}-{short_digest(settings)}"
        checkpoint = options.folder / "fits" / "masked-words" / name / f"{seed:02}"
    model.fit(text_lines(text), checkpoint=checkpoint)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return model.encoder().word_vectors()


def _of_words(kind: type[SkipGram] | type[CBOW], tie: str | None) -> _Fit:
    def vectors(
        text: PreparedText, settings: Mapping[str, Any], seed: int, options: Options
    ) -> WordVectors:
        return fit_words(text, settings, seed=seed, options=options, kind=kind).vectors_

    def settings(options: Options) -> dict[str, Any]:
        return {"tie": tie, **Recipe(epochs=1).settings(options)}

    return _Fit(vectors, settings, kind.__name__)


MASKED_LM = "masked-lm"
# Model -> how its vectors are fitted.
FITTED: Mapping[str, _Fit] = {
    "sgns": _of_words(SkipGram, None),
    "sgns-tied": _of_words(SkipGram, "reflection"),
    "cbow": _of_words(CBOW, None),
    MASKED_LM: _Fit(
        fit_masked_words,
        lambda options: dict(_FAST_MASKED if options.fast else _MASKED),
        "MaskedLanguageModel",
        seeds=1,
        needs="tokenizers",
    ),
}
