"""Rivals of `EventEFA`: shares and Markov chains of items, boosted trees on recency features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

N_BINS, MOST_SPELLS, MOST_CLASSES, LEAST_OF_CLASS, FIRM = 15, 20_000, 24, 100, 10.0


@dataclass
class Rows:
    """Events in order, with what is known of each before it comes.

    `wait`: in days, NaN for a first event; `last`, `code`: items of the event before and of the
    event, -1 for none; `ends`: the last event of each stream, and how long nothing came after it
    """

    index: pd.Index
    wait: np.ndarray
    last: np.ndarray
    code: np.ndarray
    features: np.ndarray
    after: np.ndarray
    ends: tuple[np.ndarray, np.ndarray]


def days_of(column: pd.Series) -> np.ndarray:
    """Days since 1970 of dates, numbers as they are."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    moments = pd.to_datetime(column).to_numpy().astype("datetime64[us]")
    return moments.astype("int64") / 86_400e6


def rows_of(frame: pd.DataFrame, columns: dict[str, Any], labels: np.ndarray) -> Rows:
    """Events with features: the last waits and items, how many there were, hour, values."""
    group = columns.get("group")
    frame = frame.assign(
        days_=days_of(frame[columns["time"]]), stream_=0 if group is None else frame[group]
    ).sort_values(["stream_", "days_"], kind="stable")
    streams = frame.groupby("stream_", sort=False)
    cell = columns.get("resolution") or 0.0
    day = np.floor(frame["days_"].to_numpy() / cell + 1e-6) * cell
    first = ~frame["stream_"].duplicated().to_numpy()
    wait = np.where(first, np.nan, np.diff(day, prepend=np.nan))
    code = np.full(len(frame), -1)
    if "item" in columns:
        name = frame[columns["item"]].astype(str).to_numpy()
        code = np.searchsorted(labels, name).clip(max=len(labels) - 1)
        code = np.where(labels[code] == name, code, -1)
    number = streams.cumcount().to_numpy()

    def before(numbers: np.ndarray, by: int) -> np.ndarray:
        """Of the event so many before, NaN where there is none in the stream."""
        moved = np.full(len(numbers), np.nan)
        moved[by:] = numbers[: len(numbers) - by]
        return np.where(number >= by, moved, np.nan)

    log_wait = np.log(np.maximum(wait, cell / 2 or 1e-9))
    recent = pd.Series(log_wait).groupby(frame["stream_"].to_numpy()).rolling(10, 1).mean()
    seen = [log_wait, before(log_wait, 1), before(log_wait, 2), recent.to_numpy(), number]
    seen += [code, before(code, 1), before(code, 2), (day * 24) % 24, np.floor(day) % 7]
    for column in np.atleast_1d(columns.get("value", [])):
        value = frame[column].astype(float)
        seen += [value.to_numpy(), streams[column].cummax().to_numpy()]
    after = np.column_stack([np.asarray(own, dtype=float) for own in seen])
    features = np.column_stack([before(own, 1) for own in after.T])
    last = np.where(first, -1, np.append(-1, code[:-1]))
    ends = np.flatnonzero(np.append(first[1:], True))
    open_for = np.zeros(len(ends))
    if "end" in columns:
        until = days_of(frame[columns["end"]])[ends]
        open_for = np.maximum(until - day[ends], 0.0)
    return Rows(frame.index, wait, last, code, features, after, (ends, open_for))


def markov(train: Rows, test: Rows, *, order: int, n: int) -> pd.Series:
    """Nats of test items by shares, or by what follows the last item, backed off to shares."""
    share = (np.bincount(train.code, minlength=n) + 0.5) / (len(train.code) + 0.5 * n)
    chance = share[test.code]
    if order:
        pairs = np.zeros((n + 1, n))
        np.add.at(pairs, (train.last, train.code), 1.0)
        own = pairs[test.last]
        chance = (pairs[test.last, test.code] + FIRM * chance) / (own.sum(1) + FIRM)
    return pd.Series(np.where(test.code < 0, np.nan, np.log(chance)), index=test.index)


