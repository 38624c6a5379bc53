"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated. Sentences are classified by a logistic regression on the
encoder's vectors ("frozen"), and by an encoder that is trained along ("tuned"). "paper" (see
`masked_lms`) has to be named by `--only`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from exfam.positions import identical_word_probe
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Key, Measured, Store, metric_row
from exfam_studies.common.rows import Row
from exfam_studies.positions import masked_lms
from exfam_studies.positions.figure2 import position_figures
from exfam_studies.positions.linguistic.scoring import PENALTIES, fit_best_softmax, hashed_words
from exfam_studies.positions.masked_lms import COMPARED, SIZES
from exfam_studies.positions.public_sentences import SENTENCE_SETS, SentenceTask, sentence_task

# Sentences -> a vector each.
_Encode = Callable[[Sequence[Any]], Float[np.ndarray, "sentences dim"]]

TASKS = tuple(SIZES)
SEEDS = 3
# How encoders are tuned, at one rate a size.
TUNING: Mapping[str, Any] = {"max_epochs": 2, "batch_size": 32, "dropout": 0.1}
RATE: Mapping[str, float] = {"small": 1e-3, "paper": 5e-5}
FAST_SENTENCES = 60


def run(options: Options) -> list[Row]:
    """Fit and score the models of the wanted tasks."""
    jobs = []
    for task in TASKS:
        if options.wants(task, is_long=task == "paper"):
            jobs.append(Job(f"{task} baselines", partial(_baseline_rows, task, options)))
            jobs += [
                Job(f"{task} {encoding}", partial(_model_rows, task, encoding, options))
                for encoding in COMPARED
            ]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model."""
    size = row.task.partition("-")[0]
    return (
        masked_lms.masked_lm_parameters(size, row.model, options) if row.model in COMPARED else {}
    )


def _sets(options: Options) -> list[SentenceTask]:
    """The sets of sentences; parts that are not given are the same for all seeds."""
    tasks = [sentence_task(name, seed=0) for name in SENTENCE_SETS]
    return [task.spread(FAST_SENTENCES) for task in tasks] if options.fast else tasks


def _baseline_rows(task: str, options: Options) -> list[Row]:
    rows = []
    for sentences in _sets(options):
        row = Row(task=f"{task}-{sentences.name}", model="majority", metric="accuracy")
        test, validation = sentences.majority()
        rows.append(replace(row, value=test, validation=validation, cpu_seconds=0.0))
        start = time.process_time()
        test, validation = linear_score(_counted_words, sentences)
        seconds = time.process_time() - start
        row = replace(row, model="words", value=test, validation=validation, cpu_seconds=seconds)
        rows.append(replace(row, n_configurations=len(PENALTIES)))
    return rows


def _counted_words(sentences: Sequence[str]) -> np.ndarray:
    return hashed_words([own.split() for own in sentences], dim=2048)


def _model_rows(task: str, encoding: str, options: Options) -> list[Row]:
    store, kept = Store(options.folder), []
    tuned = f"tuned-{RATE[task]:g}-{masked_lms.short_digest(TUNING)}"
    for seed in range(options.n_seeds(SEEDS)):
        folder = masked_lms.masked_lm_folder(task, encoding, seed=seed, options=options)
        measure = partial(_measure, task, encoding, seed, options)
        kept.append(store.measured(Key((*folder.parts, tuned), seed), measure))
    return _rows(task, encoding, kept)


def _measure(size: str, encoding: str, seed: int, options: Options) -> Measured:
    """Figures of a model as it is ("frozen") and trained along ("tuned"); "counts": by counts."""
    model = masked_lms.fit_masked_lm(size, encoding, seed=seed, options=options)
    texts = masked_lms.masked_lm_texts(options)
    figures: dict[str, float] = {}
    words, length = (3, 16) if options.fast else (100, int(model.length))
    for when, own in (("before", masked_lms.untrained(model)), ("after", model)):
        probe = identical_word_probe(own.encoder(), words=words, length=length)
        for metric, figure in position_figures(probe.model_scores()).items():
            figures[f"{metric} {when}"] = figure
    common = {"learning_rate": RATE[size], "device": model.device, "precision": model.precision}
    for task in _sets(options):
        train, validation, test = (part.labeled for part in task.parts.values())
        tuned = masked_lms.fit_classifier(
            model, train, validation, settings={**TUNING, **common}, seed=seed
        )
        scores = {
            # The frozen encoder's vectors are the mean of the last layer's.
            "frozen": linear_score(model.embed, task),
            "tuned": (tuned.score(*test), tuned.score(*validation)),
        }
        for kind, (accuracy, chosen_by) in scores.items():
            figures[f"{kind} {task.name} accuracy"] = accuracy
            figures[f"{VALIDATION}{kind} {task.name} accuracy"] = chosen_by
    # Nats by how often tokens are among those masked in the training text, plus one.
    counts = np.bincount(model.masked_tokens(texts["train"]), minlength=len(model.subwords_)) + 1.0
    log_share = np.log(counts / counts.sum())
    for prefix, part in (("", "test"), (VALIDATION, "validation")):
        figures[prefix + "nats"] = -model.score(texts[part])
        figures[prefix + "counts"] = -float(log_share[model.masked_tokens(texts[part])].mean())
    history = model.history_
    return Measured(figures, details={"steps": history.steps}, cpu_seconds=history.cpu_seconds)


def linear_score(encode: _Encode, task: SentenceTask) -> tuple[float, float]:
    """Accuracy of logistic regression on sentences' vectors: on the test and the validation part.

    The penalty is the best on the validation part, the largest of equals.
    """
    code = {label: number for number, label in enumerate(np.unique(task.train.targets))}
    vectors, codes = {}, {}
    for name, part in task.parts.items():
        vectors[name] = _features(encode, part.sentences)
        codes[name] = np.array([code.get(label, -1) for label in part.targets])
    validation, _, fit = fit_best_softmax(vectors, codes, n_classes=len(code))
    return float((fit.predict(vectors["test"]) == codes["test"]).mean()), validation


def _features(encode: _Encode, texts: Sequence[Any]) -> Float64[np.ndarray, "sentences dim"]:
    """Vectors of sentences; of pairs, how far both are apart and their product, as in SentEval."""
    if isinstance(texts[0], str):
        return encode(texts).astype(np.float64)
    first, second = (encode([pair[side] for pair in texts]) for side in (0, 1))
    return np.hstack([np.abs(first - second), first * second]).astype(np.float64)


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
    for metric in ("position-locality", "position-symmetry"):
        for when in ("before", "after"):
            rows.append(row(task, f"{metric} {when}", metric, None, training=when))
    for kind, n_tried in (("frozen", len(PENALTIES)), ("tuned", 1)):
        for sentences in SENTENCE_SETS:
            figure = f"{kind} {sentences} accuracy"
            rows.append(row(f"{task}-{sentences}", figure, "accuracy", n_tried, encoder=kind))
    return rows
