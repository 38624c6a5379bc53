"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

That is "Locality and symmetry of positional encodings".

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated, before and after training. Sentences are told apart by a
logistic regression on the encoder's vectors ("frozen"), and by an encoder that is trained along
("tuned"). "small" is the usual size; "large" and "paper" (BERT-base, see `masked_lms`) have to be
asked for with `--only`, as "small-five-rates", which tunes at five learning rates and tells their
mean, as the paper does. Where the folder that EXFAM_DATA names has files of GLUE or SentEval below
"glue", the paper's other tasks are scored as well. With `--folder` every model and figure is kept
there.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.language import MaskedLanguageModel
from exfam.positions import identical_word_probe
from exfam.reading.public_sets.files import find_file
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.result_store import ResultStore
from exfam_studies.common.rows import Row, row_over_seeds
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

__all__ = ["TASKS", "PretrainingKey", "PretrainingResult", "parameters", "run"]

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


@dataclass(frozen=True)
class PretrainingKey:
    """Which model, tuned at which rates."""

    model: MaskedLMKey
    rates: tuple[float, ...]

    @property
    def path(self) -> Path:
        """Where a store keeps the result, below its folder."""
        rates = "-".join(f"{rate:g}" for rate in self.rates)
        return self.model.path / f"tuned-{rates}-{short_digest(TUNING)}.json"


@dataclass(frozen=True)
class PretrainingResult:
    """Figures of a model, test and validation, and its cost.

    `counted_nats`: of the same tokens, by counts alone
    """

    key: PretrainingKey
    nats: Sequence[float]
    counted_nats: Sequence[float]
    positions: Mapping[str, float]
    frozen: Mapping[str, Sequence[float]]
    tuned: Mapping[str, Sequence[float]]
    metrics: Mapping[str, str]
    cpu_seconds: float
    tuning_seconds: float
    steps: int


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
            told = score(sentences)
            rows.append(
                Row(
                    task=f"{task}-{sentences.name}",
                    model=model,
                    metric=sentences.metric,
                    n_configurations=len(PENALTIES) if model == "words" else None,
                    value=told.test,
                    validation=told.validation,
                    cpu_seconds=told.cpu_seconds,
                )
            )
    return rows


def _model_rows(task: str, encoding: str, options: Options) -> list[Row]:
    store: ResultStore[PretrainingKey, PretrainingResult] = ResultStore(
        options.folder, read=_read, dump=_dump
    )
    size = _USUAL if task == FIVE_RATES else task
    rates = RATES if task == FIVE_RATES else (RATE[size],)
    results = []
    for seed in range(options.n_seeds(SEEDS)):
        key = PretrainingKey(masked_lm_key(size, encoding, seed=seed, options=options), rates)
        kept = store.get(key)
        if kept is None:
            kept = _measured(key, options)
            store.put(kept)
        results.append(kept)
    return _rows(task, encoding, results)


def _sentence_figures(
    model: MaskedLanguageModel, task: SentenceTask, *, rates: Sequence[float], seed: int
) -> tuple[Sequence[float], Sequence[float], float]:
    """Of the encoder as it is, and trained along: (test, validation); CPU seconds of both."""
    told = frozen_score(model, task)
    scores = [
        tuned_score(model, task, settings={**TUNING, "learning_rate": rate}, seed=seed)
        for rate in rates
    ]
    tuned = [
        float(np.mean([getattr(score, part) for score in scores]))
        for part in ("test", "validation")
    ]
    seconds = told.cpu_seconds + sum(score.cpu_seconds for score in scores)
    return (told.test, told.validation), tuned, seconds


def _measured(key: PretrainingKey, options: Options) -> PretrainingResult:
    named = key.model
    model = fit_masked_lm(named.size, named.encoding, seed=named.seed, options=options)
    texts = masked_lm_texts(options)
    positions = {
        f"{metric}-{when}": value
        for when, each in (("before", untrained(model)), ("after", model))
        for metric, value in _positions(each, options).items()
    }
    frozen, tuned, metrics, seconds = {}, {}, {}, 0.0
    for task in _sets(options):
        metrics[task.name] = task.metric
        frozen[task.name], tuned[task.name], cost = _sentence_figures(
            model, task, rates=key.rates, seed=named.seed
        )
        seconds += cost
    return PretrainingResult(
        key,
        nats=(-model.score(texts["test"]), -model.score(texts["validation"])),
        counted_nats=_counted(model, texts),
        positions=positions,
        frozen=frozen,
        tuned=tuned,
        metrics=metrics,
        cpu_seconds=model.history_.cpu_seconds,
        tuning_seconds=seconds,
        steps=model.history_.steps,
    )


def _counted(model: MaskedLanguageModel, texts: Mapping[str, Any]) -> tuple[float, float]:
    """Nats by how often tokens are among those asked for in the training text, plus one."""
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
    told = (scores.locality.item(), scores.symmetry.item())
    return {
        metric: float(np.clip(each, 0.0, 1.0))
        for metric, each in zip(_POSITIONS, told, strict=True)
    }


def _rows(task: str, encoding: str, results: Sequence[PretrainingResult]) -> list[Row]:
    def row(name: str, metric: str, **settings: Any) -> Row:
        return Row(task=name, model=encoding, settings=settings, metric=metric)

    told = [
        row_over_seeds(
            row(task, "nats"),
            values=[each.nats[0] for each in results],
            validations=[each.nats[1] for each in results],
            cpu_seconds=[each.cpu_seconds for each in results],
            steps=[each.steps for each in results],
        )
    ]
    if encoding == COMPARED[0]:
        test, validation = results[0].counted_nats
        counted = Row(task=task, model="counts", metric="nats", value=test, validation=validation)
        told.append(counted)
    for metric in _POSITIONS:
        for when in ("before", "after"):
            values = [each.positions[f"{metric}-{when}"] for each in results]
            told.append(row_over_seeds(row(task, metric, training=when), values=values))
    for kind in ("frozen", "tuned"):
        for name in getattr(results[0], kind):
            figures = [getattr(each, kind)[name] for each in results]
            of = row(f"{task}-{name}", results[0].metrics[name], encoder=kind)
            n_tried = len(PENALTIES) if kind == "frozen" else 1
            of = replace(of, n_configurations=n_tried)
            told.append(
                row_over_seeds(
                    of,
                    values=[test for test, _ in figures],
                    validations=[validation for _, validation in figures],
                )
            )
    return told


def _read(content: bytes) -> PretrainingResult:
    read = json.loads(content)
    key = PretrainingKey(MaskedLMKey(**read["key"]["model"]), tuple(read["key"]["rates"]))
    return PretrainingResult(**{**read, "key": key})


def _dump(result: PretrainingResult) -> bytes:
    return (json.dumps(asdict(result), allow_nan=False, indent=1) + "\n").encode()