def boosted_items(train: Rows, test: Rows, *, n: int) -> pd.Series:
    """Nats of items by boosted trees given the time: frequent ones apart, the others by shares."""
    size = np.bincount(train.code, minlength=n) + 0.5
    often = np.argsort(-size, kind="stable")[:MOST_CLASSES]
    often = np.sort(often[size[often] > LEAST_OF_CLASS])
    label = np.full(n, len(often))
    label[often] = np.arange(len(often))
    inside = np.ones(n)
    rare = label == len(often)
    inside[rare] = size[rare] / size[rare].sum() if rare.any() else 1.0
    x, z = (np.column_stack([rows.features, rows.wait]) for rows in (train, test))
    some = np.random.default_rng(0).permutation(len(x))[:MOST_SPELLS]
    model = HistGradientBoostingClassifier(max_iter=60, early_stopping=True, random_state=0)
    some = some[train.code[some] >= 0]
    model.fit(x[some], label[train.code[some]])
    chances = np.full((len(z), len(often) + 1), 1e-6)
    chances[:, model.classes_] += model.predict_proba(z)
    chances /= chances.sum(1, keepdims=True)
    own = chances[np.arange(len(z)), label[test.code]] * inside[test.code]
    return pd.Series(np.where(test.code < 0, np.nan, np.log(own)), index=test.index)


@dataclass
class _Waits:
    """Spells: what is known where they begin, their ends, whether an event ended them."""

    features: np.ndarray
    wait: np.ndarray
    is_event: np.ndarray


def _waits(rows: Rows) -> _Waits:
    has = ~np.isnan(rows.wait)
    ends, open_for = rows.ends
    ends, open_for = ends[open_for > 0], open_for[open_for > 0]
    features = np.concatenate([rows.features[has], rows.after[ends]])
    wait = np.concatenate([rows.wait[has], open_for])
    return _Waits(features, wait, np.arange(len(wait)) < has.sum())


def boosted_waits(train: Rows, test: Rows, *, cell: float) -> tuple[pd.Series, np.ndarray]:
    """Nats of times by a discretised hazard, ties first, of boosted trees; and of open ends.

    Bins are quantiles of training waits; within one, waits are even on a log scale.
    """
    known = _waits(train)
    waits = known.wait[known.is_event & (known.wait > 0)]
    edges = np.unique(np.quantile(waits, np.arange(1, N_BINS) / N_BINS))
    edges = np.concatenate([[-1.0, 0.0], edges, [max(known.wait.max(), waits.max()) * 4]])
    some = np.random.default_rng(0).permutation(len(known.wait))[:MOST_SPELLS]
    row, step, hit = _periods(known, edges, some)
    model = HistGradientBoostingClassifier(max_iter=120, early_stopping=True, random_state=0)
    model.fit(np.column_stack([known.features[row], step]), hit)
    asked = _waits(test)
    steps = np.tile(np.arange(len(edges) - 1), len(asked.wait))
    x = np.column_stack([np.repeat(asked.features, len(edges) - 1, axis=0), steps])
    hazard = model.predict_proba(x)[:, 1].reshape(len(asked.wait), -1).clip(1e-6, 1 - 1e-6)
    gone = np.column_stack([np.zeros(len(hazard)), np.log1p(-hazard).cumsum(1)])
    last = np.searchsorted(edges, asked.wait, side="left").clip(1, len(edges) - 1) - 1
    one, wait = np.arange(len(last)), asked.wait

    def log_of(days: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(days, cell / 2))

    low, high, is_tie = edges[last], edges[last + 1], asked.wait <= 0
    width = np.where(is_tie, 1.0, log_of(high) - log_of(low))
    inside = np.where(is_tie, 1.0, (log_of(wait) - log_of(wait - cell)) / width)
    passed = np.where(is_tie, 0.0, (log_of(wait) - log_of(low)) / width).clip(0, 1)
    of_event = gone[one, last] + np.log(hazard[one, last]) + np.log(inside)
    of_end = gone[one, last] + np.log1p(-hazard[one, last] * passed)
    nats = np.where(asked.is_event, of_event, of_end)
    out = np.full(len(test.wait), np.nan)
    out[~np.isnan(test.wait)] = nats[asked.is_event]
    ends, open_for = test.ends
    survived = np.zeros(len(ends))
    survived[open_for > 0] = nats[~asked.is_event]
    return pd.Series(out, index=test.index), survived


def _periods(spells: _Waits, edges: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, ...]:
    """A row for each bin that each spell enters, and whether the event came in it."""
    last = np.searchsorted(edges, spells.wait[some], side="left").clip(1, len(edges) - 1) - 1
    # Bins that an open end passes wholly.
    n = np.where(spells.is_event[some], last + 1, last)
    row, start = np.repeat(some, n), np.repeat(n.cumsum() - n, n)
    step = np.arange(len(row)) - start
    return row, step, (step == np.repeat(last, n)) & np.repeat(spells.is_event[some], n)
