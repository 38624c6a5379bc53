"""Word vectors free and reflected, judged by people: Table 2 of reflections.

"WT" reflects the second half of the dimensions, "WTR" dimensions drawn: equal in distribution.
Figures end in "-kept" where pairs and questions with unknown words count, as in the paper, and in
"-skipped" where they do not. The paper's figures are of text8 or enwik9; those of MEN, very likely
of scores ranked as strings, are left out. "negatives-25" is five epochs; "negatives-100", which
`--only` must name, is the paper's fifteen.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import metric_rows
from exfam_studies.common.rows import Row
from exfam_studies.common.word_fits import SETS, WORD_TASKS, WordStudy, judged_fit, wanted_tasks

TASKS = tuple(WORD_TASKS)
# Model -> how contexts are tied.
MODELS = {"sgns": None, "sgns-wt": "reflection", "sgns-wtr": "random"}
_TEXT8 = {
    "sgns": {"wordsim": 0.681, "mturk": 0.631, "rare": 0.072, "google": 0.307, "msr": 0.286},
    "sgns-wt": {"wordsim": 0.638, "mturk": 0.642, "rare": 0.058, "google": 0.309, "msr": 0.319},
    "sgns-wtr": {"wordsim": 0.637, "mturk": 0.624, "rare": 0.057, "google": 0.314, "msr": 0.319},
}
_ENWIK9 = {
    "sgns": {"wordsim": 0.671, "mturk": 0.662, "rare": 0.213, "google": 0.558, "msr": 0.410},
    "sgns-wt": {"wordsim": 0.640, "mturk": 0.615, "rare": 0.188, "google": 0.515, "msr": 0.425},
    "sgns-wtr": {"wordsim": 0.633, "mturk": 0.639, "rare": 0.175, "google": 0.516, "msr": 0.429},
}
PAPER = {"enwiki2014_100m": _TEXT8, "text8": _TEXT8, "enwik9": _ENWIK9}
METRICS = [
    f"{'accuracy' if name in ('google', 'msr') else 'spearman'}-{name}-{how}"
    for name in SETS
    for how in ("kept", "skipped")
]
PLOTTED = dict.fromkeys(METRICS)


def run(options: Options) -> list[Row]:
    """Fit and judge all models of the wanted tasks."""
    study = WordStudy(options)
    return gather(
        Job(f"{task} {model}", partial(_rows, study, task, model))
        for task in wanted_tasks(options)
        for model in MODELS
    )


def _rows(study: WordStudy, task: str, model: str) -> list[Row]:
    settings: dict[str, Any] = {"tie": MODELS[model], **WORD_TASKS[task].settings(study.options)}
    kept = study.kept((task, model), partial(judged_fit, study, settings))
    metrics = (*METRICS, *(f"coverage-{name}" for name in SETS))
    rows = metric_rows(study.row(task, model, settings), kept, metrics)
    return [replace(own, paper=paper_figure(study.corpus, model, own.metric)) for own in rows]


def paper_figure(corpus: str, model: str, metric: str) -> float | None:
    """What the paper prints, of pairs and questions with unknown words kept."""
    if not metric.endswith("-kept"):
        return None
    return PAPER.get(corpus, {}).get(model, {}).get(metric.split("-")[1])
