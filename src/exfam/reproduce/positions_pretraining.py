"""Masked language models that differ in their encoding alone: section 3.3.2 of the paper.

That is "Locality and symmetry of positional encodings".

All take equal steps on WikiText-2. Nats are of masked tokens of its test part; locality and
symmetry are those of words repeated, before and after training. Sentences are told apart by a
logistic regression on the encoder's vectors ("frozen"), and by an encoder that is trained along
("tuned"). "small" is the usual size; "large" and "paper" (BERT-base, see `masked_lms`) have to be
asked for with `--only`, as "small-five-rates", which tunes at five learning rates and tells their
mean, as the paper does. With `--folder` every model and figure is kept there.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.analysis.positions import identical_word_probe
from exfam.data.public_sets.sentences import SENTENCE_SETS, sentence_task
from exfam.data.sentences import SentenceTask
from exfam.estimators.language import MaskedLanguageModel
from exfam.reproduce.fits import Job, gather
from exfam.reproduce.harness import Options
from exfam.reproduce.masked_lms import (
    COMPARED,
    SIZES,
    MaskedLMKey,
    fit_masked_lm,
    masked_lm_key,
    masked_lm_texts,
    untrained,
)
from exfam.reproduce.result_store import ResultStore
from exfam.reproduce.rows import Row, row_over_seeds
from exfam.reproduce.sentence_scores import (
    SentenceScore,
    frozen_score,
    majority_score,
    tuned_score,
    word_score,
)

__all__ = ["TASKS", "PretrainingKey", "PretrainingResult", "run"]

FIVE_RATES = "small-five-rates"
TASKS = (*SIZES, FIVE_RATES)
_USUAL = "small"
SEEDS = 3
# How encoders are tuned; the rate was chosen by validation, see `N_RATES`.
TUNING: Mapping[str, Any] = {
    "learning_rate": 1e-3,
    "max_epochs": 2,
    "batch_size": 32,
    "dropout": 0.1,
}
RATES = (3e-4, 5e-4, 1e-3, 2e-3, 3e-3)
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
        return self.model.path / f"pretraining-{rates}.json"


@dataclass(frozen=True)
class PretrainingResult:
    """Figures of a model, test and validation, and its cost.

    `counted_nats`: of the same tokens by how often they are in the training text
    """

    key: PretrainingKey
    nats: Sequence[float]
    counted_nats: Sequence[float]
    positions: Mapping[str, float]
    frozen: Mapping[str, Sequence[float]]
    tuned: Mapping[str, Sequence[float]]
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


def _sets(options: Options, seed: int = 0) -> Iterator[SentenceTask]:
    """The sets of sentences; parts that are not given are the same for all seeds."""
    for name in SENTENCE_SETS:
        task = sentence_task(name, seed=seed)
        yield task.spread(FAST_SENTENCES) if options.fast else task


def _baseline_rows(task: str, options: Options) -> list[Row]:
    contenders: dict[str, Callable[[SentenceTask], SentenceScore]] = {
        "majority": majority_score,
        "words": word_score,
    }
    rows = []
    for sentences in _sets(options):
        for model, score in contenders.items():
            told = score(sentences)
            rows.append(
                Row(
                    task=f"{task}-{sentences.name}",
                    model=model,
                    metric="accuracy",
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
    rates = RATES if task == FIVE_RATES else (float(TUNING["learning_rate"]),)
    results = []
    for seed in range(options.n_seeds(SEEDS)):
        key = PretrainingKey(masked_lm_key(size, encoding, seed=seed, options=options), rates)
        kept = store.get(key)
        if kept is None:
            kept = _measured(key, options)
            store.put(kept)
        results.append(kept)
    return _rows(task, encoding, results)


def _measured(key: PretrainingKey, options: Options) -> PretrainingResult:
    named = key.model
    model = fit_masked_lm(named.size, named.encoding, seed=named.seed, options=options)
    texts = masked_lm_texts(options)
    positions = {
        f"{metric}-{when}": value
        for when, each in (("before", untrained(model)), ("after", model))
        for metric, value in _positions(each, options).items()
    }
    frozen, tuned, seconds = {}, {}, 0.0
    for task in _sets(options):
        told = frozen_score(model, task)
        frozen[task.name] = (told.test, told.validation)
        scores = [
            tuned_score(model, task, settings={**TUNING, "learning_rate": rate}, seed=named.seed)
            for rate in key.rates
        ]
        test, validation = (
            float(np.mean([getattr(score, part) for score in scores]))
            for part in ("test", "validation")
        )
        tuned[task.name] = (test, validation)
        seconds += told.cpu_seconds + sum(score.cpu_seconds for score in scores)
    return PretrainingResult(
        key,
        nats=(-model.score(texts["test"]), -model.score(texts["validation"])),
        counted_nats=_counted(model, texts),
        positions=positions,
        frozen=frozen,
        tuned=tuned,
        cpu_seconds=model.history_.cpu_seconds,
        tuning_seconds=seconds,
        steps=model.history_.steps,
    )


def _counted(model: MaskedLanguageModel, texts: Mapping[str, Any]) -> tuple[float, float]:
    """Nats by counts of the training text's tokens plus one, the same for all encodings."""
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
            of = row(f"{task}-{name}", "accuracy", encoder=kind)
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
