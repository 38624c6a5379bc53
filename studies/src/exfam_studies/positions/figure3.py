"""Sentences by attention to positions alone, more or less local and symmetric: Figures 3 and A1.

Reviews (mr) and plots against reviews (subj) by `PositionalSentenceClassifier` with the word
vectors of --vectors, else skip-gram's of the corpus of words-table2. Locality is swept at symmetry
1, symmetry by s at localities that are held, both those of the weights at 128 positions. "uniform"
is a bag of words, "identity" has each word see itself alone. Trends are of accuracy over the
settings of a seed: "position-slope" for 1 more locality or symmetry, "position-spearman";
"minus-asymmetric" is the accuracy at s = 1 less the mean at other s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.optimize import brentq
from scipy.stats import rankdata

from exfam.encodings import Attenuated
from exfam.language import PositionalSentenceClassifier
from exfam.positions import encoding_weights, locality, raw_symmetry, symmetry
from exfam.vectors import WordVectors
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_row
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.common.word_fits import MIN_COUNT, Recipe, fit_words
from exfam_studies.positions.public_sentences import SentenceTask, sentence_task

TASKS = tuple(f"{name}-{swept}" for name in ("mr", "subj") for swept in ("locality", "symmetry"))
PLOTTED = {"accuracy": "locality"}
SEEDS = 5
LENGTH = 128
# Localities that are swept, those that are held, and slopes that are swept there.
LOCALITIES, FAST_LOCALITIES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7), (0.1, 0.3, 0.5)
HELD, FAST_HELD = (0.15, 0.2, 0.3), (0.2, 0.3)
SLOPES, FAST_SLOPES = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0), (0.5, 1.0)
FAST_SENTENCES, FAST_EPOCHS = 60, 1
# So small, and so large, that weights are those of the names.
_ENDS = {"uniform": 1e-9, "identity": 1e6}
# What is swept -> what trends are by -> over which of its values: all, and the two sides of where
# the paper sees a change.
_EVERYWHERE = (-np.inf, np.inf)
_TRENDS: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "locality": {"locality": (_EVERYWHERE, (-np.inf, 0.301), (0.299, np.inf))},
    "symmetry": {
        "symmetry": (_EVERYWHERE, (-np.inf, 0.65), (0.65, np.inf)),
        "raw-symmetry": (_EVERYWHERE,),
    },
}
Numbers = Float64[np.ndarray, "settings"]
Scores = Float64[np.ndarray, "seeds settings"]


@dataclass(frozen=True)
class _Setting:
    """Weights of attention."""

    model: str
    w: float
    s: float = 1.0
    padding: str = "zeroed"

    def shown(self) -> dict[str, str | float]:
        scores = {name: round(score, 4) for name, score in _scores(self.w, self.s).items()}
        return {"w": float(f"{self.w:.4g}"), "s": self.s, "padding": self.padding, **scores}


class _Lab:
    """What all fits share: the vectors and their name, the tasks, and results by name and seed."""

    def __init__(self, options: Options) -> None:
        self._options, self._store = options, Store(options.folder)
        self.seeds = range(options.n_seeds(SEEDS))
        # The vectors are read, or fitted, when they are first needed.
        self._read, self.task = cache(partial(_vectors, options)), cache(self._task)
        self.vectors = f"sgns-{corpus_name(options)}"
        if options.vectors is not None:
            self.vectors = options.vectors.name + ("-fast" if options.fast else "")

    def _task(self, name: str, seed: int) -> SentenceTask:
        whole = sentence_task(name, seed=seed)
        return whole.spread(FAST_SENTENCES) if self._options.fast else whole

    def kept(self, task: str, setting: _Setting) -> list[Measured]:
        name = task.partition("-")[0]
        weights = f"w-{setting.w:.6g}-s-{setting.s:g}"
        names = ("positions-figure3", self.vectors, name, setting.padding, weights)
        measure = partial(self._measure, name, setting)
        return kept_seeds(self._store, names, len(self.seeds), measure)

    def _measure(self, name: str, setting: _Setting, seed: int) -> Measured:
        model = PositionalSentenceClassifier(
            w=setting.w, s=setting.s, padding=setting.padding, seed=seed, progress=False,
            **_common(self._options),
        )  # fmt: skip
        train, validation, test = (part.labeled for part in self.task(name, seed).parts.values())
        model.fit(*train, vectors=self._read(), validation=validation)
        if model.history_.interrupted:
            raise KeyboardInterrupt("a fit was cut short")
        figures = {
            "accuracy": model.score(*test),
            "validation-accuracy": model.score(*validation),
            "coverage-words": model.coverage_,
        }
        return Measured(figures, details={"steps": model.history_.steps})


def run(options: Options) -> list[Row]:
    """Fit and score the wanted tasks."""
    lab = _Lab(options)
    jobs = []
    for task in filter(options.wants, TASKS):
        name, _, swept = task.partition("-")
        settings = list(_settings(swept, fast=options.fast))
        for setting in settings:
            label = f"{task} {setting.model} w={setting.w:.3g} s={setting.s:g}"
            jobs.append(Job(label, partial(_setting_rows, lab, task, setting)))
        if swept == "locality":
            jobs.append(Job(f"{name} majority", partial(_majority_rows, lab, task)))
        jobs.append(Job(f"{task} trends", partial(_trend_rows, lab, task, settings)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's classifiers."""
    if row.model == "majority":
        return {}
    own = {name: row.settings[name] for name in ("w", "s", "padding") if name in row.settings}
    return {"estimator": "PositionalSentenceClassifier", **own, **_common(options)}


