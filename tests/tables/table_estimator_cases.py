"""Tables, and small estimators of them, that tests share; fitted once."""

import copy

import numpy as np
import pandas as pd

from exfam.estimator.registry import class_of, kinds_of

CLASSIFIER, REGRESSOR, JOINT = (
    "masked-table-classifier",
    "masked-table-regressor",
    "masked-table",
)
KINDS = kinds_of("tables")
SUPERVISED = (CLASSIFIER, REGRESSOR)
# Small and fixed: nothing is chosen by validation.
SMALL = {
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
CLASS = pd.Series(
    np.where(HIDDEN > 0.5, "high", np.where(HIDDEN > -0.5, "mid", "low")), name="tier"
)
NUMBER = pd.Series(10 + 2 * HIDDEN, name="price")
RESPONSES = {CLASSIFIER: CLASS, REGRESSOR: NUMBER, JOINT: None}
COLUMN_KINDS = {"visits": "count", "grade": "ordinal"}


def make(kind, **parameters):
    """A small estimator of the frame."""
    return class_of(kind)(**{"kinds": COLUMN_KINDS, **SMALL, **parameters})


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
