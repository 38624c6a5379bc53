"""The sets of vectors that the study of analogies compares, and their answers by offsets."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from sklearn.preprocessing import normalize

from exfam.checks import DataError
from exfam.language import MaskedLanguageModel
from exfam.language.pretrained import PretrainedEncoder
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import PreparedText
from exfam.training.precision import multiplies_bfloat16
from exfam.vectors import WordVectors
from exfam.vectors.evaluation import known_rows
from exfam.vectors.neighbors import nearest_rows
from exfam.words import CBOW, SkipGram
from exfam_studies.common.encoders import packaged_encoder
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured, Store
from exfam_studies.common.word_corpus import corpus_name
from exfam_studies.common.word_fits import MIN_COUNT, Recipe, fit_words
from exfam_studies.positions.masked_lms import short_digest


class OffsetAnswers(NamedTuple):
    """Of each question whether the word nearest to b + c - a, or to c alone, is the right answer.

    `cosine`: of b + c - a and the right answer; `cosine_others`: with the right answers of all
        questions, near `cosine` where all vectors point one way and `cosine` means little
    """

    correct: Bool[np.ndarray, "questions"]
    cosine: Float64[np.ndarray, "questions"]
    cosine_others: Float64[np.ndarray, "questions"]


def answer_by_offsets(
    vectors: WordVectors, questions: WordQuestions, *, c_alone: bool = False
) -> OffsetAnswers:
    """For "a is to b as c is to d": the word nearest to b + c - a by cosine, never a, b or c.

    Vectors are added as they are, of any length. `c_alone`: the word nearest to c instead.
    Raises DataError for a question with a word that has no vector.
    Source: "Bidirectional attention as a mixture of continuous word experts", appendix F.
    """
    rows, matrix = known_rows(vectors, questions.questions), vectors.matrix()
    if (rows < 0).any():
        question, column = np.argwhere(rows < 0)[0]
        raise DataError(
            "`questions` must be of words that have vectors, got "
            f"{questions.questions[question][column]!r} in question {question}. Take "
            "`common_questions` of them."
        )
    a, b, c = (matrix[rows[:, column]] for column in range(3))
    queries = c if c_alone else b + c - a
    # Of three words or fewer none is left to be the answer.
    nearest = nearest_rows(queries, matrix, k=1, excluded=rows[:, :3]).rows
    unit, right, rights = (
        normalize(own.astype(np.float64))
        for own in (queries, matrix[rows[:, 3]], matrix[np.unique(rows[:, 3])])
    )
    return OffsetAnswers(
        (nearest == rows[:, 3:]).any(axis=1),
        np.einsum("qd,qd->q", unit, right),
        unit @ rights.mean(axis=0),
    )


def common_questions(sets: Sequence[WordVectors], questions: WordQuestions) -> WordQuestions:
    """The questions, in lower case, whose four words all sets have; raises DataError for none."""
    lower = [(a.lower(), b.lower(), c.lower(), d.lower()) for a, b, c, d in questions.questions]
    known = [(known_rows(vectors, lower) >= 0).all(axis=1) for vectors in sets]
    kept = np.flatnonzero(np.all(known, axis=0))
    if not len(kept):
        raise DataError(
            f"`sets` must have the four words of a question in common, got none of "
            f"{len(questions)} questions. Leave out the smallest set."
        )
    return replace(
        questions,
        questions=tuple(lower[number] for number in kept),
        categories=tuple(questions.categories[number] for number in kept),
    )


def single_words(vectors: WordVectors) -> WordVectors:
    """Without what is not a single word in lower case: phrases, names, signs, digits, pieces."""
    return _chosen(vectors, [word.isalpha() and word == word.lower() for word in vectors.words])


def words_in_common(sets: Sequence[WordVectors]) -> list[WordVectors]:
    """Each set with the words alone that all of them have."""
    common = set.intersection(*(set(vectors.words) for vectors in sets))
    return [_chosen(vectors, [word in common for word in vectors.words]) for vectors in sets]


def _chosen(vectors: WordVectors, keep: Sequence[bool]) -> WordVectors:
    rows = np.flatnonzero(keep)
    context = None if vectors.context is None else vectors.context[rows]
    words = tuple(vectors.words[row] for row in rows)
    return WordVectors(words, vectors.center[rows], context, vectors.signs)


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
    settings: Mapping[str, Any]
    vectors: tuple[WordVectors, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    note: str = ""


MASKED_LM = "masked-lm"
# Model -> what fits its vectors.
FITTED: Mapping[str, type[SkipGram] | type[CBOW] | type[MaskedLanguageModel]] = {
    "sgns": SkipGram, "sgns-tied": SkipGram, "cbow": CBOW, MASKED_LM: MaskedLanguageModel,
}  # fmt: skip


def fit_settings(model: str, options: Options) -> dict[str, Any]:
    """The parameters of a model of FITTED."""
    if model == MASKED_LM:
        return dict(_FAST_MASKED if options.fast else _MASKED)
    tie = "reflection" if model == "sgns-tied" else None
    return {"tie": tie, **Recipe(epochs=1).settings(options)}


def fitted_set(model: str, read: Callable[[], PreparedText], options: Options) -> VectorSet:
    """The vectors of a model of FITTED; with `--folder` they are kept there."""
    if model == MASKED_LM and importlib.util.find_spec("tokenizers") is None:
        return VectorSet(model, {}, note="not installed")
    seeds = range(options.n_seeds(1 if model == MASKED_LM else SEEDS))
    vectors, kept = zip(*(_fitted(model, seed, read, options) for seed in seeds), strict=True)
    known = {"corpus": corpus_name(options), "tokens": int(kept[0].figures["tokens"] or 0)}
    shown = {**known, "words": len(vectors[0]), "dim": vectors[0].dim}
    return VectorSet(model, shown, vectors, tuple(fit.cpu_seconds for fit in kept))


def _fitted(
    model: str, seed: int, read: Callable[[], PreparedText], options: Options
) -> tuple[WordVectors, Measured]:
    settings, store = fit_settings(model, options), Store(options.folder)
    key = Key(("analogies", corpus_name(options), f"{model}-{short_digest(settings)}"), seed)
    file = (options.folder or Path()) / key.path.with_suffix(".safetensors")
    kept = store.get(key)
    if kept is not None and file.is_file():
        return WordVectors.load(file), kept
    text, start = read(), time.process_time()
    vectors = fit_vectors(model, text, seed, options)
    seconds = time.process_time() - start
    if options.folder is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        vectors.save(file)
    kept = Measured({"tokens": float((text.tokens >= 0).sum())}, cpu_seconds=seconds, key=key)
    store.put(kept)
    return vectors, kept


def fit_vectors(model: str, text: PreparedText, seed: int, options: Options) -> WordVectors:
    """Vectors of a model of FITTED; with `--folder` its fit goes on from there."""
    settings, kind = fit_settings(model, options), FITTED[model]
    if not issubclass(kind, MaskedLanguageModel):
        return fit_words(text, settings, seed=seed, options=options, kind=kind).vectors_
    precision = "bfloat16" if multiplies_bfloat16() else "float32"
    network = kind(**settings, seed=seed, device="auto", precision=precision)
    checkpoint = None
    if options.folder is not None:
        name = f"{corpus_name(options)}-{short_digest(settings)}"
        checkpoint = options.folder / "fits" / "masked-words" / name / f"{seed:02}"
    network.fit(text_lines(text), checkpoint=checkpoint)
    if network.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return network.encoder().word_vectors()


def compared_sets(fitted: Iterable[VectorSet], path: Path | None) -> list[VectorSet]:
    """Fitted sets, that of the encoder of a package, and those at a path, of single words alone."""
    encoder = packaged_encoder()
    packaged = VectorSet("minilm", {}, note="not installed")
    if encoder is not None:
        packaged = _outside("minilm", encoder.word_vectors())
    return [
        replace(own, vectors=tuple(map(single_words, own.vectors)))
        for own in (*fitted, packaged, *given_sets(path))
    ]


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
    for sentence in np.split(text.tokens, np.flatnonzero(text.tokens == -1)):
        codes = sentence[sentence >= 0]
        for start in range(0, len(codes), _WORDS_A_LINE):
            yield words[codes[start : start + _WORDS_A_LINE]].tolist()
