"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

That is "Locality and symmetry of positional encodings".

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated, before and after training. Sentences are classified by a
logistic regression on the encoder's vectors ("frozen"), and by an encoder that is trained along
("tuned"). "small" is the usual size; "large" and "paper" (BERT-base, see `masked_lms`) have to be
named by `--only`, as "small-five-rates", which tunes at five learning rates and has their
mean, as the paper does. Where the folder that EXFAM_DATA names has files of GLUE or SentEval below
"glue", the paper's other tasks are scored as well. With `--folder` every model and figure is kept
there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.language import MaskedLanguageModel
from exfam.positions import identical_word_probe
from exfam.reading.public_sets.files import find_file
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import VALIDATION, Kept, Key, Measured, Store, metric_row
from exfam_studies.common.rows import Row
from exfam_studies.positions.linguistic.scoring import PENALTIES
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
from exfam_studies.positions.sentence_scores import (
    SentenceScore,
    frozen_score,
    majority_score,
    tuned_score,
    word_score,
)
from exfam_studies.positions.sentence_sets import PAPER_TASKS, SentenceTask, read_sentence_task
from exfam_studies.positions.sentence_sets.paper_tasks import TsvFiles

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


def run(options: Options) -> list[Row]:
    """Fit and score the models of the wanted tasks."""
    jobs = []
    for task in TASKS:
        if not options.wants(task) or (task != _USUAL and task not in options.only):
            continue
        jobs.append(Job(f"{task} baselines", partial(_baseline_rows, task, options)))
        jobs += [
            Job(f"{task} {encoding}", partial(_model_rows, task, encoding, options))
            for encoding in COMPARED
        ]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model, and of the tuning where it is tuned."""
    if row.model not in COMPARED:
        return {}
    size = _USUAL if row.task.startswith(_USUAL) else row.task.partition("-")[0]
    model = masked_lm_parameters(size, row.model, options)
    return model if "tuned" not in row.metric else {**model, "tuning": dict(TUNING)}


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
                found = find_file(f"{_GIVEN}/{stored}")
                if found is not None:
                    yield name, found.parents[len(Path(stored).parts) - 1]
                    break


def _baseline_rows(task: str, options: Options) -> list[Row]:
    contenders: dict[str, Callable[[SentenceTask], SentenceScore]] = {
        "majority": majority_score,
        "words": word_score,
    }
    rows = []
    for sentences in _sets(options):
        for model, score in contenders.items():
            if model == "majority" and sentences.kind == "regression":
                continue
            scored = score(sentences)
            rows.append(
                Row(
                    task=f"{task}-{sentences.name}",
                    model=model,
                    metric=sentences.metric,
                    n_configurations=len(PENALTIES) if model == "words" else None,
                    value=scored.test,
                    validation=scored.validation,
                    cpu_seconds=scored.cpu_seconds,
                )
            )
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
    figures["counts"], figures[VALIDATION + "counts"] = _counted(model, texts)
    history = model.history_
    return Measured(figures, details={"steps": history.steps}, cpu_seconds=history.cpu_seconds)


def _sentence_figures(
    model: MaskedLanguageModel, task: SentenceTask, *, rates: Sequence[float], seed: int
) -> dict[str, float]:
    """Of the encoder as it is, and trained along, mean over rates."""
    tuned = [
        tuned_score(model, task, settings={**TUNING, "learning_rate": rate}, seed=seed)
        for rate in rates
    ]
    figures = {}
    for kind, scores in (("frozen", [frozen_score(model, task)]), ("tuned", tuned)):
        name = f"{kind} {task.name} {task.metric}"
        figures[name] = float(np.mean([score.test for score in scores]))
        figures[VALIDATION + name] = float(np.mean([score.validation for score in scores]))
    return figures


def _counted(model: MaskedLanguageModel, texts: Mapping[str, Any]) -> tuple[float, float]:
    """Nats by how often tokens are among those masked in the training text, plus one."""
    counts = np.bincount(model.masked_tokens(texts["train"]), minlength=len(model.subwords_)) + 1.0
    log_share = np.log(counts / counts.sum())
    test, validation = (
        -float(log_share[model.masked_tokens(texts[part])].mean())
        for part in ("test", "validation")
    )
    return test, validation


def _positions(model: MaskedLanguageModel, options: Options) -> dict[str, float]:
    words, length = (3, 16) if options.fast else (100, int(model.length))
    probe = identical_word_probe(model.encoder(), words=words, length=length)
    scores = probe.model_scores()
    values = (scores.locality.item(), scores.symmetry.item())
    return {
        metric: float(np.clip(value, 0.0, 1.0))
        for metric, value in zip(_POSITIONS, values, strict=True)
    }


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
