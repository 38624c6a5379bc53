"""What encoders know of language by content and by position: Figure A2 of locality and symmetry.

Ten probing tasks on the vectors of every layer of masked language models of our own (see
`masked_lms`), with attention as it is ("both"), by content alone and by position alone.
"shuffled-accuracy" is what the same classifier finds in labels of chance; between "low" and "high"
95 % of accuracies are when test sentences are redrawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from exfam.language.networks.masked_lm import ATTENTION_TERMS
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.positions import linguistic_data
from exfam_studies.positions.linguistic.balancing import ProbingTask
from exfam_studies.positions.linguistic.scoring import (
    PENALTIES,
    SentenceEncoder,
    hashed_words,
    length_alone,
    majority_share,
    probe_task,
)
from exfam_studies.positions.masked_lms import fit_masked_lm, row_parameters

TASKS = linguistic_data.TASKS
PLOTTED = {"accuracy": "layer"}
PROBED = ("learned", "tupe")
# Examples of a class, where there are many more than intervals of two points need.
PER_CLASS = {"SentLen": 700}
_FAST_PER_CLASS, _FAST_LINES = 12, 1500

_Read = Callable[[], dict[str, ProbingTask]]


def run(options: Options) -> list[Row]:
    """Probe for the wanted tasks."""
    wanted = [name for name in TASKS if options.wants(name)]
    read: _Read = cache(partial(_tasks, wanted, options))
    jobs = [Job("words and lengths", partial(_cheap_rows, read))]
    jobs += [
        Job(f"{encoding} {term}", partial(_model_rows, encoding, term, read, options))
        for encoding in PROBED
        for term in ATTENTION_TERMS
    ]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's language model that differ from the defaults."""
    return row_parameters(row, options) if "layer" in row.settings else {}


def _tasks(wanted: list[str], options: Options) -> dict[str, ProbingTask]:
    sizes = dict.fromkeys(wanted, _FAST_PER_CLASS) if options.fast else PER_CLASS
    # Words of WC need all of the text to be frequent enough.
    n_lines = _FAST_LINES if options.fast and "WC" not in wanted else None
    return linguistic_data.linguistic_tasks(only=wanted, per_class=sizes, n_lines=n_lines)


def _cheap_rows(read: _Read) -> list[Row]:
    rows = []
    for task in read().values():
        rows += [
            Row(task=task.name, model="examples", metric=f"count-{part}", value=float(size))
            for part, size in task.sizes.items()
        ]
        for model, encoder in (("length", length_alone), ("words", hashed_words)):
            rows += _rows(task, model, {}, encoder)
        share = majority_share(task)
        rows.append(Row(task=task.name, model="majority", metric="accuracy", value=share))
    return rows


def _model_rows(encoding: str, term: str, read: _Read, options: Options) -> list[Row]:
    model = fit_masked_lm("small", encoding, seed=0, options=options)
    encoder = model.encoder(term=term)
    rows = []
    for task in read().values():
        for layer in range(1, len(model.model_.layers) + 1):
            vectors = partial(encoder.vectors, layer=layer)
            rows += _rows(task, f"{encoding}-{term}", {"layer": layer}, vectors)
    return [replace(row, n_seeds=1) for row in rows]


def _rows(
    task: ProbingTask, model: str, settings: dict[str, Any], encoder: SentenceEncoder
) -> list[Row]:
    score = probe_task(encoder, task)
    row = Row(task=task.name, model=model, settings=settings, metric="shuffled-accuracy")
    accuracy = replace(
        row,
        settings={**settings, **interval_settings(score.accuracy)},
        metric="accuracy",
        value=score.accuracy.mean,
        validation=score.validation,
        n_configurations=len(PENALTIES),
    )
    return [accuracy, replace(row, value=score.shuffled.mean)]
