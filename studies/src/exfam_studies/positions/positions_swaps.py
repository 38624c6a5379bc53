"""Whether swapped words are noticed: Table 3 of locality and symmetry.

Masked language models of our own (see `masked_lms`) are tuned to entailment on the test set of SNLI
alone, far fewer pairs than the paper has, and scored on pairs with parses that share no premise
with it, as they were ("before") and with words swapped ("after"). The rule that swaps roles has
exceptions, and nobody read the pairs, of which the paper kept a fifth by hand. "low" and "high"
hold 95 % of what is found when premises are redrawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, interval_settings, row_over_seeds
from exfam_studies.positions import masked_lms
from exfam_studies.positions.linguistic.scoring import fit_softmax, hashed_words
from exfam_studies.positions.masked_lms import COMPARED
from exfam_studies.positions.snli import LABELS, SentencePair, snli_pairs
from exfam_studies.positions.swaps.sets import Predictor, SwapSet, swap_accuracy, swap_sets

TASKS = ("baselines", *COMPARED)
TUNING: dict[str, Any] = {"learning_rate": 1e-3, "max_epochs": 4, "batch_size": 32, "dropout": 0.1}
SEEDS = 3
FAST_PAIRS = 120
_PENALTY = 1e-2

_Texts = list[tuple[str, str]]
_Labeled = tuple[_Texts, np.ndarray]
_Read = Callable[[], list[SwapSet]]
# Pairs to learn from, and those to choose by.
_Learn = Callable[[], tuple[_Labeled, _Labeled]]


def run(options: Options) -> list[Row]:
    """Tune and score the wanted models."""
    most = FAST_PAIRS if options.fast else None
    read = cache(lambda: swap_sets(snli_pairs("parsed")[:most]))
    learn = cache(partial(_training, most))
    jobs = [Job("baselines", partial(_baseline_rows, read, learn))]
    for encoding in COMPARED:
        jobs.append(Job(encoding, partial(_model_rows, encoding, read, learn, options)))
    return gather([job for job in jobs if options.wants(job.label)])


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model and of its classifier."""
    if row.model not in COMPARED:
        return {}
    return {**masked_lms.masked_lm_parameters("small", row.model, options), "tuning": dict(TUNING)}


def _training(most: int | None) -> tuple[_Labeled, _Labeled]:
    """At most so many pairs of each, of different premises."""
    pairs = snli_pairs("test")
    premises = sorted({pair.premise for pair in pairs})
    order = np.random.default_rng(0).permutation(len(premises))
    chosen = {premises[index] for index in order[: len(premises) // 10]}
    train = [pair for pair in pairs if pair.premise not in chosen]
    validation = [pair for pair in pairs if pair.premise in chosen]
    return _labeled(train[:most]), _labeled(validation[:most])


def _labeled(pairs: Sequence[SentencePair]) -> _Labeled:
    texts = [(pair.premise, pair.hypothesis) for pair in pairs]
    return texts, np.array([str(pair.label) for pair in pairs])


def _baseline_rows(read: _Read, learn: _Learn) -> list[Row]:
    (texts, given), (held_texts, held) = learn()
    labels, counts = np.unique(given, return_counts=True)
    usual = str(labels[counts.argmax()])
    codes = np.array([LABELS.index(label) for label in given])
    fit = fit_softmax(_words(texts), codes, n_classes=len(LABELS), penalty=_PENALTY)
    contenders: dict[str, Predictor] = {
        "majority": lambda pairs: [usual] * len(pairs),
        "words": lambda pairs: [LABELS[code] for code in fit.predict(_words(pairs))],
    }
    rows = [
        Row(task=s.name, model="pairs", metric="count-pairs", value=float(len(s))) for s in read()
    ]
    for model, predict in contenders.items():
        accuracy = float((np.array(list(predict(held_texts))) == held).mean())
        own = _rows(model, [(predict, accuracy)], read())
        rows += [replace(row, n_seeds=None) for row in own]
    return rows


def _words(pairs: _Texts) -> np.ndarray:
    first, second = (hashed_words([pair[k].split() for pair in pairs], dim=2048) for k in (0, 1))
    return np.hstack([second, first * second])


def _model_rows(encoding: str, read: _Read, learn: _Learn, options: Options) -> list[Row]:
    train, validation = learn()
    fits: list[tuple[Predictor, float]] = []
    for seed in range(options.n_seeds(SEEDS)):
        encoder = masked_lms.fit_masked_lm("small", encoding, seed=seed, options=options)
        model = masked_lms.fit_classifier(encoder, train, validation, settings=TUNING, seed=seed)
        fits.append((model.predict, model.score(*validation)))
    return _rows(encoding, fits, read())


def _rows(model: str, fits: Sequence[tuple[Predictor, float]], sets: list[SwapSet]) -> list[Row]:
    """Accuracies before and after, over fits; intervals redraw premises for all of them."""
    rows = []
    for own in sets:
        together = swap_accuracy([predict for predict, _ in fits], own)
        alone = [swap_accuracy([predict], own) for predict, _ in fits]
        for words in ("before", "after", "change"):
            row = Row(
                task=own.name,
                model=model,
                settings={"words": words, **interval_settings(getattr(together, words))},
                metric="change-of-accuracy" if words == "change" else "accuracy",
            )
            values = [getattr(score, words).mean for score in alone]
            held = [accuracy for _, accuracy in fits] if words == "before" else ()
            rows.append(row_over_seeds(row, values=values, validations=held))
    return rows
