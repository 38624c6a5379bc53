"""Fits of word vectors that experiments share, and how the vectors are judged."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from exfam.reading.public_sets.word_pairs import word_pairs
from exfam.reading.public_sets.word_questions import word_questions
from exfam.reading.text import PreparedText
from exfam.vectors import WordVectors, evaluate_analogies, evaluate_similarity
from exfam.words import CBOW, SkipGram
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds
from exfam_studies.common.provenance import changed_parameters
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import PAPERS_TEXT, corpus_name, read_corpus

MIN_COUNT, SEEDS = 5, 3
# Metric -> set of pairs, or of questions.
_PAIRS = {
    "wordsim": "wordsim-353", "men": "men", "mturk": "mturk-287", "rare": "rare-words",
    "simlex": "simlex-999",
}  # fmt: skip
_QUESTIONS = ("google", "msr")
SETS = (*_PAIRS, *_QUESTIONS)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the paper's models share; their code steps once for 16 windows, here each is a step."""

    dim: int = 200
    window: int = 5
    negatives: int = 25
    epochs: int = 5

    def settings(self, options: Options) -> dict[str, int]:
        """As an estimator takes them; tiny in smoke runs."""
        return asdict(self) | ({"dim": 16, "epochs": 1, "negatives": 5} if options.fast else {})


# Tasks of experiments that fit the paper's models: five epochs, and the paper's own recipe.
WORD_TASKS = {"negatives-25": Recipe(), "negatives-100": Recipe(negatives=100, epochs=15)}


def wanted_tasks(options: Options) -> list[str]:
    """The tasks to run; the paper's own recipe only where it is named."""
    return [task for task in WORD_TASKS if options.wants(task, is_long=task == "negatives-100")]


def fit_words(
    text: PreparedText,
    settings: Mapping[str, Any],
    *,
    seed: int,
    options: Options,
    kind: type[SkipGram] | type[CBOW] = SkipGram,
) -> SkipGram | CBOW:
    """A model fitted by one thread: the same seed gives the same figures. Kept in `--folder`."""
    model = kind(**settings, min_count=MIN_COUNT, deterministic=True, seed=seed)
    checkpoint = None
    if options.folder is not None:
        names = [] if kind is SkipGram else [kind.kind]
        names += [f"{name}-{settings[name]}" for name in sorted(settings)]
        fits = options.folder / "fits" / corpus_name(options)
        checkpoint = fits / "-".join(names) / f"{seed:02}"
    model.fit(text, checkpoint=checkpoint)
    if model.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    return model


class WordStudy:
    """Fits of word vectors to the corpus of a run, which is read when it is first needed."""

    def __init__(self, options: Options) -> None:
        self.options, self.corpus = options, corpus_name(options)
        self.read = cache(partial(read_corpus, options, min_count=MIN_COUNT))

    def kept(self, names: tuple[str, ...], measure: Callable[[int], Measured]) -> list[Measured]:
        """What is measured of the fits of all seeds."""
        store, n_seeds = Store(self.options.folder), self.options.n_seeds(SEEDS)
        return kept_seeds(store, (self.corpus, *names), n_seeds, measure)

    def row(self, task: str, model: str, settings: Mapping[str, Any]) -> Row:
        """The head of the rows of skip-gram with these settings, which were chosen beforehand."""
        estimator = SkipGram(**settings, min_count=MIN_COUNT, deterministic=True)
        return Row(
            task=task,
            model=model,
            settings={"corpus": self.corpus, **settings, "tie": settings["tie"] or "none"},
            metric="",
            n_configurations=1,
            parameters=changed_parameters(estimator),
            note=PAPERS_TEXT.get(self.corpus, ""),
        )


def judged_fit(study: WordStudy, settings: Mapping[str, Any], seed: int) -> Measured:
    """Skip-gram fitted with one seed, and judged."""
    model = fit_words(study.read(), settings, seed=seed, options=study.options)
    return Measured(judged(model.vectors_))


def judged(vectors: WordVectors) -> dict[str, float]:
    """Rank correlations with people, and shares of analogies solved by 3CosMul, where defined.

    Metrics end in "-kept" (as the paper: a pair with an unknown word has similarity 0, a question
    with one is not solved) or "-skipped"; "coverage-" is the share that is known.
    """
    figures: dict[str, float] = {}
    for metric, name in _PAIRS.items():
        pairs = evaluate_similarity(vectors, word_pairs(name))
        figures[f"spearman-{metric}-kept"] = pairs.kept
        figures[f"spearman-{metric}-skipped"] = pairs.skipped
        figures[f"coverage-{metric}"] = pairs.coverage
    for name in _QUESTIONS:
        total = evaluate_analogies(vectors, word_questions(name), rule="3cosmul").total
        figures[f"accuracy-{name}-kept"] = total.accuracy
        figures[f"accuracy-{name}-skipped"] = total.accuracy_covered
        figures[f"coverage-{name}"] = total.coverage
    return {metric: value for metric, value in figures.items() if not math.isnan(value)}
