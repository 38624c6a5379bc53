"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated. Sentences are classified by a logistic regression on the
encoder's vectors ("frozen"), and by an encoder that is trained along ("tuned"). "paper" (see
`masked_lms`) has to be named by `--only`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from exfam.language import MaskedLanguageModel, SentenceClassifier
from exfam.positions import identical_word_probe
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Key, Measured, Store, metric_row
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
from exfam_studies.positions.public_sentences import (
    SENTENCE_SETS,
    SentencePart,
    SentenceTask,
    sentence_task,
)

TASKS = tuple(SIZES)
_USUAL = "small"
SEEDS = 3
# How encoders are tuned, at one rate a size.
TUNING: Mapping[str, Any] = {"max_epochs": 2, "batch_size": 32, "dropout": 0.1}
RATE: Mapping[str, float] = {"small": 1e-3, "paper": 5e-5}
FAST_SENTENCES = 60
_POSITIONS = ("position-locality", "position-symmetry")


class SentenceScore(NamedTuple):
    """Accuracy on the test part and on the one that anything was chosen by."""

    value: float
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
    size = row.task.partition("-")[0]
    return masked_lm_parameters(size, row.model, options) if row.model in COMPARED else {}


def _sets(options: Options) -> Iterator[SentenceTask]:
    """The sets of sentences; parts that are not given are the same for all seeds."""
    for name in SENTENCE_SETS:
        task = sentence_task(name, seed=0)
        yield task.spread(FAST_SENTENCES) if options.fast else task


def _baseline_rows(task: str, options: Options) -> list[Row]:
    rows = []
    for sentences in _sets(options):
        row = Row(task=f"{task}-{sentences.name}", model="majority", metric="accuracy")
        test, validation = sentences.majority()
        rows.append(replace(row, value=test, validation=validation, cpu_seconds=0.0))
        score = word_score(sentences)
        row = replace(row, model="words", n_configurations=len(PENALTIES))
        rows.append(replace(row, **score._asdict()))
    return rows


def _model_rows(task: str, encoding: str, options: Options) -> list[Row]:
    store, kept = Store(options.folder), []
    for seed in range(options.n_seeds(SEEDS)):
        model = masked_lm_key(task, encoding, seed=seed, options=options)
        tuned = f"tuned-{RATE[task]:g}-{short_digest(TUNING)}"
        key = Key((*model.path.parts, tuned), seed)
        kept.append(store.measured(key, partial(_measure, model, options)))
    return _rows(task, encoding, kept)


def _measure(key: MaskedLMKey, options: Options) -> Measured:
    """Figures of a model as it is ("frozen") and trained along ("tuned"); "counts": by counts."""
    model = fit_masked_lm(key.size, key.encoding, seed=key.seed, options=options)
    texts = masked_lm_texts(options)
    figures: dict[str, float] = {}
    for when, own in (("before", untrained(model)), ("after", model)):
        for metric, value in _positions(own, options).items():
            figures[f"{metric} {when}"] = value
    settings = {**TUNING, "learning_rate": RATE[key.size]}
    for task in _sets(options):
        # The frozen encoder's vectors are the mean of the last layer's.
        frozen = _linear_score(model.embed, task)
        tuned = tuned_score(model, task, settings=settings, seed=key.seed)
        for kind, score in (("frozen", frozen), ("tuned", tuned)):
            figures[f"{kind} {task.name} accuracy"] = score.value
            figures[f"{VALIDATION}{kind} {task.name} accuracy"] = score.validation
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
    values = np.clip([scores.locality.item(), scores.symmetry.item()], 0.0, 1.0).tolist()
    return dict(zip(_POSITIONS, values, strict=True))


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
    fitted = SentenceClassifier(
        **settings, device=model.device, precision=model.precision, long_sentences="cut", seed=seed
    )
    held = (task.validation.sentences, task.validation.targets)
    fitted.fit(task.train.sentences, task.train.targets, encoder=model, validation=held)
    if fitted.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return SentenceScore(
        *(fitted.score(part.sentences, part.targets) for part in (task.test, task.validation))
    )


# Sentences -> a vector each.
_Encode = Callable[[Sequence[Any]], Float[np.ndarray, "sentences dim"]]


def _linear_score(encode: _Encode, task: SentenceTask) -> SentenceScore:
    """Of the penalty that is best on the validation part, the largest of equals."""
    start = time.process_time()
    features, *held = (_features(encode, p) for p in (task.train, task.test, task.validation))
    tried = []
    for penalty in PENALTIES:
        score = _fitted_labels(features, task.train.targets, penalty)
        test, validation = map(score, held, (task.test.targets, task.validation.targets))
        tried.append((validation, penalty, test))
    validation, _, test = max(tried)
    return SentenceScore(test, validation, time.process_time() - start)


def _features(encode: _Encode, part: SentencePart) -> Float64[np.ndarray, "sentences dim"]:
    """Vectors of sentences; of pairs, how far both are apart and their product, as in SentEval."""
    if isinstance(part.sentences[0], str):
        return encode(part.sentences).astype(np.float64)
    first, second = (encode([pair[side] for pair in part.sentences]) for side in (0, 1))
    return np.hstack([np.abs(first - second), first * second]).astype(np.float64)


def _fitted_labels(
    features: np.ndarray, targets: np.ndarray, penalty: float
) -> Callable[[np.ndarray, np.ndarray], float]:
    """The accuracy, on vectors and their labels, of a classifier fitted to others."""
    labels, codes = np.unique(targets, return_inverse=True)
    fit = fit_softmax(features, codes, n_classes=len(labels), penalty=penalty)
    return lambda vectors, targets: float((labels[fit.predict(vectors)] == targets).mean())


def _rows(task: str, encoding: str, kept: Sequence[Measured]) -> list[Row]:
    def row(name: str, figure: str, metric: str, n_tried: int | None, **settings: Any) -> Row:
        """The row of a figure, without the costs that are those of the model."""
        own = metric_row(Row(task=name, model=encoding, settings=settings, metric=figure), kept)
        return replace(own, metric=metric, cpu_seconds=None, steps=None, n_configurations=n_tried)

    figures = kept[0].figures
    rows = [metric_row(Row(task=task, model=encoding, metric="nats"), kept)]
    if encoding == COMPARED[0]:
        test, validation = figures["counts"], figures[VALIDATION + "counts"]
        counts = Row(task=task, model="counts", metric="nats", value=test, validation=validation)
        rows.append(counts)
    for metric in _POSITIONS:
        for when in ("before", "after"):
            rows.append(row(task, f"{metric} {when}", metric, None, training=when))
    for kind, n_tried in (("frozen", len(PENALTIES)), ("tuned", 1)):
        for name in figures:
            if name.startswith(f"{kind} "):
                _, sentences, metric = name.split()
                rows.append(row(f"{task}-{sentences}", name, metric, n_tried, encoder=kind))
    return rows