def w_for(wanted: float, *, s: float) -> float:
    """The `w` at which attenuated weights of 128 positions have a locality."""
    low, high = np.log(1e-8), np.log(1e4)
    log_w = brentq(lambda x: _scores(float(np.exp(x)), s)["locality"] - wanted, low, high)
    return float(np.exp(log_w))


@cache
def _scores(w: float, s: float) -> Mapping[str, float]:
    weights = encoding_weights(Attenuated(w=w, s=s), LENGTH)[0]
    scores = {"locality": locality, "symmetry": symmetry, "raw-symmetry": raw_symmetry}
    return {name: score(weights).item() for name, score in scores.items()}


def _settings(swept: str, *, fast: bool) -> Iterator[_Setting]:
    if swept == "symmetry":
        for held in FAST_HELD if fast else HELD:
            for s in FAST_SLOPES if fast else SLOPES:
                yield _Setting("attenuated", w_for(held, s=s), s)
        return
    for padding in ("zeroed", "renormalized"):
        for wanted in FAST_LOCALITIES if fast else LOCALITIES:
            yield _Setting("attenuated", w_for(wanted, s=1.0), padding=padding)
        for model, w in _ENDS.items():
            yield _Setting(model, w, padding=padding)


def _vectors(options: Options) -> WordVectors:
    if options.vectors is not None:
        return WordVectors.load(options.vectors)
    text = read_corpus(options, min_count=MIN_COUNT)
    # The free vectors of words-table2, whose kept fit is this one.
    settings = {"tie": None, **Recipe().settings(options)}
    return fit_words(text, settings, seed=0, options=options).vectors_


def _common(options: Options) -> dict[str, Any]:
    return {"n_positions": LENGTH, "max_epochs": FAST_EPOCHS if options.fast else 5}


def _setting_rows(lab: _Lab, task: str, setting: _Setting) -> list[Row]:
    kept, settings = lab.kept(task, setting), {**setting.shown(), "vectors": lab.vectors}
    coverage = np.mean([fit.figures["coverage-words"] for fit in kept])
    note = f"{coverage:.1%} of words have vectors"
    row = Row(task=task, model=setting.model, settings=settings, metric="accuracy", note=note)
    return [metric_row(replace(row, n_configurations=1), kept)]


def _majority_rows(lab: _Lab, task: str) -> list[Row]:
    shares = [lab.task(task.partition("-")[0], seed).majority() for seed in lab.seeds]
    test, validation = zip(*shares, strict=True)
    row = Row(task=task, model="majority", metric="accuracy", n_configurations=1)
    return [row_over_seeds(row, values=test, validations=validation)]


def _trend_rows(lab: _Lab, task: str, settings: Sequence[_Setting]) -> list[Row]:
    swept, rows = task.partition("-")[2], list[Row]()
    for padding in dict.fromkeys(setting.padding for setting in settings):
        own = [setting for setting in settings if setting.padding == padding]
        kept = list(zip(*(lab.kept(task, setting) for setting in own), strict=True))
        both = [
            np.array([[fit.figures[figure] for fit in fits] for fits in kept])
            for figure in ("accuracy", "validation-accuracy")
        ]
        shown = {"padding": padding, "vectors": lab.vectors}
        row = Row(task=task, model="trend", settings=shown, metric="", n_configurations=len(own))
        scores = [_scores(setting.w, setting.s) for setting in own]
        for by, spans in _TRENDS[swept].items():
            numbers = np.array([of[by] for of in scores])
            for span in spans:
                rows += trend_rows(row, by, numbers, span, both)
        if swept == "symmetry":
            held = np.array([of["locality"] for of in scores]).round(3)
            even = np.array([setting.s == 1 for setting in own])
            rows += gain_of_symmetry(row, held, even, both)
    return rows


def trend_rows(
    row: Row, by: str, numbers: Numbers, span: tuple[float, float], scores: Sequence[Scores]
) -> list[Row]:
    """Slope and rank correlation of scores (test, validation) by numbers within a span.

    None if the numbers are all one: settings of the same locality have it but for rounding.
    """
    inside = (numbers >= span[0]) & (numbers <= span[1])
    x = numbers[inside]
    if len(x) < 2 or np.ptp(x) < 1e-6:
        return []
    settings = {**row.settings, "by": by, "over": f"{x.min():.2g} to {x.max():.2g}"}
    rows = []
    for name, measure in (("slope", _slope), ("spearman", _spearman)):
        own = replace(row, settings=settings, metric=f"position-{name}")
        test, validation = ([measure(x, y[inside]) for y in part] for part in scores)
        rows.append(row_over_seeds(own, values=test, validations=validation))
    return rows


def gain_of_symmetry(
    row: Row, held: Numbers, even: np.ndarray, scores: Sequence[Scores]
) -> list[Row]:
    """Scores at the even setting less the mean of the others, for each locality that is held."""
    rows = []
    for value in np.unique(held):
        one, others = (held == value) & even, (held == value) & ~even
        test, validation = (part[:, one].mean(1) - part[:, others].mean(1) for part in scores)
        settings = {**row.settings, "locality": float(value)}
        own = replace(row, settings=settings, metric="minus-asymmetric")
        rows.append(row_over_seeds(own, values=test.tolist(), validations=validation.tolist()))
    return rows


def _slope(x: Numbers, y: Numbers) -> float:
    apart = x - x.mean()
    return float(apart @ (y - y.mean()) / (apart @ apart))


def _spearman(x: Numbers, y: Numbers) -> float:
    """The rank correlation; 0 where one of the two is constant."""
    a, b = (rankdata(own) - (len(own) + 1) / 2 for own in (x, y))
    mass = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / mass if mass else 0.0
