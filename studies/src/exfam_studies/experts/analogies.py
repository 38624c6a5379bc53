"""Analogies by sums of raw token vectors: Table 3 of bidirectional attention as experts.

Of questions-words in lower case, those whose four words every compared set knows. The answer is the
word nearest to b + c - a by cosine, but for a, b and c, among a set's own single words;
"accuracy-shared" looks for it among the words that all sets have. "cosine" is the mean cosine of
b + c - a and the right answer, which does not depend on how many words there are; where vectors
point one way it is large for any answer, and "cosine-others" is that of the right answers of all
questions. The baseline of each set is the word nearest to c alone.

"words" compares skip-gram with free and with reflected contexts and CBOW, of one pass each over the
same corpus, the token embeddings of the encoder MiniLM, and what --vectors names: a file
(word2vec's, GloVe's), the folder of an encoder, or a folder of several of these. "masked-lm" adds a
masked language model of whole words, of one pass over that corpus too, whose vocabulary is smaller,
and so its questions. "tokens" are those of one pass, rare words left out. The paper's figures are
of its own models and 9,522 questions, of other corpora and larger vocabularies. "explanation" and
"symmetry": see `analogy_errors`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from exfam.reading.public_sets.word_questions import WordQuestions, word_questions
from exfam.vectors import WordVectors
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.common.word_corpus import read_corpus
from exfam_studies.common.word_fits import MIN_COUNT
from exfam_studies.experts.analogy_errors import EXPLAINED, explained_rows, symmetry_rows, word_sets
from exfam_studies.experts.analogy_sets import (
    FITTED,
    MASKED_LM,
    VectorSet,
    fitted_set,
    given_sets,
    packaged_set,
)
from exfam_studies.experts.offsets import (
    OffsetScore,
    answer_by_offsets,
    common_questions,
    single_words,
    words_in_common,
)

TASKS = ("words", "masked-lm", "explanation", "symmetry")
PLOTTED = {"accuracy-overall": None, "cosine-overall": None}
TOTALS = ("semantic", "syntactic", "overall")
PAPER = {
    "bert": {"accuracy": (0.641, 0.754, 0.727), "cosine": (0.500, 0.610, 0.584)},
    "glove": {"accuracy": (0.759, 0.692, 0.708), "cosine": (0.600, 0.610, 0.607)},
    "cbow": {"accuracy": (0.234, 0.667, 0.563), "cosine": (0.504, 0.582, 0.564)},
}
PAPER_QUESTIONS = (2278.0, 7244.0, 9522.0)
# Metric -> the score that it is.
_ALONE = {"accuracy": "accuracy", "cosine": "cosine"}
_OFFSET = {**_ALONE, "cosine-others": "cosine_others"}
_SHARED = {"accuracy-shared": "accuracy"}


@dataclass(frozen=True, eq=False)
class _Compared:
    """Sets of single words, seed by seed, and the questions that all of them know."""

    task: str
    sets: tuple[VectorSet, ...]
    shared: dict[str, WordVectors]
    questions: WordQuestions


def run(options: Options) -> list[Row]:
    """Fit what has to be fitted, and put the questions of each wanted task to all sets."""
    read = cache(partial(read_corpus, options, min_count=MIN_COUNT))
    sets = cache(partial(fitted_set, read=read, options=options))
    jobs = []
    for task in filter(options.wants, TASKS[:2]):
        models = [model for model in FITTED if model != MASKED_LM or task == "masked-lm"]
        jobs += [Job(f"{task} {model}", partial(_fit_alone, sets, model)) for model in models]
        jobs.append(Job(task, partial(_task_rows, task, models, sets, options)))
    if options.wants("explanation"):
        questions = partial(word_questions, "google")
        explain = partial(
            explained_rows,
            fitted=sets,
            sets=cache(partial(word_sets, read, options)),
            questions=questions,
            options=options,
        )
        jobs += [Job(f"explanation {model}", partial(explain, model)) for model in EXPLAINED]
    if options.wants("symmetry"):
        jobs.append(Job("symmetry", partial(symmetry_rows, read, options)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """How the vectors of a row were fitted; nothing of an encoder or a file that was given."""
    fit = FITTED.get(row.model.removesuffix("-c-alone"))
    return {} if fit is None else {"estimator": fit.estimator, **fit.settings(options)}


def _fit_alone(sets: Callable[[str], VectorSet], model: str) -> list[Row]:
    """A job of its own, so that the line of progress names the model that is fitted."""
    sets(model)
    return []


def _task_rows(
    task: str, models: Sequence[str], sets: Callable[[str], VectorSet], options: Options
) -> list[Row]:
    every = [*(sets(model) for model in models), packaged_set(), *given_sets(options.vectors)]
    compared = _compared(task, [own for own in every if own.vectors])
    rows = _question_rows(compared)
    for own in compared.sets:
        rows += _set_rows(compared, own)
    rows += [
        Row(task=task, model=own.model, metric="accuracy-overall", note=own.note)
        for own in every
        if not own.vectors
    ]
    return rows + list(_paper_rows(task))


def _compared(task: str, given: Sequence[VectorSet]) -> _Compared:
    """Seeds of a model have the same words, so that the first stands for all."""
    sets = tuple(replace(own, vectors=tuple(map(single_words, own.vectors))) for own in given)
    first = [own.vectors[0] for own in sets]
    cut = words_in_common(first)
    shared = {own.model: vectors for own, vectors in zip(sets, cut, strict=True)}
    return _Compared(task, sets, shared, common_questions(first, word_questions("google")))


def _question_rows(compared: _Compared) -> list[Row]:
    """How many questions there are, beside how many the paper had."""
    answers = answer_by_offsets(next(iter(compared.shared.values())), compared.questions)
    row = Row(task=compared.task, model="questions", metric="")
    counts = {score.category: score.n_questions for score in answers.totals}
    rows = [
        replace(row, metric=f"count-{name}", value=float(counts.get(name, 0)), paper=paper)
        for name, paper in zip(TOTALS, PAPER_QUESTIONS, strict=True)
    ]
    row = replace(row, task=f"{compared.task}-categories")
    rows += [
        replace(row, metric=f"count-{score.category}", value=float(score.n_questions))
        for score in answers.by_category
    ]
    return rows


def _set_rows(compared: _Compared, own: VectorSet) -> list[Row]:
    """Totals, among shared words too, the baseline, then categories, each over the seeds."""
    questions, shared = compared.questions, compared.shared[own.model]
    answers = [answer_by_offsets(vectors, questions) for vectors in own.vectors]
    among = [
        answer_by_offsets(words_in_common([vectors, shared])[0], questions)
        for vectors in own.vectors
    ]
    near = [answer_by_offsets(vectors, questions, c_alone=True) for vectors in own.vectors]
    row = Row(
        task=compared.task, model=own.model, settings=own.settings, metric="", n_configurations=1
    )
    rows = _score_rows(row, own, [seed.totals for seed in answers], _OFFSET)
    shown = replace(row, settings={**own.settings, "among": len(shared)})
    rows += _score_rows(shown, own, [seed.totals for seed in among], _SHARED)
    alone = replace(row, model=f"{own.model}-c-alone")
    rows += _score_rows(alone, own, [seed.totals for seed in near], _ALONE)
    row = replace(row, task=f"{row.task}-categories", settings={})
    return rows + _score_rows(row, own, [seed.by_category for seed in answers], _ALONE)


def _score_rows(
    row: Row, own: VectorSet, scores: Sequence[Sequence[OffsetScore]], metrics: Mapping[str, str]
) -> list[Row]:
    """One row a metric and category: of `scores`, one list a seed."""
    return [
        row_over_seeds(
            replace(row, metric=f"{metric}-{category[0].category}"),
            values=[getattr(score, name) for score in category],
            cpu_seconds=own.cpu_seconds,
        )
        for metric, name in metrics.items()
        for category in zip(*scores, strict=True)
    ]


def _paper_rows(task: str) -> Iterator[Row]:
    for model, metrics in PAPER.items():
        row = Row(task=task, model=f"paper's {model}", metric="", note="of its own questions")
        for metric, figures in metrics.items():
            for name, figure in zip(TOTALS, figures, strict=True):
                yield replace(row, metric=f"{metric}-{name}", paper=figure)
