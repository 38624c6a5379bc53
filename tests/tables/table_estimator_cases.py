"""Tables, and small estimators of them, that tests share; fitted once."""

import copy

import numpy as np
import pandas as pd
import pytest

from exfam.estimator.registry import class_of, kinds_of

SUPERVISED = ("masked-table-classifier", "masked-table-regressor")
CLASSIFIER, REGRESSOR = SUPERVISED
JOINT = "masked-table"
KINDS = kinds_of("tables")
EVERY = pytest.mark.parametrize("kind", KINDS)
WITH_RESPONSE = pytest.mark.parametrize("kind", SUPERVISED)
# Small and fixed: nothing is chosen by validation.
SMALL = {
    "base": "none",
    "ordinal": True,
    "extra_masking": 0.0,
    "embed_dim": 8,
    "n_heads": 2,
    "max_epochs": 4,
    "progress": False,
}
N_ROWS = 80


def table_frame(*, n=N_ROWS, missing=0.1, seed=0):
    """Columns of every kind, all caused by one hidden number, with missing cells."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "height": 170 + 8 * hidden + 4 * random.normal(size=n),
            "city": np.array(["Bonn", "Oslo", "Rome"])[np.clip(hidden + 1.5, 0, 2).astype(int)],
            "grade": np.clip(np.round(3 + hidden), 1, 5).astype(int),
            "member": hidden + random.normal(size=n) > 0,
            "visits": random.poisson(np.exp(0.5 * hidden)),
        }
    )
    frame = frame.astype({"grade": "Int64", "member": "boolean", "visits": "Int64"})
    return frame.mask(random.random(frame.shape) < missing), hidden


FRAME, HIDDEN = table_frame()
EMPTY = pd.DataFrame({name: [None] for name in FRAME}).astype(FRAME.dtypes)
TIERS = np.where(HIDDEN > 0.5, "high", np.where(HIDDEN > -0.5, "mid", "low"))
CLASS = pd.Series(TIERS, name="tier")
NUMBER = pd.Series(10 + 2 * HIDDEN, name="price")
RESPONSES = {CLASSIFIER: CLASS, REGRESSOR: NUMBER, JOINT: None}
COLUMN_KINDS = {"visits": "count", "grade": "ordinal"}


def make(kind, **parameters):
    """A small estimator of the frame."""
    return class_of(kind)(**{"kinds": COLUMN_KINDS, **SMALL, **parameters})


def fit(kind, X=FRAME, y=None, **parameters):
    """One epoch; the columns' kinds are guessed."""
    quick = {"max_epochs": 1, "kinds": None, **parameters}
    return make(kind, **quick).fit(X, RESPONSES[kind] if y is None else y)


_FITTED: dict = {}


def fitted(kind, **parameters):
    """A small estimator fitted to the frame, once for all tests; a copy."""
    key = (kind, repr(sorted(parameters.items())))
    if key not in _FITTED:
        _FITTED[key] = make(kind, **parameters).fit(FRAME, RESPONSES[kind])
    return copy.deepcopy(_FITTED[key])


def whole(kind, frame=FRAME):
    """The frame with the response as one more column."""
    response = RESPONSES[kind]
    return frame if response is None else frame.assign(**{response.name: response})
