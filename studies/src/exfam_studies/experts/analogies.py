"""Analogies by sums of raw token vectors: Table 3 of bidirectional attention as experts.

Of questions-words in lower case whose four words every compared set knows. The answer is the word
nearest to b + c - a by cosine, among a set's own single words; "accuracy-shared" looks among the
words that all sets have. "cosine" is the mean cosine of b + c - a and the right answer;
"cosine-others" that with the right answers of all questions. The baseline is the word nearest to c.

"words" compares skip-gram with free and with reflected contexts and CBOW, of one pass over the same
corpus, the token embeddings of the encoder MiniLM, and what --vectors names. "masked-lm" adds a
masked language model of whole words, of a smaller vocabulary. The paper's figures are of its own
models, 9,522 questions, and other corpora. "explanation", "symmetry": see `analogy_errors`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Bool

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
    answer_by_offsets,
    common_questions,
    compared_sets,
    fit_settings,
    fitted_set,
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
# Metric -> the field of the answers that it is the mean of.
_ALONE = {"accuracy": "correct", "cosine": "cosine"}
_OFFSET = {**_ALONE, "cosine-others": "cosine_others"}
_SHARED = {"accuracy-shared": "correct"}

# Name -> which questions are of it.
Parts = Mapping[str, Bool[np.ndarray, "questions"]]


def run(options: Options) -> list[Row]:
    """Fit what has to be fitted, and put the questions of each wanted task to all sets."""
    read = cache(partial(read_corpus, options, min_count=MIN_COUNT))
    sets = cache(partial(fitted_set, read=read, options=options))
    jobs = []
    for task in filter(options.wants, TASKS[:2]):
        jobs.append(Job(task, partial(_task_rows, task, sets, options)))
    if options.wants("explanation"):
        counted = cache(partial(word_sets, read, options))
        for model in EXPLAINED:
            rows = partial(explained_rows, model, sets, counted, options)
            jobs.append(Job(f"explanation {model}", rows))
    if options.wants("symmetry"):
        jobs.append(Job("symmetry", partial(symmetry_rows, read, options)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """How the vectors of a row were fitted; nothing of an encoder or a file that was given."""
    model = row.model.removesuffix("-c-alone")
    if model not in FITTED:
        return {}
    return {"estimator": FITTED[model].__name__, **fit_settings(model, options)}


def _task_rows(task: str, sets: Callable[[str], VectorSet], options: Options) -> list[Row]:
    models = [model for model in FITTED if model != MASKED_LM or task == "masked-lm"]
    every = compared_sets(map(sets, models), options.vectors)
    known = [own for own in every if own.vectors]
    # Seeds of a model have the same words, so that the first stands for all.
    first = [own.vectors[0] for own in known]
    questions, shared = common_questions(first, word_questions("google")), words_in_common(first)
    rows = _question_rows(task, questions)
    for own, cut in zip(known, shared, strict=True):
        rows += _set_rows(task, own, cut, questions)
    for own in (own for own in every if not own.vectors):
        rows.append(Row(task=task, model=own.model, metric="accuracy-overall", note=own.note))
    for model, metrics in PAPER.items():
        row = Row(task=task, model=f"paper's {model}", metric="", note="of its own questions")
        for metric, figures in metrics.items():
            for name, figure in zip(TOTALS, figures, strict=True):
                rows.append(replace(row, metric=f"{metric}-{name}", paper=figure))
    return rows


def _parts(questions: WordQuestions) -> tuple[Parts, Parts]:
    """Semantic and syntactic questions, of which there are any, and all; then every category."""
    category = np.array(questions.categories)
    kind = np.array([questions.kinds.get(name, "") for name in questions.categories])
    kinds = {name: kind == name for name in np.unique(kind).tolist() if name}
    categories = {name: category == name for name in dict.fromkeys(questions.categories)}
    return {**kinds, "overall": np.ones(len(kind), dtype=bool)}, categories


def _question_rows(task: str, questions: WordQuestions) -> list[Row]:
    (kinds, categories), row = _parts(questions), Row(task=task, model="questions", metric="")
    rows = [
        replace(row, metric=f"count-{name}", value=float(np.sum(kinds.get(name, 0))), paper=paper)
        for name, paper in zip(TOTALS, PAPER_QUESTIONS, strict=True)
    ]
    row = replace(row, task=f"{task}-categories")
    return rows + [
        replace(row, metric=f"count-{name}", value=float(own.sum()))
        for name, own in categories.items()
    ]


def _set_rows(
    task: str, own: VectorSet, shared: WordVectors, questions: WordQuestions
) -> list[Row]:
    """Totals, among shared words too, the baseline, then categories, each over the seeds."""
    answers = [answer_by_offsets(vectors, questions) for vectors in own.vectors]
    common = [words_in_common([vectors, shared])[0] for vectors in own.vectors]
    among = [answer_by_offsets(vectors, questions) for vectors in common]
    near = [answer_by_offsets(vectors, questions, c_alone=True) for vectors in own.vectors]
    row = Row(task=task, model=own.model, settings=own.settings, metric="", n_configurations=1)
    shown = replace(row, settings={**own.settings, "among": len(shared)})
    alone = replace(row, model=f"{own.model}-c-alone")
    of_category = replace(row, task=f"{task}-categories", settings={})
    kinds, categories = _parts(questions)
    return [
        row_over_seeds(
            replace(row, metric=f"{metric}-{name}"),
            values=[float(getattr(seed, field)[chosen].mean()) for seed in seeds],
            cpu_seconds=own.cpu_seconds,
        )
        for row, seeds, metrics, parts in (
            (row, answers, _OFFSET, kinds),
            (shown, among, _SHARED, kinds),
            (alone, near, _ALONE, kinds),
            (of_category, answers, _ALONE, categories),
        )
        for metric, field in metrics.items()
        for name, chosen in parts.items()
    ]
