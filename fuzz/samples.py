"""Small data for every kind of estimator, and small estimators of them that fit in milliseconds."""

import functools
import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from exfam.estimator.registry import class_of, kinds_of
from exfam.vectors import WordVectors
from fuzz.verdicts import check_finite

SLICES = ("groups", "fields", "tables", "communities", "events", "texts", "sentences")
_TRAINED = {"max_epochs": 1, "batch_size": 8, "progress": False}
_TEXT = {"dim": 4, "min_count": 1, "epochs": 1, "threads": 1, "progress": False}
_NETWORK = {"embed_dim": 4, "n_heads": 2, "n_layers": 1, "feed_forward_dim": 4, **_TRAINED}
_GROUPS = {"group": "user", "item": "movie", "value": "stars"}
_FIELD = {"time": "day", "site": "site", "coordinates": ("lat", "lon"), "value": "degrees"}
_COMMUNITY = {"species": ["reed", "sedge"]}
_EVENTS = {"group": "user", "time": "day", "item": "movie", "value": "stars"}
_SMALL: dict[str, dict[str, Any]] = {
    "efa": {**_NETWORK, "head_dim": 2, "head_hidden_dim": 2},
    "latent-factor": {"dim": 2, **_TRAINED},
    "field-efa": {**_NETWORK, "head_dim": 2, "head_hidden_dim": 2, "read_out_heads": 2},
    "field-latent-factor": {"dim": 2, "hidden_dim": 4, **_TRAINED},
    "cbow": _TEXT,
    "skip-gram": _TEXT,
    "pmi-factorization": {"dim": 2, "min_count": 1},
    "lstm-language-model": {"dim": 4, "batch_size": 2, "epochs": 1, "progress": False},
    "masked-language-model": {"vocabulary_size": 60, "length": 16, **_NETWORK},
    "positional-sentence-classifier": {"n_positions": 16, **_TRAINED},
    "sentence-classifier": _TRAINED,
    "sentence-regressor": _TRAINED,
    **{
        kind: {"base": "none", **_NETWORK, "ordinal": True, "extra_masking": 0.0}
        for kind in kinds_of("tables")
    },
}


@dataclass(frozen=True)
class Sample:
    """What an estimator is fitted on: `X`, a response or None, and further arguments of `fit`."""

    X: Any
    y: Any = None
    more: dict[str, Any] = field(default_factory=dict)


def slice_of(kind: str) -> str:
    """Which sort of data an estimator takes.

    >>> slice_of("efa")
    'groups'
    """
    kinds = tuple(kinds_of(name) for name in SLICES[:5])
    for name, names in zip(SLICES, kinds, strict=False):
        if kind in names:
            return name
    return "sentences" if "sentence" in kind else "texts"


def make(kind: str, **changes: Any) -> Any:
    """A small estimator, some of its parameters changed."""
    named = {"groups": _GROUPS, "fields": _FIELD, "communities": _COMMUNITY, "events": _EVENTS}
    declared = class_of(kind).declared  # some models of groups have no values
    columns = named.get(slice_of(kind), {})
    columns = {name: column for name, column in columns.items() if name in declared}
    return class_of(kind)(**{**columns, **_SMALL.get(kind, {}), **changes})


@functools.cache
def sample_of(kind: str) -> Sample:
    """Data that the small estimator of a kind is fitted on."""
    name = slice_of(kind)
    if name in ("groups", "events"):
        return Sample(_ratings())
    if name == "fields":
        return Sample(_maps())
    if name == "communities":
        return Sample(_sites())
    if name == "tables":
        frame = _people()
        response = {"masked-table": None, "masked-table-classifier": "city"}.get(kind, "height")
        return Sample(frame) if response is None else _supervised(frame, response)
    lines = _lines()
    if name == "texts":
        return Sample(lines)
    labels = ["it" if line.endswith("it") else "car" for line in lines]
    if kind == "positional-sentence-classifier":
        return Sample(lines, labels, {"vectors": _vectors()})
    numbers = [float(len(line)) for line in lines]
    y = numbers if kind == "sentence-regressor" else labels
    return Sample(lines, y, {"encoder": _encoder()})


