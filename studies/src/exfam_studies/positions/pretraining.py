"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated. Sentences are classified by a logistic regression on the
encoder's vectors ("frozen"), and by an encoder that is trained along ("tuned"). "large" and "paper"
(see `masked_lms`) have to be named by `--only`, as "small-five-rates", which has the mean of five
learning rates. Where the folder that EXFAM_DATA names has files of GLUE or SentEval below "glue",
the paper's other tasks are scored as well.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge

from exfam.language import MaskedLanguageModel, SentenceClassifier, SentenceRegressor
from exfam.positions import identical_word_probe
from exfam.reading.public_sets.published import find_file
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Kept, Key, Measured, Store, metric_row
from exfam_studies.common.rows import Row
from exfam_studies.positions.linguistic.scoring import PENALTIES, fit_softmax, hashed_words
from exfam_studies.positions.masked_lms import (
    COMPARED,
    SIZES,
    MaskedLMKey,
    fit_masked_lm,
    masked_lm_key,
    masked_lm_parameters,
    masked_lm_texts,
    short_digest,
    untrained,
)
from exfam_studies.positions.public_sentences import SENTENCE_SETS, sentence_task
from exfam_studies.positions.sentence_sets import (
    PAPER_TASKS,
    SentencePart,
    SentenceTask,
    TsvFiles,
    read_sentence_task,
)

FIVE_RATES = "small-five-rates"
TASKS = (*SIZES, FIVE_RATES)
_USUAL = "small"
SEEDS = 3
# How encoders are tuned, at one rate a size.
TUNING: Mapping[str, Any] = {"max_epochs": 2, "batch_size": 32, "dropout": 0.1}
RATE: Mapping[str, float] = {"small": 1e-3, "large": 5e-4, "paper": 5e-5}
RATES = (3e-4, 5e-4, 1e-3, 2e-3, 3e-3)
# Below the folder of data.
_GIVEN = "glue"
FAST_SENTENCES = 60
_POSITIONS = ("position-locality", "position-symmetry")


class SentenceScore(NamedTuple):
    """Of the test part and of the one that anything was chosen by."""

    test: float
    validation: float
    cpu_seconds: float = 0.0


def run(options: Options) -> list[Row]:
    """Fit and score the models of the wanted tasks."""
    jobs = []
    for task in TASKS:
        if options.wants(task, is_long=task != _USUAL):
            jobs.append(Job(f"{task} baselines", partial(_baseline_rows, task, options)))
            jobs += [
                Job(f"{task} {encoding}", partial(_model_rows, task, encoding, options))
                for encoding in COMPARED
            ]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model."""
    size = _USUAL if row.task.startswith(_USUAL) else row.task.partition("-")[0]
    return masked_lm_parameters(size, row.model, options) if row.model in COMPARED else {}


def _sets(options: Options) -> Iterator[SentenceTask]:
    """The sets of sentences; parts that are not given are the same for all seeds."""
    for name in SENTENCE_SETS:
        yield _shortened(sentence_task(name, seed=0), options)
    for name, folder in _given():
        yield _shortened(read_sentence_task(folder, name, seed=0), options)


def _shortened(task: SentenceTask, options: Options) -> SentenceTask:
    return task.spread(FAST_SENTENCES) if options.fast else task


def _given() -> Iterator[tuple[str, Path]]:
    """The paper's tasks that have files, but those that are among the sets anyway."""
    for name, files in PAPER_TASKS.items():
        if name not in SENTENCE_SETS and isinstance(files, TsvFiles):
            for stored in (files.train, f"{files.train}.gz"):
                path = find_file(f"{_GIVEN}/{stored}")
                if path is not None:
                    yield name, path.parents[len(Path(stored).parts) - 1]
                    break


def _baseline_rows(task: str, options: Options) -> list[Row]:
    rows = []
    for sentences in _sets(options):
        scores = {"words": word_score(sentences)}
        if sentences.kind == "classification":
            scores = {"majority": majority_score(sentences), **scores}
        rows += [
            Row(
                task=f"{task}-{sentences.name}",
                model=model,
                metric=sentences.metric,
                n_configurations=len(PENALTIES) if model == "words" else None,
                value=score.test,
                validation=score.validation,
                cpu_seconds=score.cpu_seconds,
            )
            for model, score in scores.items()
        ]
    return rows


