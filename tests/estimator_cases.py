"""Frames and tiny estimators that the estimator tests share."""

import copy
import itertools

import numpy as np
import pandas as pd
import torch

from exfam.estimator.registry import class_of, kinds_of
from model_cases import generator, randomize

# Estimators that leave values out of account.
ITEMS_ONLY = ("popularity", "item-knn", "ease")
KINDS = tuple(kind for kind in kinds_of("groups") if kind not in ITEMS_ONLY)
COLUMNS = {"group": "user", "item": "movie", "value": "stars"}
SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 1, "head_hidden_dim": 4}
TRAINING = {"max_epochs": 2, "batch_size": 4, "progress": False}
TINY = {
    "efa": {"family": "gaussian", **SIZES, **TRAINING},
    "latent-factor": {"dim": 4, **TRAINING},
    "marginal": {},
    **{kind: {} for kind in ITEMS_ONLY},
}
DIRECTIONS = ("bidirectional", "causal")
# Every estimator of items and values, in both directions.
CASES = list(itertools.product(KINDS, DIRECTIONS))
TRAINED = ("efa", "latent-factor")
WITH_ITEMS = ("efa", "latent-factor", "marginal")


def make(kind, **parameters):
    """A tiny estimator of the frame's columns."""
    chosen = {**COLUMNS, **TINY[kind], "unknown": "unk", **parameters}
    if kind in ITEMS_ONLY:
        del chosen["value"]
    if chosen.get("direction") == "causal":
        chosen = {"order": "rows", **chosen}
    return class_of(kind)(**chosen)


def ratings(*, n_users=12, n_movies=6, seed=0, repeats=False, shuffle=True, least=1):
    """Movies rated 1 to 5 with gaps, in shuffled rows; no movie twice unless `repeats`."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        n = random.integers(least, n_movies)
        for day, movie in enumerate(random.choice(n_movies, size=n, replace=repeats)):
            rows.append((f"u{user}", "abcdefghij"[movie], random.integers(1, 6), day))
    frame = pd.DataFrame(rows, columns=["user", "movie", "stars", "day"])
    frame["genre"] = frame["movie"].map(dict(zip("abcdefghij", "xyxyxyxyxy", strict=True)))
    frame["gap"] = random.normal(size=len(frame))
    frame["age"] = frame["user"].str[1:].astype(float)
    frame["stars"] = frame["stars"].astype(float)
    return frame.sample(frac=1, random_state=seed) if shuffle else frame


def random_weights(estimator, *, seed=0, scale=0.5):
    """The fitted estimator with noise on every parameter: nothing is zero by training's mercy."""
    source = generator(seed)
    for member in estimator.members_:
        randomize(member, source, scale=scale)
    return estimator


def same_bits(estimator, other):
    pairs = zip(estimator.members_, other.members_, strict=True)
    states = [(a.state_dict(), b.state_dict()) for a, b in pairs]
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in states
    )


_FITTED: dict = {}


def fitted_on(frame, kind, *, noise=0.0, **parameters):
    """A fitted tiny estimator, fitted once for all tests; a copy, so that each may change it."""
    key = (id(frame), kind, noise, repr(sorted(parameters.items())))
    if key not in _FITTED:
        estimator = make(kind, **parameters).fit(frame)
        if noise and kind in TRAINED:
            random_weights(estimator, scale=noise)
        # With the frame, so that no other frame can have its id.
        _FITTED[key] = (frame, estimator)
    return copy.deepcopy(_FITTED[key][1])