def fit(estimator: Any, sample: Sample) -> Any:
    """Fit, with the response where there is one."""
    if "y" not in inspect.signature(estimator.fit).parameters:
        return estimator.fit(sample.X)
    return estimator.fit(sample.X, sample.y, **sample.more)


@functools.cache
def fitted(kind: str) -> Any:
    """The small estimator of a kind fitted to its data, once for all that starts from it."""
    return fit(make(kind), sample_of(kind))


def use(estimator: Any, sample: Sample) -> None:
    """Score and predict; NonFinite for a number that is none, also in the fitted network."""
    for number, member in enumerate(getattr(estimator, "members_", [])):
        for name, tensor in member.state_dict().items():
            check_finite(f"members_[{number}].{name}", tensor.numpy())
    response = () if sample.y is None else (sample.y,)
    check_finite("score", estimator.score(sample.X, *response))
    if hasattr(estimator, "predict"):
        check_finite("predict", estimator.predict(sample.X))


def _ratings() -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = []
    for user in range(8):
        movies = random.choice(5, size=3, replace=False)
        for day, movie in enumerate(movies):
            rows.append((f"u{user}", "ABCDE"[movie], float(random.integers(1, 6)), day))
    frame = pd.DataFrame(rows, columns=["user", "movie", "stars", "day"])
    frame["genre"] = np.where(frame["movie"] < "C", "x", "y")
    frame["gap"] = random.normal(size=len(frame))
    frame["age"] = frame["user"].str[1:].astype(float)
    return frame


def _maps() -> pd.DataFrame:
    random = np.random.default_rng(0)
    n_days, n_sites = 10, 4
    site = np.tile(np.arange(n_sites), n_days)
    day = np.repeat(np.arange(n_days), n_sites)
    return pd.DataFrame(
        {
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D"),
            "site": [f"s{number}" for number in site],
            "lat": 40.0 + 2 * site,
            "lon": -3.0 + site**1.5,
            "degrees": 10 + site + np.sin(day) + random.normal(size=len(site)),
        }
    )


def _people() -> pd.DataFrame:
    random = np.random.default_rng(0)
    hidden = random.normal(size=24)
    frame = pd.DataFrame(
        {
            "height": 170 + 8 * hidden + random.normal(size=24),
            "city": np.array(["Bonn", "Oslo", "Rome"])[np.clip(hidden + 1.5, 0, 2).astype(int)],
            "grade": np.clip(np.round(3 + hidden), 1, 5),
            "member": hidden > 0,
        }
    )
    frame.loc[3, "grade"] = np.nan
    return frame


def _sites() -> pd.DataFrame:
    random = np.random.default_rng(0)
    rain = random.normal(size=24)
    frame = pd.DataFrame({"rain": rain, "soil": np.where(random.random(24) < 0.5, "clay", "sand")})
    for name in ("reed", "sedge"):
        frame[name] = (rain + random.normal(size=24) > 0).astype(float)
    frame.loc[3, "sedge"] = np.nan
    return frame


def _supervised(frame: pd.DataFrame, response: str) -> Sample:
    return Sample(frame.drop(columns=response), frame[response])


def _lines() -> list[str]:
    random = np.random.default_rng(0)
    parts = (("a man", "the dog"), ("sees", "likes"), ("a red car", "it"))
    return [" ".join(str(random.choice(part)) for part in parts) for _ in range(24)]


def _vectors() -> WordVectors:
    words = tuple(sorted({word for line in _lines() for word in line.split()}))
    numbers = np.random.default_rng(0).normal(size=(len(words), 4))
    return WordVectors(words, numbers.astype(np.float32))


def _encoder() -> Any:
    return fit(make("masked-language-model"), sample_of("masked-language-model"))
