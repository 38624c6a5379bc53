"""LSTM language models with outputs tied to inputs, plainly and by a reflection: Table 3.

The two are equal in distribution (`exfam_studies.reflections.tied_lstm` writes the one as the
other): their figures differ as those of two seeds do. Each fit takes hours, so one seed is fitted
unless more are given; with `--folder` each fit is kept, and one that was stopped goes on where it
stood. Training rounds factors of output products to bfloat16 where the processor multiplies that.
"wikitext-2" is 2 epochs, where the paper has 40; "wikitext-2-full", which has to be named with
`--only`, is all 40.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.language import LSTMLanguageModel
from exfam.language.scoring import token_log_probs
from exfam.training.optimizer import multiplies_bfloat16
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.result_store import ResultStore
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.token_streams import CORPORA, Texts, read_texts
from exfam_studies.reflections.ngrams import NGRAMS
from exfam_studies.reflections.tied_lstm import plain_from_reflected

__all__ = ["TASKS", "LSTMKey", "LSTMResult", "parameters", "run"]

DIM, EPOCHS = 200, 40
# Tasks -> corpus and epochs.
_TASKS = {
    "ptb": ("ptb", EPOCHS),
    "wikitext-2": ("wikitext-2", 2),
    "wikitext-2-full": ("wikitext-2", EPOCHS),
}
TASKS = tuple(_TASKS)
# Only where it is named.
_LONG = ("wikitext-2-full",)
# Model -> how outputs are tied.
MODELS = {"lstm-tied": "tied", "lstm-reflection": "reflection"}
PAPER = {
    ("ptb", "lstm-tied"): 86.1,
    ("ptb", "lstm-reflection"): 86.5,
    ("wikitext-2", "lstm-tied"): 99.6,
    ("wikitext-2", "lstm-reflection"): 100.4,
}
NOTES = {
    "lstm-tied": "",
    "lstm-reflection": "equal in law to lstm-tied: their gap is seed noise",
}
# Test tokens on which a reflected model is compared with the plainly tied one that it equals.
_COMPARED = 2000
_FAST: dict[str, Any] = {"dim": 8, "epochs": 2, "batch_size": 4, "bptt": 10}
_FAST_LINES = 40


@dataclass(frozen=True)
class LSTMKey:
    """Which fit.

    >>> LSTMKey("ptb", 40, "bfloat16", "lstm-tied", 0).path.as_posix()
    'ptb/40-epochs-bfloat16/00/lstm-tied.json'
    """

    text: str
    epochs: int
    precision: str
    model: str
    seed: int

    @property
    def path(self) -> Path:
        """Where a store keeps the result, below its folder."""
        fits = Path(self.text, f"{self.epochs}-epochs-{self.precision}")
        return fits / f"{self.seed:02}" / f"{self.model}.json"


@dataclass(frozen=True)
class LSTMResult:
    """What came of a fit: perplexities, its cost, the epoch chosen by validation.

    `difference`: largest one in nats to the log-probabilities of the plainly tied network with
    mapped weights; None for a model that is plainly tied itself
    """

    key: LSTMKey
    test: float
    validation: float
    cpu_seconds: float
    steps: int
    best_epoch: int
    difference: float | None


def run(options: Options) -> list[Row]:
    """Fit and score both models of the wanted tasks, and what counting alone reaches."""
    jobs = []
    for task, (name, epochs) in _TASKS.items():
        if not options.wants(task) or (task in _LONG and task not in options.only):
            continue
        n_lines = _FAST_LINES if options.fast else None
        read = cache(partial(read_texts, CORPORA[name], n_lines=n_lines))
        fit = partial(_model_rows, task, read=read, epochs=epochs, options=options)
        jobs.append(Job(f"{task} counts", partial(_count_rows, task, read)))
        jobs += [Job(f"{task} {model}", partial(fit, model)) for model in MODELS]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of the language model that differ from its defaults."""
    if row.model not in MODELS:
        return {}
    return {"estimator": "LSTMLanguageModel", **row.settings, **(_FAST if options.fast else {})}