def _model_rows(task: str, encoding: str, options: Options) -> list[Row]:
    size = _USUAL if task == FIVE_RATES else task
    rates = RATES if task == FIVE_RATES else (RATE[size],)
    store, kept = Store(options.folder), []
    for seed in range(options.n_seeds(SEEDS)):
        model = masked_lm_key(size, encoding, seed=seed, options=options)
        tuned = f"tuned-{'-'.join(f'{rate:g}' for rate in rates)}-{short_digest(TUNING)}"
        key = Key((*model.path.parts, tuned), seed)
        kept.append(store.measured(key, partial(_measure, model, rates, options)))
    return _rows(task, encoding, kept)


def _measure(key: MaskedLMKey, rates: Sequence[float], options: Options) -> Measured:
    """Figures of a model as it is ("frozen") and trained along ("tuned"); "counts": by counts."""
    model = fit_masked_lm(key.size, key.encoding, seed=key.seed, options=options)
    texts = masked_lm_texts(options)
    figures: dict[str, float] = {}
    for when, own in (("before", untrained(model)), ("after", model)):
        for metric, value in _positions(own, options).items():
            figures[f"{metric} {when}"] = value
    for task in _sets(options):
        figures |= _sentence_figures(model, task, rates=rates, seed=key.seed)
    figures["nats"] = -model.score(texts["test"])
    figures[VALIDATION + "nats"] = -model.score(texts["validation"])
    # Nats by how often tokens are among those masked in the training text, plus one.
    counts = np.bincount(model.masked_tokens(texts["train"]), minlength=len(model.subwords_)) + 1.0
    log_share = np.log(counts / counts.sum())
    for name, part in (("counts", "test"), (VALIDATION + "counts", "validation")):
        figures[name] = -float(log_share[model.masked_tokens(texts[part])].mean())
    history = model.history_
    return Measured(figures, details={"steps": history.steps}, cpu_seconds=history.cpu_seconds)


def _positions(model: MaskedLanguageModel, options: Options) -> dict[str, float]:
    words, length = (3, 16) if options.fast else (100, int(model.length))
    scores = identical_word_probe(model.encoder(), words=words, length=length).model_scores()
    values = (scores.locality.item(), scores.symmetry.item())
    return {
        metric: float(np.clip(value, 0.0, 1.0))
        for metric, value in zip(_POSITIONS, values, strict=True)
    }


def _sentence_figures(
    model: MaskedLanguageModel, task: SentenceTask, *, rates: Sequence[float], seed: int
) -> dict[str, float]:
    """Of the encoder as it is, and trained along, mean over rates."""
    # The frozen encoder's vectors are the mean of the last layer's.
    frozen = _linear_score(model.embed, task)
    tuned = [
        tuned_score(model, task, settings={**TUNING, "learning_rate": rate}, seed=seed)
        for rate in rates
    ]
    figures = {}
    for kind, scores in (("frozen", [frozen]), ("tuned", tuned)):
        name = f"{kind} {task.name} {task.metric}"
        figures[name] = float(np.mean([score.test for score in scores]))
        figures[VALIDATION + name] = float(np.mean([score.validation for score in scores]))
    return figures


def majority_score(task: SentenceTask) -> SentenceScore:
    """Of the most frequent label of the training part."""
    labels, counts = np.unique(task.train.targets, return_counts=True)
    usual = labels[counts.argmax()]
    return SentenceScore(*(float((part.targets == usual).mean()) for part in _held(task)))


def word_score(task: SentenceTask) -> SentenceScore:
    """Of a linear model on counts of words, their order unknown."""
    return _linear_score(
        lambda sentences: hashed_words([own.split() for own in sentences], dim=2048), task
    )


