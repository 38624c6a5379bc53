"""The map from word to context vectors of skip-gram, and its square: Figure 3 of reflections.

The paper's model of 100 negatives over 15 epochs of text8 has a mean of .68 on the diagonal of Q Q
(enwik9 .79) and about 0 off it; entries near 0 may weigh more together than the diagonal. Tasks and
fits are those of "words-table2".
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.plots import histogram
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, metric_rows
from exfam_studies.common.pictures import save_picture
from exfam_studies.common.rows import Row
from exfam_studies.common.word_fits import WORD_TASKS, WordStudy, fit_words, wanted_tasks
from exfam_studies.reflections.linear_map import involution_report, partition_report

TASKS = tuple(WORD_TASKS)
_TEXT8 = {
    "reflection-squared-diagonal": 0.68,
    "reflection-squared-off-diagonal": 0.0,
    "reflection-norm-correlation": 0.76,
    "reflection-cosine-correlation": 0.77,
}
PAPER = {
    "text8": _TEXT8,
    "enwiki2014_100m": _TEXT8,
    "enwik9": {"reflection-squared-diagonal": 0.79},
}


def run(options: Options) -> list[Row]:
    """Fit skip-gram with free contexts, and report on the map between its vectors."""
    study, tasks = WordStudy(options), wanted_tasks(options)
    return gather(Job(task, partial(_rows, study, task)) for task in tasks)


def _rows(study: WordStudy, task: str) -> list[Row]:
    settings: dict[str, Any] = {"tie": None, **WORD_TASKS[task].settings(study.options)}
    kept = study.kept((task,), partial(_measure, study, settings))
    if study.options.out is not None:
        _draw(kept[0].arrays["transform"], task, study.options.out)
    rows, paper = metric_rows(study.row(task, "sgns", settings), kept), PAPER.get(study.corpus, {})
    return [replace(own, paper=paper.get(own.metric)) for own in rows]


def _measure(study: WordStudy, settings: dict[str, Any], seed: int) -> Measured:
    text = study.read()
    model = fit_words(text, settings, seed=seed, options=study.options)
    words, context = model.input_vectors_, model.output_vectors_
    report = involution_report(words, context, seed=seed)
    probability = text.vocabulary.counts / text.vocabulary.counts.sum()
    shift = float(np.log(settings["negatives"]))
    partition = partition_report(words, context, probability, n_words=1000, shift=shift)
    figures = {
        f"reflection-squared-{name.removesuffix('_mean').replace('_', '-')}": value
        for name, value in report.squared._asdict().items()
    }
    figures |= {
        "reflection-diagonal": float(np.diag(report.transform).mean()),
        "reflection-asymmetry": report.asymmetry,
        "reflection-residual": report.residual,
        "count-positive": report.signs.positive,
        "count-negative": report.signs.negative,
        "count-positive-of-product": report.product_signs.positive,
        "count-negative-of-product": report.product_signs.negative,
        "reflection-norm-correlation": report.norm_correlation,
        "reflection-cosine-correlation": report.cosine_correlation,
        "reflection-partition-mean": partition.mean,
        "reflection-partition-within": partition.within,
    }
    return Measured(figures, {"transform": report.transform.ravel()})


def _draw(flat: np.ndarray, task: str, folder: Path) -> None:
    dim = int(np.sqrt(len(flat)))
    squared, on = flat.reshape(dim, dim) @ flat.reshape(dim, dim), np.eye(dim, dtype=bool)
    for name, label, entries in (
        ("diagonal", "diagonal of Q Q", squared[on]),
        ("off-diagonal", "Q Q off the diagonal", squared[~on]),
    ):
        figure = histogram(entries, label=label, of="entries")
        save_picture(figure, folder / f"involution-{task}-{name}.png")
