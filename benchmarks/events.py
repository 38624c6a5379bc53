"""Streams of events: exact nats of times, items and values, beside simple processes.

    python benchmarks/events.py                        # the two sets of a minute
    python benchmarks/events.py --sets all --out benchmarks/results/events.json

Times: a Poisson process, a renewal process (log-normal mixture by the last item) and a Hawkes
process (exponential decays; of earthquakes, weighted by magnitude), each fitted by its exact
likelihood, and EventEFA, which mixes them by validation, with attention and without. Items: shares,
and first-order Markov with counts backed off to shares. Values: the family of EventEFA given the
item alone; of magnitudes the exponential distribution. All of them score the same events: new
streams (of earthquakes, the last fifth of the time, given the past), with the resolution named, so
that nats are of probabilities of cells. Errors are over streams, or 50 stretches of the test part
of one; differences are paired. With --out, rows of sets that are not measured anew stay.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from kept import write_kept
from rich.console import Console
from rich.table import Table

from exfam import EventEFA, Marginal
from exfam.reading.public_sets.published import find_file

SEQUENCES = "suite/sequences"
DAY, STRETCHES = 86_400, 50
console = Console(highlight=False, width=120)


@dataclass
class EventSet:
    """Training and test events; `counted`: test events that are scored, None for all."""

    train: pd.DataFrame
    test: pd.DataFrame
    columns: dict[str, Any]
    window: float
    counted: np.ndarray | None = None
    cuts: list[float] = field(default_factory=list)
    most_counted: int = 40


def by_first_time(frame: pd.DataFrame, group: str, when: str) -> tuple[Any, Any]:
    """The last 15 of 100 streams, by their first event, are for tests."""
    first = frame.groupby(group)[when].min().sort_values(kind="stable")
    train = set(first.index[: int(0.85 * len(first))])
    is_train = frame[group].isin(train)
    return frame[is_train], frame[~is_train]


def at_random(frame: pd.DataFrame, group: str, share: float) -> tuple[Any, Any]:
    """Streams by seed 0."""
    names = np.unique(frame[group])
    order = np.random.default_rng(0).permutation(len(names))
    is_train = frame[group].isin(names[order[: int(share * len(names))]])
    return frame[is_train], frame[~is_train]


def earthquakes() -> EventSet:
    frame = pd.read_csv(find_file(f"{SEQUENCES}/scedc_earthquakes.csv.gz"))
    cut = 0.8 * frame["days_since_1981"].max()
    later = (frame["days_since_1981"] > cut).to_numpy()
    columns = {"time": "days_since_1981", "value": "magnitude", "resolution": 1 / DAY}
    cuts = np.linspace(cut, frame["days_since_1981"].max() - 30, 20).tolist()
    return EventSet(frame[~later], frame, columns, 30.0, later, cuts)


def sepsis() -> EventSet:
    frame = pd.read_csv(find_file(f"{SEQUENCES}/sepsis_cases.csv.gz"))
    train, test = by_first_time(frame, "case_id", "time")
    columns = {
        "group": "case_id", "time": "time", "item": "activity", "resolution": 1 / DAY,
        "value": ["crp", "lactic_acid", "leucocytes"], "time_zone": "Europe/Amsterdam",
    }  # fmt: skip
    return EventSet(train, test, columns, 2.0)


def hospital() -> EventSet:
    frame = pd.read_csv(find_file(f"{SEQUENCES}/hospital_bpi2011.csv.gz"))
    train, test = by_first_time(frame, "case_id", "date")
    columns = {
        "group": "case_id", "time": "date", "item": "activity", "resolution": 1.0,
        "time_zone": "Europe/Amsterdam",
    }  # fmt: skip
    return EventSet(train, test, columns, 30.0, most_counted=8)


def badges() -> EventSet:
    """Of 1,500 users, by seed 0."""
    frame = pd.read_csv(find_file(f"{SEQUENCES}/stackoverflow_badges.csv.gz"))
    names = np.unique(frame["user"])
    some = np.random.default_rng(0).permutation(names)[:1500]
    frame = frame[frame["user"].isin(some)].assign(time=frame["time"] / DAY)
    train, test = at_random(frame, "user", 0.9)
    columns = {
        "group": "user", "time": "time", "item": "badge", "resolution": 1 / DAY, "time_zone": "UTC"
    }  # fmt: skip
    return EventSet(train, test, columns, 30.0, most_counted=20)


def mimic() -> EventSet:
    """Codes of two parts, those seen 20 times at least; at most 1,000 events of a patient."""
    frame = pd.read_parquet(find_file(f"{SEQUENCES}/mimic_iv_demo_meds_events.parquet"))
    frame = frame[frame["time"].notna()].sort_values(["subject_id", "time"], kind="stable")
    frame = frame.groupby("subject_id").head(1000)
    code = frame["code"].astype(str).str.split("//").str[:2].str.join("//")
    often = code.map(code.value_counts()) >= 20
    number = pd.to_numeric(frame["value"], errors="coerce")
    frame = frame.assign(code=code.where(often, "rare"), number=number)
    train, test = at_random(frame[["subject_id", "time", "code", "number"]], "subject_id", 0.8)
    columns = {
        "group": "subject_id", "time": "time", "item": "code", "value": "number",
        "resolution": 60 / DAY,
    }  # fmt: skip
    return EventSet(train, test, columns, 1.0, most_counted=8)


SETS: dict[str, Callable[[], EventSet]] = {
    "sepsis": sepsis, "earthquakes": earthquakes, "hospital": hospital, "badges": badges,
    "mimic": mimic,
}  # fmt: skip


def cpu(fit: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return fit(), time.process_time() - start


def blocks_of(data: EventSet) -> np.ndarray:
    """The stream of each test event, or its stretch."""
    group = data.columns.get("group")
    if group is not None:
        return pd.factorize(data.test[group])[0]
    n = len(data.test)
    return np.arange(n) * (STRETCHES * 5) // n


def markov(data: EventSet, *, order: int) -> np.ndarray:
    """Nats of test items by shares, or by what follows the last item, backed off to shares."""
    group, item = data.columns["group"], data.columns["item"]
    labels = np.unique(data.train[item].astype(str))
    coded = []
    for frame in (data.train, data.test):
        frame = frame.sort_values([group, data.columns["time"]], kind="stable")
        name = frame[item].astype(str)
        code = np.searchsorted(labels, name).clip(max=len(labels) - 1)
        code = np.where(labels[code] == name, code, -1)
        same = frame[group].eq(frame[group].shift()).to_numpy()
        coded.append((frame.index, code, np.where(same, np.append(-1, code[:-1]), -1)))
    (_, code, last), (index, own, before) = coded
    n = len(labels)
    share = (np.bincount(code, minlength=n) + 0.5) / (len(code) + 0.5 * n)
    pairs = np.zeros((n + 1, n))
    np.add.at(pairs, (last, code), 1.0)
    firm = 10.0
    chance = share[own]
    if order:
        chance = (pairs[before, own] + firm * chance) / (pairs[before].sum(1) + firm)
    nats = pd.Series(np.where(own < 0, np.nan, np.log(chance)), index=index)
    return nats.loc[data.test.index].to_numpy()


def value_rows(data: EventSet, model: EventEFA, column: str) -> dict[str, np.ndarray]:
    """Nats of test values given the item alone."""
    train, test = data.train[column].to_numpy(), data.test[column].to_numpy()
    if "item" not in data.columns:
        rate = 1 / (train.mean() - 2.005)
        return {"exponential": np.log(rate) - rate * (test - 2.005)}
    family = next(p.family for p in model.event_model_.values if p.column == column)
    item = data.columns["item"]
    measured = data.train[column].notna()
    named = {"group": data.columns["group"], "item": item, "value": column, "parts": "values"}
    rival = Marginal(**named, family=family, by_item=True)
    rival.fit(data.train[measured].astype({item: str}))
    out, has = np.full(len(test), np.nan), data.test[column].notna().to_numpy()
    out[has] = rival.log_prob(data.test[has].astype({item: str}))
    return {"family by item": out}


def figures(nats: np.ndarray, block: np.ndarray) -> tuple[float, float]:
    """The mean over events and its standard error over blocks."""
    held = ~np.isnan(nats)
    _, code = np.unique(block[held], return_inverse=True)
    sums, size = np.bincount(code, weights=nats[held]), np.bincount(code)
    mean = sums.sum() / size.sum()
    rest = np.square(sums - mean * size).sum() * len(size) / max(1, len(size) - 1)
    return float(mean), float(np.sqrt(rest) / size.sum())


def coverage(model: EventEFA, data: EventSet) -> float:
    """How often counts in a window are within their interval of 90 %, half-way in each stream."""
    time_of, group = data.columns["time"], data.columns.get("group")
    when = data.test[time_of]
    days = when
    if not pd.api.types.is_numeric_dtype(when):
        days = pd.to_datetime(when).to_numpy().astype("datetime64[us]").astype("int64") / 8.64e10
    frame = data.test.assign(days_=np.asarray(days, dtype=float))
    inside = []
    if group is None:
        for cut in data.cuts:
            past = frame[frame["days_"] <= cut]
            n = int(((frame["days_"] > cut) & (frame["days_"] <= cut + data.window)).sum())
            counts = model.predict_count(past, data.window, end=cut, n_draws=50)
            inside.append(counts.low[0] <= n <= counts.high[0])
        return float(np.mean(inside))
    ends = frame.groupby(group)["days_"].agg(["min", "max"])
    long_enough = ends.index[ends["max"] - ends["min"] > 2 * data.window][: data.most_counted]
    for name in long_enough:
        own = frame[frame[group] == name]
        cut = (ends.loc[name, "min"] + ends.loc[name, "max"]) / 2
        past = own[own["days_"] <= cut]
        n = int(((own["days_"] > cut) & (own["days_"] <= cut + data.window)).sum())
        counts = model.predict_count(past, data.window, end=float(cut), n_draws=50)
        inside.append(counts.low[0] <= n <= counts.high[0])
    return float(np.mean(inside)) if inside else float("nan")


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def measure(name: str) -> list[dict[str, Any]]:
    data = SETS[name]()
    counted = slice(None) if data.counted is None else data.counted
    block = blocks_of(data)[counted]
    nats: dict[str, dict[str, np.ndarray]] = {}
    seconds: dict[tuple[str, str], float] = {}
    model, took = cpu(lambda: EventEFA(**data.columns, progress=False).fit(data.train))
    parts = model.log_prob_parts(data.test)
    for part, own in parts.items():
        nats[part] = {"EventEFA": own[counted]}
        seconds[part, "EventEFA"] = took
    base, took = cpu(
        lambda: EventEFA(**data.columns, attention="none", progress=False).fit(data.train)
    )
    nats["time"]["EventEFA, base alone"] = base.log_prob_parts(data.test)["time"][counted]
    seconds["time", "EventEFA, base alone"] = took
    times = {key: own for key, own in data.columns.items() if key not in ("value", "time_zone")}
    if "item" not in data.columns:
        times["value"] = data.columns["value"]
    for base in ("poisson", "renewal", "hawkes"):
        rival = EventEFA(**times, time_base=base, attention="none", progress=False)
        rival, seconds["time", base] = cpu(lambda rival=rival: rival.fit(data.train))
        nats["time"][base] = rival.log_prob_parts(data.test)["time"][counted]
    if "item" in data.columns:
        for rival_name, order in (("shares", 0), ("Markov", 1)):
            own, seconds["item", rival_name] = cpu(lambda order=order: markov(data, order=order))
            nats["item"][rival_name] = own[counted]
    for column in set(nats) - {"time", "item"}:
        for rival_name, own in value_rows(data, model, column).items():
            nats[column][rival_name] = own[counted]
    rows = []
    for part, by_name in nats.items():
        best = max(
            (n for n in by_name if "EventEFA" not in n), key=lambda n: np.nanmean(by_name[n])
        )
        for contender, own in by_name.items():
            mean, error = figures(own, block)
            ahead = figures(by_name["EventEFA"] - own, block)
            rows.append(
                {
                    "set": name, "part": part, "model": contender, "nats": round(mean, 4),
                    "error": round(error, 4), "EventEFA ahead": round(ahead[0], 4),
                    "ahead error": round(ahead[1], 4), "best rival": contender == best,
                    "CPU s": _rounded(seconds.get((part, contender))),
                    "events": int((~np.isnan(own)).sum()),
                }
            )  # fmt: skip
    distance = model.calibration(data.test)
    mixture = model.event_model_.time.mixture
    rows.append(
        {
            "set": name, "part": "facts", "model": "EventEFA",
            "mixture": dict(zip(mixture.names, np.round(mixture.shares, 3).tolist(), strict=True)),
            "attention": str(model.gain_), "calendar": not model.event_model_.time.clock.is_plain,
            "KS": [round(x, 4) for x in (distance.distance, distance.low, distance.high)],
            "KS of even levels": round(distance.even, 4),
            "counts within 90 %": round(coverage(model, data), 3),
            "training events": len(data.train), "test events": len(block),
        }
    )  # fmt: skip
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{rows[0]['set']}: nats an event, higher is better")
    names = ("part", "model", "nats", "error", "EventEFA ahead", "ahead error", "events", "CPU s")
    for name in names:
        table.add_column(name, justify="left" if name in ("part", "model") else "right")
    for row in rows[:-1]:
        table.add_row(*(str(row[name]) for name in names))
    console.print(table)
    console.print({key: rows[-1][key] for key in rows[-1] if key not in ("set", "part", "model")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["sepsis"], choices=[*SETS, "all"])
    parser.add_argument("--out")
    arguments = parser.parse_args()
    names = list(SETS) if "all" in arguments.sets else arguments.sets
    rows = []
    if arguments.out and Path(arguments.out).exists():
        kept = json.loads(Path(arguments.out).read_text(encoding="utf-8"))["rows"]
        rows = [row for row in kept if row["set"] not in names]
    for name in names:
        own = measure(name)
        show(own)
        rows += own
        if arguments.out:
            write_kept(arguments.out, rows, seed=0)


if __name__ == "__main__":
    main()
