"""Frames, lines and responses that an estimator is fitted on, with something wrong in them."""

from pathlib import Path

import numpy as np
import pandas as pd

from exfam.estimator.registry import REGISTRY as KINDS
from fuzz.samples import Sample, fit, fitted, make, sample_of, use
from fuzz.spoiling import spoiled_data, spoiled_frame
from fuzz.values import odd_value, pick


def prepare(folder: Path) -> list[str]:
    """All kinds; each is fitted once, for all processes."""
    for kind in KINDS:
        use(fitted(kind), sample_of(kind))
    return [*KINDS]


def attack(random: np.random.Generator, shared: list[str], folder: Path) -> None:
    """Fit a small estimator to data that are wrong, then score and predict them."""
    kind = pick(random, shared)
    sample = sample_of(kind)
    X = spoiled_data(random, sample.X) if sample.y is None or random.random() < 0.7 else sample.X
    y = sample.y
    if y is not None and (X is sample.X or random.random() < 0.3):
        y = _spoiled_response(random, y)
    spoiled = Sample(X, y, sample.more)
    use(fit(make(kind), spoiled), spoiled)


def _spoiled_response(random: np.random.Generator, y: object) -> object:
    if random.random() < 0.1:
        return odd_value(random)
    frame = spoiled_frame(random, pd.DataFrame({"response": y}))
    forms = (pd.Series, list, np.array)
    return frame if frame.shape[1] != 1 else pick(random, forms)(frame.iloc[:, 0])
