"""A small field with known dependence, and a tiny estimator of every kind, fitted once."""

import contextlib
import copy

import numpy as np
import pandas as pd
import pytest

from estimator_cases import random_weights
from exfam.checks import ExfamWarning
from exfam.estimator.registry import class_of, kinds_of
from exfam.fields.data import read_field

N_SITES, N_DAYS = 5, 12
SITES = [f"s{k}" for k in range(N_SITES)]
PLACES = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.0], [3.0, 1.0], [4.5, 0.0]])
COLUMNS = {
    "time": "day",
    "site": "site",
    "coordinates": ["x", "y"],
    "value": "v",
    "metric": "euclidean",
}
TRAINING = {"max_epochs": 2, "batch_size": 4, "progress": False}
TINY = {
    "field-efa": {
        "base": "none", "embed_dim": 8, "n_heads": 2, "head_dim": 4, "feed_forward_dim": 8,
        "head_hidden_dim": 4, "read_out_heads": 4, **TRAINING,
    },
    "field-latent-factor": {"dim": 4, "hidden_dim": 8, "standardize": "site", **TRAINING},
    # Penalties chosen by one split, not by six folds: with lags some slots are never known, and
    # expectation-maximization takes its time.
    "field-ridge": {"validation_fraction": 0.25},
    "field-ridge-covariance": {"validation_fraction": 0.25},
}  # fmt: skip
KINDS = kinds_of("fields")
TRAINED = ("field-efa", "field-latent-factor")
# Kinds that know the sites of training alone, and that see earlier maps.
BOUND = ("field-ridge", "field-ridge-covariance")
LAGGING = ("field-efa", "field-gaussian", "field-gaussian-process", *BOUND)
# Kinds whose predictions are Student t, and that choose what is normal themselves.
HEAVY = ("field-gaussian",)
# Conditionals of one Gaussian distribution of each map: draws one by one are draws from it.
JOINT = ("field-gaussian-process", "field-ridge-covariance")
every_kind = pytest.mark.parametrize("kind", KINDS)


def field_frame(*, n_days=N_DAYS, missing=0.15, seed=0, counts=False):
    """5 sites x 12 days: neighbors and days in a row are alike; some values are missing."""
    random = np.random.default_rng(seed)
    apart = np.linalg.norm(PLACES[:, None] - PLACES[None], axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / 2))
    z, rows = np.zeros(N_SITES), []
    for day in range(n_days):
        z = 0.6 * z + 0.8 * root @ random.normal(size=N_SITES)
        date = pd.Timestamp("2020-03-01") + pd.Timedelta(days=day)
        for k, name in enumerate(SITES):
            value = random.poisson(np.exp(1 + z[k])) if counts else 10 + 2 * k + (1 + k / 4) * z[k]
            rows.append((date, name, *PLACES[k], float(value)))
    frame = pd.DataFrame(rows, columns=["day", "site", "x", "y", "v"])
    frame.loc[random.random(len(frame)) < missing, "v"] = np.nan
    return frame.sample(frac=1, random_state=seed)


FRAME = field_frame()
# To fit to: without gaps the ridges need no expectation-maximization, which takes seconds.
FULL = field_frame(missing=0.0)
COUNTS = field_frame(counts=True)
GROUPS = read_field(FRAME, **COLUMNS)
SEEN = FRAME.v.notna().to_numpy()


def make(kind, **parameters):
    """A tiny estimator of the frame's columns."""
    return class_of(kind)(**{**COLUMNS, **TINY.get(kind, {}), **parameters})


_FITTED: dict = {}


def fitted(kind, *, frame=FULL, noise=True, **parameters):
    """A tiny estimator, fitted once for all tests and made random; a copy for each test."""
    key = (id(frame), kind, noise, repr(sorted(parameters.items())))
    if key not in _FITTED:
        # With the frame, so that no other frame can have its id.
        estimator = make(kind, **parameters).fit(frame)
        _FITTED[key] = (frame, random_weights(estimator, scale=0.3) if noise else estimator)
    return copy.deepcopy(_FITTED[key][1])


def seasonal(kind):
    """Parameters under which what is normal has a course of the year."""
    return {} if kind in HEAVY else {"standardize": "seasonal"}


def new_sites(kind):
    """Where the kind predicts sites that training never observed, with its warning if any."""
    if kind in BOUND:
        return pytest.warns(ExfamWarning, match="places that training observed less than twice")
    return contextlib.nullcontext()


def row_of(frame, day, site):
    """The index of a cell among the frame's rows."""
    date = pd.Timestamp("2020-03-01") + pd.Timedelta(days=day)
    (row,) = np.flatnonzero((frame.day == date) & (frame.site == site))
    return int(row)


def with_cell(frame, row, value):
    """The frame with another value in one row."""
    column = frame.v.to_numpy(copy=True)
    assert column[row] != value
    column[row] = value
    return frame.assign(v=column)


def a_day(day=3, *, missing=()):
    """One map without gaps in the order of the sites, but for those to be `missing`."""
    date = pd.Timestamp("2020-03-01") + pd.Timedelta(days=day)
    rows = FRAME[FRAME.day == date].sort_values("site").reset_index(drop=True)
    value = rows.v.fillna(12.0).to_numpy(copy=True)
    value[list(missing)] = np.nan
    return rows.assign(v=value)


def mean_and_log_sd(estimator, X):
    """Mean and log sd of every row."""
    dist = estimator.predict_dist(X)
    return np.column_stack([dist.mean, np.log(dist.sd)])


def assert_near(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
