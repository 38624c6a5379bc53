"""Communities: presence of species at sites, given covariates and shares of the other species."""

from functools import partial

import numpy as np
import pandas as pd
from benchmarks.arena.communities.data import (
    CommunityData,
    ants,
    in_folds,
    in_space,
    published,
    split,
)
from benchmarks.arena.communities.judge import JUDGING
from benchmarks.arena.contenders.communities import boosting, ours, regressions
from benchmarks.arena.kind import Kind, Source


def simulated() -> CommunityData:
    """Ten species that answer to two covariates and to two hidden ones: for tests."""
    random = np.random.default_rng(0)
    x, hidden = random.normal(size=(2, 200, 2))
    eta = x @ random.normal(size=(2, 10)) + 1.5 * hidden @ random.normal(size=(2, 10)) - 0.5
    frame = pd.DataFrame(x, columns=["x1", "x2"])
    species = [f"species{k}" for k in range(10)]
    frame[species] = (random.logistic(size=eta.shape) < eta).astype(float)
    part = np.arange(200) // 50
    return split(frame, species, ["x1", "x2"], parts=[part < 2, part == 2, part == 3])


_FOLDS = "five folds of sites, seed 0; the fold after the tested one is for validation"

KIND = Kind(
    name="communities",
    judging=JUDGING,
    sources={
        "eucalypts": Source(read=partial(in_folds, "eucalypts"), remark=_FOLDS),
        "eucalypts_east": Source(
            read=partial(in_space, "eucalypts"), remark="tested on the fifth farthest east"
        ),
        "frogs": Source(read=partial(in_folds, "frogs"), remark=_FOLDS),
        "norberg_trees": Source(
            read=partial(published, "norberg_trees"),
            remark="the source's 600 training sites, a fifth of them for validation",
        ),
        "portal_ants_presence": Source(
            read=ants,
            remark="presence; covariates are plot, stake and year; trained on years before 2004, "
            "tested on those from 2006",
        ),
        "birds": Source(
            read=partial(in_folds, "birds", n_tests=1), remark="one of five folds of sites, seed 0"
        ),
        "simulated_communities": Source(read=simulated, remark="for tests", full=True),
    },
    contenders={**ours.CONTENDERS, **regressions.CONTENDERS, **boosting.CONTENDERS},
    reference="community",
)
