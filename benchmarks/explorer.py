"""The page of `exfam explore`: how long answers take, and what many who ask at once get.

    python benchmarks/explorer.py [--seconds 60] [--out FILE]

Milliseconds of wall time on the loopback, from the question sent to the answer read: simulated
baskets of 100,000 items, a table of 200 columns, a field of 1,000 stations. The last table is of 50
who ask at once, each its own questions, whose answers are compared with those to one alone.
"""

import argparse
import json
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from exfam import EFA, FieldGaussian, MaskedTable, explore
from exfam.groups import Groups
from exfam.simulators import FieldSettings, simulate_field

N_ITEMS, N_COLUMNS, N_STATIONS, N_ASKING = 100_000, 200, 1_000, 50
TIMES = 40

console = Console(highlight=False, width=110)


@dataclass
class Answers:
    """Milliseconds of the answers to one kind of question."""

    page: str
    question: str
    n: int
    p50: float
    p95: float


class Asking:
    """A connection that stays open, as a browser's does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.connection = HTTPConnection(str(parts.hostname), parts.port)
        self.path = parts.path

    def __call__(self, name: str, question: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", f"{self.path}ask/{name}", json.dumps(question), headers)
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        return answer


def items() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    lengths = random.integers(3, 12, 4_000)
    stop = np.cumsum(lengths)
    item = (N_ITEMS * random.random(stop[-1]) ** 2).astype(np.int64)
    labels = np.array([f"item {k:06}" for k in range(N_ITEMS)], dtype=object)
    groups = Groups(start=stop - lengths, stop=stop, item=item, vocabulary={"item": labels})
    model = EFA(attention="none", support="none", progress=False, validation_fraction=0.05)
    return model.fit(groups), groups


def rows() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(400, 6))
    numbers = hidden @ random.normal(size=(6, N_COLUMNS)) + random.normal(size=(400, N_COLUMNS))
    frame = pd.DataFrame(numbers, columns=[f"column {k}" for k in range(N_COLUMNS)])
    return MaskedTable(fast=True, progress=False).fit(frame), frame


def stations() -> tuple[Any, Any]:
    field = simulate_field(N_STATIONS, 40, settings=FieldSettings(season=0.0), seed=0)
    frame = field.frame.to_pandas()
    columns = {"time": "time", "site": "site", "value": "value"}
    model = FieldGaussian(**columns, coordinates=["latitude", "longitude"]).fit(frame)
    return model, frame


def item_questions(_: Asking, k: int) -> dict[str, Any]:
    random = np.random.default_rng(k)
    context = random.integers(0, N_ITEMS, 6).tolist()
    item = int(random.integers(N_ITEMS))
    return {
        "search": {"text": f"{k:02}"},
        "next": {"items": context, "before": context[:-1], "also": [item]},
        "why": {"items": context, "item": item},
        "raise": {"items": context, "item": item},
        "related": {"item": item},
    }


def row_questions(ask: Asking, k: int) -> dict[str, Any]:
    cells = ask("row", {"index": k % 400})["cells"]
    name = f"column {k % N_COLUMNS}"
    return {
        "row": {"index": k % 400},
        "answer": {"cells": {**cells, name: 0.5}},
        "why": {"cells": cells, "column": name},
    }


def station_questions(_: Asking, k: int) -> dict[str, Any]:
    changed = {"time": k % 40, "changes": {str(k): None}}
    return {
        "map": changed,
        "grid": changed,
        "why": {**changed, "element": k + 1},
        "course": {"site": k, "time": k % 40},
    }


PAGES: dict[str, tuple[Callable[[], Any], Callable[[Asking, int], dict[str, Any]]]] = {
    "items": (items, item_questions),
    "row": (rows, row_questions),
    "stations": (stations, station_questions),
}


def measured(page: str, address: str, questions: Any) -> list[Answers]:
    ask, took = Asking(address), {}
    for k in range(TIMES):
        for name, question in questions(ask, k).items():
            start = time.perf_counter()
            ask(name, question)
            took.setdefault(name, []).append(1000 * (time.perf_counter() - start))
    return [
        Answers(page, name, len(own), *np.percentile(own, [50, 95]).round(1).tolist())
        for name, own in took.items()
    ]


def crowd(address: str, seconds: float) -> dict[str, Any]:
    """Many who ask at once: how many answers, how long they took, how many differ from alone."""
    alone = Asking(address)
    questions = [item_questions(alone, k)["next"] for k in range(N_ASKING)]
    expected = [alone("next", question) for question in questions]
    took: list[float] = []
    wrong = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def asks(k: int) -> None:
        nonlocal wrong
        ask = Asking(address)
        while time.perf_counter() < end:
            start = time.perf_counter()
            wrong += ask("next", questions[k]) != expected[k]
            took.append(1000 * (time.perf_counter() - start))

    end = time.perf_counter() + seconds
    threads = [threading.Thread(target=asks, args=(k,)) for k in range(N_ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p50, p95 = np.percentile(took, [50, 95]).round(1).tolist()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "answers": len(took),
        "wrong": wrong,
        "p50": p50,
        "p95": p95,
        "grown_mb": round(grown, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", choices=PAGES, action="append")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found: list[Answers] = []
    together = None
    for page in chosen.only or PAGES:
        make, questions = PAGES[page]
        model, data = make()
        start = time.perf_counter()
        with explore(model, data, open_browser=False) as served:
            console.print(f"{page}: opened in {time.perf_counter() - start:.1f} s")
            found += measured(page, served.address, questions)
            if page == "items":
                together = crowd(served.address, chosen.seconds)
    table = Table("page", "question", "n", "p50 ms", "p95 ms")
    for row in found:
        table.add_row(*map(str, asdict(row).values()))
    console.print(table)
    console.print(f"{N_ASKING} at once for {chosen.seconds:.0f} s: {together}")
    if chosen.out:
        from kept import write_kept

        write_kept(chosen.out, [asdict(row) for row in found], crowd=together)


if __name__ == "__main__":
    main()
