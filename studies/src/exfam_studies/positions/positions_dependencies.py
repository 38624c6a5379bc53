"""Which attention heads find dependencies: Table A3 of locality and symmetry.

The head of each relation is chosen on the development part of the English Web Treebank and scored
on the test part; beside them the best fixed offset, which is what attention to positions alone can
reach. "masked-lm" are models of our own (see `masked_lms`), whose attention is taken as it is, by
content alone and by position alone. "accuracy-mean" is over relations alike, "accuracy" over
dependencies; "low" and "high" hold 95 % of accuracies when sentences are redrawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from exfam.language.networks.masked_lm import ATTENTION_TERMS
from exfam_studies.common.encoders import packaged_encoder
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.positions import dependencies
from exfam_studies.positions.dependencies import DependencyHits, DependencyScore
from exfam_studies.positions.masked_lms import fit_masked_lm, row_parameters
from exfam_studies.positions.parses import DependencyParse, english_parses

TASKS = ("offset", "minilm", "masked-lm")
PLOTTED: dict[str, None] = {"accuracy": None}
# The encodings of our own models.
PROBED = ("learned", "tupe", "relative", "attenuated-table")
LEAST_EDGES = 20
FURTHEST = 12
FAST_SENTENCES = 40
# Distance -> how far apart the two words are.
_DISTANCES: Mapping[str, tuple[int, int | float]] = {
    "all": (0, np.inf), "short": (0, 4), "long": (5, np.inf),
}  # fmt: skip
_Read = Callable[[str], list[DependencyParse]]
parameters = row_parameters


def run(options: Options) -> list[Row]:
    """Choose and score the predictors of the wanted tasks."""
    most = FAST_SENTENCES if options.fast else None
    read: _Read = cache(lambda part: english_parses(part)[:most])
    jobs = [
        Job("offset", partial(_rows, "offset", dependencies.offset_hits, read)),
        Job("minilm", partial(_encoder_rows, read)),
    ]
    for name in PROBED:
        jobs.append(Job(f"masked-lm {name}", partial(_own_rows, name, read, options)))
    return gather([job for job in jobs if options.wants(job.label.split()[0])])


def _encoder_rows(read: _Read) -> list[Row]:
    encoder = packaged_encoder()
    if encoder is None:
        return [Row(task="all", model="minilm", metric="accuracy", note="not installed")]
    return _rows("minilm", partial(dependencies.attention_hits, encoder), read)


def _own_rows(encoding: str, read: _Read, options: Options) -> list[Row]:
    model = fit_masked_lm("small", encoding, seed=0, options=options)
    encoder = model.encoder()

    @cache
    def fitting(part: str) -> list[DependencyParse]:
        """What the model was fitted to positions of, though some encodings have no last one."""
        coded = encoder.subwords.encode([list(parse.words) for parse in read(part)])
        pairs = zip(read(part), coded, strict=True)
        return [parse for parse, own in pairs if len(own.codes) <= model.length - 2]

    rows = []
    for term in ATTENTION_TERMS:
        find = partial(dependencies.attention_hits, replace(encoder, term=term))
        rows += [replace(row, n_seeds=1) for row in _rows(f"{encoding}-{term}", find, fitting)]
    return rows


def _rows(
    model: str, find: Callable[[list[DependencyParse]], DependencyHits], read: _Read
) -> list[Row]:
    """Rows of all dependencies, of short and of long ones, each with predictors of their own."""
    dev, test = (find(read(part)) for part in ("dev", "test"))
    rows = []
    for distance, limits in _DISTANCES.items():
        own_dev, own = (hits.apart(*limits) for hits in (dev, test))
        chosen = dependencies.best_predictors(own_dev)
        if not np.isin(own.relation, list(chosen)).any():
            continue
        scores = dependencies.score_predictors(own, chosen)
        held = dependencies.score_predictors(own_dev, chosen)
        for metric, by_edges in (("accuracy", True), ("accuracy-mean", False)):
            row = Row(task=distance, model=model, metric=metric, value=_mean(scores, by_edges))
            rows.append(replace(row, validation=_mean(held, by_edges)))
        if distance == "all":
            rows += _relation_rows(model, scores, held)
            rows += [
                Row(task=f"distance-{apart}", model=model, metric="accuracy", value=value)
                for apart, value in dependencies.distance_accuracy(test, chosen).items()
                if apart <= FURTHEST
            ]
    return rows


def _relation_rows(
    model: str, scores: list[DependencyScore], held: list[DependencyScore]
) -> list[Row]:
    validation = {score.relation: score.accuracy.mean for score in held}
    return [
        Row(
            task=f"relation-{score.relation}",
            model=model,
            settings={
                "predictor": score.predictor,
                "dependencies": score.n_edges,
                **interval_settings(score.accuracy),
            },
            metric="accuracy",
            value=score.accuracy.mean,
            validation=validation[score.relation],
        )
        for score in scores
        if score.n_edges >= LEAST_EDGES
    ]


def _mean(scores: list[DependencyScore], by_edges: bool) -> float:
    weights = [score.n_edges if by_edges else 1 for score in scores]
    return float(np.average([score.accuracy.mean for score in scores], weights=weights))