def tuned_score(
    model: MaskedLanguageModel, task: SentenceTask, *, settings: Mapping[str, Any], seed: int
) -> SentenceScore:
    """Of a classifier whose encoder is trained along.

    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    kind = SentenceClassifier if task.kind == "classification" else SentenceRegressor
    fitted: SentenceClassifier | SentenceRegressor = kind(
        **settings, device=model.device, precision=model.precision, long_sentences="cut", seed=seed
    )
    held = (task.validation.sentences, task.validation.targets)
    fitted.fit(task.train.sentences, task.train.targets, encoder=model, validation=held)
    if fitted.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return SentenceScore(*(fitted.score(part.sentences, part.targets) for part in _held(task)))


def _held(task: SentenceTask) -> tuple[SentencePart, SentencePart]:
    return task.test, task.validation


# Sentences -> a vector each.
_Encode = Callable[[Sequence[Any]], Float[np.ndarray, "sentences dim"]]


def _linear_score(encode: _Encode, task: SentenceTask) -> SentenceScore:
    """Of the penalty that is best on the validation part, the largest of equals."""
    start = time.process_time()
    features = _features(encode, task.train, pairs=task.has_pairs)
    held = [_features(encode, part, pairs=task.has_pairs) for part in _held(task)]
    fit = _fitted_labels if task.kind == "classification" else _fitted_numbers
    tried = []
    for penalty in PENALTIES:
        score = fit(features, task.train.targets, penalty)
        test, validation = (
            score(own, part.targets) for own, part in zip(held, _held(task), strict=True)
        )
        tried.append((validation, penalty, test))
    validation, _, test = max(tried)
    return SentenceScore(test, validation, time.process_time() - start)


def _features(
    encode: _Encode, part: SentencePart, *, pairs: bool
) -> Float64[np.ndarray, "sentences dim"]:
    """Vectors of sentences; of pairs, how far both are apart and their product, as in SentEval."""
    if not pairs:
        return encode(part.sentences).astype(np.float64)
    first, second = (encode([pair[side] for pair in part.sentences]) for side in (0, 1))
    return np.hstack([np.abs(first - second), first * second]).astype(np.float64)


_Score = Callable[[np.ndarray, np.ndarray], float]


def _fitted_labels(features: np.ndarray, targets: np.ndarray, penalty: float) -> _Score:
    labels, codes = np.unique(targets, return_inverse=True)
    fit = fit_softmax(features, codes, n_classes=len(labels), penalty=penalty)
    return lambda vectors, targets: float((labels[fit.predict(vectors)] == targets).mean())


def _fitted_numbers(features: np.ndarray, targets: np.ndarray, penalty: float) -> _Score:
    scale = float(features.std()) or 1.0
    fit = Ridge(alpha=penalty * len(features)).fit(features / scale, targets)
    return lambda vectors, targets: float(
        spearmanr(fit.predict(vectors / scale), targets).statistic
    )


def _rows(task: str, encoding: str, kept: Sequence[Kept]) -> list[Row]:
    def row(name: str, figure: str, metric: str, **settings: Any) -> Row:
        """The row of a figure, without the costs that are those of the model."""
        own = Row(task=name, model=encoding, settings=settings, metric=figure)
        return replace(metric_row(own, kept), metric=metric, cpu_seconds=None, steps=None)

    figures = kept[0].figures
    rows = [metric_row(Row(task=task, model=encoding, metric="nats"), kept)]
    if encoding == COMPARED[0]:
        test, validation = figures["counts"], figures[VALIDATION + "counts"]
        rows.append(
            Row(task=task, model="counts", metric="nats", value=test, validation=validation)
        )
    for metric in _POSITIONS:
        for when in ("before", "after"):
            rows.append(row(task, f"{metric} {when}", metric, training=when))
    for kind, n_tried in (("frozen", len(PENALTIES)), ("tuned", 1)):
        for name in figures:
            if name.startswith(f"{kind} "):
                _, sentences, metric = name.split()
                own = row(f"{task}-{sentences}", name, metric, encoder=kind)
                rows.append(replace(own, n_configurations=n_tried))
    return rows