def _count_rows(task: str, read: Callable[[], Texts]) -> list[Row]:
    texts = read()
    rows = []
    for model, log_probs in NGRAMS.items():
        test, validation = (
            math.exp(
                -log_probs(
                    texts.codes["train"],
                    texts.codes[part],
                    n_words=len(texts.lexicon),
                    start=texts.lexicon.line_end,
                ).mean()
            )
            for part in ("test", "validation")
        )
        rows.append(
            Row(task=task, model=model, metric="perplexity", value=test, validation=validation)
        )
    return rows


def _model_rows(
    task: str, model: str, *, read: Callable[[], Texts], epochs: int, options: Options
) -> list[Row]:
    precision = "bfloat16" if multiplies_bfloat16() else "float32"
    settings: dict[str, Any] = {
        "tie": MODELS[model],
        "dim": DIM,
        "epochs": epochs,
        "precision": precision,
    }
    settings |= {name: _FAST[name] for name in settings if options.fast and name in _FAST}
    store: ResultStore[LSTMKey, LSTMResult] = ResultStore(options.folder, read=_read, dump=_dump)
    results = []
    for seed in range(options.n_seeds(1)):
        text = _TASKS[task][0] + ("-fast" if options.fast else "")
        key = LSTMKey(text, settings["epochs"], precision, model, seed)
        kept = store.get(key)
        if kept is None:
            kept = _fit(key, read(), settings | (_FAST if options.fast else {}), options.folder)
            store.put(kept)
        results.append(kept)
    full = epochs == EPOCHS and not options.fast
    seeds = "seed 0" if len(results) == 1 else f"seeds 0 to {len(results) - 1}"
    row = Row(
        task=task,
        model=model,
        settings=settings,
        metric="perplexity",
        n_configurations=1,
        paper=PAPER[_TASKS[task][0], model] if full else None,
        note="; ".join(filter(None, [seeds, NOTES[model]])),
    )
    return [_over(row, results), *_difference_row(row, results)]


def _over(row: Row, results: list[LSTMResult]) -> Row:
    return row_over_seeds(
        row,
        values=[result.test for result in results],
        validations=[result.validation for result in results],
        cpu_seconds=[result.cpu_seconds for result in results],
        steps=[result.steps for result in results],
    )


def _difference_row(row: Row, results: list[LSTMResult]) -> list[Row]:
    known = [result.difference for result in results if result.difference is not None]
    if not known:
        return []
    note = "nats, to the plainly tied network with mapped weights"
    return [
        Row(
            task=row.task,
            model=row.model,
            settings=row.settings,
            metric="max-difference-to-tied",
            value=max(known),
            n_seeds=len(known),
            note=note,
        )
    ]


def _fit(key: LSTMKey, texts: Texts, parameters: dict[str, Any], folder: Path | None) -> LSTMResult:
    """A fit and its figures; KeyboardInterrupt if it was cut short."""
    estimator = LSTMLanguageModel(**parameters, seed=key.seed)
    checkpoint = None if folder is None else folder / key.path.with_suffix("")
    estimator.fit(texts.given["train"], validation=texts.given["validation"], checkpoint=checkpoint)
    history = estimator.history_
    if history.interrupted or history.best is None:
        raise KeyboardInterrupt("a fit was cut short")
    test, validation = (estimator.perplexity(texts.given[part]) for part in ("test", "validation"))
    return LSTMResult(
        key,
        test=test,
        validation=validation,
        cpu_seconds=history.cpu_seconds,
        steps=history.steps,
        best_epoch=history.best.epoch,
        difference=_difference(estimator, texts) if estimator.tie == "reflection" else None,
    )


def _difference(estimator: LSTMLanguageModel, texts: Texts) -> float:
    tokens, start = texts.codes["test"][:_COMPARED], texts.lexicon.line_end
    reflected = estimator.model_
    told = [
        token_log_probs(model, tokens, start=start)
        for model in (reflected, plain_from_reflected(reflected).eval())
    ]
    return float(np.abs(told[0] - told[1]).max())


def _read(content: bytes) -> LSTMResult:
    read = json.loads(content)
    return LSTMResult(**{**read, "key": LSTMKey(**read["key"])})


def _dump(result: LSTMResult) -> bytes:
    return (json.dumps(asdict(result), allow_nan=False, indent=1) + "\n").encode()
