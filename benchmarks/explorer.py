"""The page of `exfam explore`: first paint, answers, and what 50 browsers at once get.

    python benchmarks/explorer.py [--seconds 60] [--think 1] [--only items] [--out FILE]

Simulated baskets of 100,000 items, a table of 200 columns, a field of 1,000 stations, vectors of
100,000 words, histories of 5,000 items with a value beside each, sentences of a masked language
model; each with all its views, those of errors, maps and attention among them. Milliseconds of wall
time on the loopback, from the question sent to the answer read. "alone": one who asks; "of 50": of
50 who each ask what a page asks after a click, wait --think seconds and click again, for
--seconds; their answers are compared with those to one alone. First paint is Chromium's own,
"answered" when the page has all it asked for; the median of five loads. "cpu": of the processor,
which a loaded machine changes less. Bars: 1 s to the first paint, 100 ms at p95.
"""

import argparse
import json
import os
import resource
import shutil
import threading
import time
from collections import defaultdict
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

from exfam import EFA, FieldGaussian, MaskedLanguageModel, MaskedTable, WordVectors, explore
from exfam.groups import Groups
from exfam.simulators import FieldSettings, simulate_field

N_ITEMS, N_COLUMNS, N_STATIONS, N_ASKING = 100_000, 200, 1_000, 50
N_HISTORY, DIM = 5_000, 100
LOADS = 5
# Asked when a name is chosen, and not at a click in or out: left out of what many ask.
ONCE = ("raise", "related")

console = Console(highlight=False, width=120)
Questions = dict[str, Any]


@dataclass
class Answers:
    """Milliseconds of the answers to one kind of question, to one alone and to each of many.

    `cpu`: mean milliseconds of the processor for an answer to one alone, of both ends
    """

    page: str
    question: str
    n: int
    p50: float
    p95: float
    cpu: float
    of_many: int = 0
    p50_of_many: float | None = None
    p95_of_many: float | None = None


@dataclass
class Opened:
    """Of a page: seconds until it is served, milliseconds of its first paint and until answered.

    `scored`: seconds of the first question about errors, which scores the data
    """

    page: str
    served: float
    scored: float | None
    paint: float | None
    answered: float | None
    wrong: int
    grown_mb: float


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


def words() -> tuple[Any, Any]:
    names = tuple(f"word {k:06}" for k in range(N_ITEMS))
    center = np.random.default_rng(0).normal(size=(N_ITEMS, DIM)).astype(np.float32)
    signs = np.where(np.arange(DIM) < DIM // 2, 1, -1).astype(np.int8)
    kinds = pd.DataFrame({"word": names, "kind": [f"kind {k % 6}" for k in range(N_ITEMS)]})
    return WordVectors(names, center, None, signs), kinds


def histories() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    user = np.repeat(np.arange(800), 12)
    item = (N_HISTORY * random.random(len(user)) ** 2).astype(np.int64)
    item[:N_HISTORY] = random.permutation(N_HISTORY)
    frame = pd.DataFrame({"user": user, "item": item, "stars": random.normal(size=len(user))})
    columns = {"group": "user", "item": "item", "value": "stars"}
    network = {"base": "none", "attention": "softmax", "max_epochs": 1, "n_layers": 2}
    model = EFA(**columns, order="rows", direction="causal", progress=False, **network)
    return model.fit(frame), None


def sentences() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    text = [" ".join(f"w{k}" for k in random.integers(0, 300, 12)) for _ in range(400)]
    model = MaskedLanguageModel(subwords="word", max_epochs=1, length=32, progress=False)
    return model.fit(text), None


def item_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    context = random.integers(0, N_ITEMS, 6).tolist()
    item = int(random.integers(N_ITEMS))
    return {
        "search": {"text": f"{k:02}"},
        "next": {"items": context, "before": context[:-1], "also": [item]},
        "why": {"items": context, "item": item},
        "raise": {"items": context, "item": item},
        "related": {"item": item},
        **word_questions(_, k),
        **error_questions(k),
    }


def history_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    typed = {
        "items": random.integers(0, N_HISTORY, 20).tolist(),
        "values": random.normal(size=20).tolist(),
    }
    head = {"layer": 1 + k % 2, "head": 1}
    return {"next": typed, "value": {**typed, "item": k}, "attention": {**typed, **head}}


def sentence_questions(_: Asking, k: int) -> Questions:
    words = np.random.default_rng(k).integers(0, 300, 20)
    text = " ".join(f"w{word}" for word in words)
    return {"attention": {"text": text, "layer": 1 + k % 4, "head": 1}}


def row_questions(ask: Asking, k: int) -> Questions:
    cells = ask("row", {"index": k % 400})["cells"]
    name = f"column {k % N_COLUMNS}"
    return {
        "row": {"index": k % 400},
        "answer": {"cells": {**cells, name: 0.5}},
        "why": {"cells": cells, "column": name},
        **error_questions(k),
        "calibration": {"column": name},
    }


def station_questions(_: Asking, k: int) -> Questions:
    changed = {"time": k % 40, "changes": {str(k): None}}
    return {
        "map": changed,
        "grid": changed,
        "why": {**changed, "element": k + 1},
        "course": {"site": k, "time": k % 40},
        **error_questions(k),
    }


def word_questions(_: Asking, k: int) -> Questions:
    random = np.random.default_rng(k)
    low, high = np.sort(random.uniform(-0.5, 0.5, (2, 2)), 0).tolist()
    # Of items the most frequent have vectors.
    a, b, c = random.choice(N_HISTORY // 5, 3, replace=False).tolist()
    return {
        "find": {"text": f"{k:02}"},
        "window": {"also": [a]} if k % 2 else {"low": low, "high": high},
        "near": {"code": a},
        "analogy": {"a": a, "b": b, "c": c},
    }


def error_questions(k: int) -> Questions:
    return {
        "errors": {"of": ("units", "parts")[k % 2], "order": ("total", "mean", "least")[k % 3]},
        "slices": {"order": ("mean", "n", "label")[k % 3]},
        "calibration": {},
    }


PAGES: dict[str, tuple[Callable[[], Any], Callable[[Asking, int], Questions]]] = {
    "items": (items, item_questions),
    "row": (rows, row_questions),
    "stations": (stations, station_questions),
    "words": (words, word_questions),
    "histories": (histories, history_questions),
    "sentences": (sentences, sentence_questions),
}


def measured(page: str, address: str, questions: Any, *, times: int) -> dict[str, Answers]:
    """Of one alone."""
    ask, took, cpu = Asking(address), defaultdict(list), defaultdict(list)
    for k in range(times):
        for name, question in questions(ask, k).items():
            start, used = time.perf_counter(), time.process_time()
            ask(name, question)
            took[name].append(1000 * (time.perf_counter() - start))
            cpu[name].append(1000 * (time.process_time() - used))
    answers = {}
    for name, own in took.items():
        p50, p95 = _ends(own)
        used_each = round(float(np.mean(cpu[name])), 1)
        answers[name] = Answers(page, name, len(own), p50, p95, used_each)
    return answers


def crowd(
    address: str, questions: Any, *, seconds: float, think: float
) -> tuple[dict[str, list[float]], int]:
    """Milliseconds by question of many at once, and how many answers differ from those to one."""
    alone = Asking(address)
    own = [
        {name: q for name, q in questions(alone, k).items() if name not in ONCE}
        for k in range(N_ASKING)
    ]
    expected = [{name: alone(name, q) for name, q in some.items()} for some in own]
    took: dict[str, list[float]] = defaultdict(list)
    wrong = 0

    def clicks(k: int) -> None:
        nonlocal wrong
        ask = Asking(address)
        time.sleep(think * k / N_ASKING)
        while time.perf_counter() < end:
            for name, question in own[k].items():
                start = time.perf_counter()
                wrong += ask(name, question) != expected[k][name]
                took[name].append(1000 * (time.perf_counter() - start))
            time.sleep(think)

    end = time.perf_counter() + seconds
    threads = [threading.Thread(target=clicks, args=(k,)) for k in range(N_ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, wrong


def painted(address: str) -> tuple[float | None, float | None]:
    """Milliseconds to the first paint and until answered, in Chromium; None without it."""
    program = shutil.which("chromium")
    if program is None:
        return None, None
    from playwright.sync_api import sync_playwright

    paints, answered = [], []
    with sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(LOADS):
            page = chromium.new_page()
            start = time.perf_counter()
            page.goto(address)
            page.wait_for_selector("main:not([aria-busy])")
            answered.append(1000 * (time.perf_counter() - start))
            entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(page.evaluate(entry))
            page.close()
        chromium.close()
    return round(float(np.median(paints)), 1), round(float(np.median(answered)), 1)


def run(page: str, *, seconds: float, think: float, times: int) -> tuple[Opened, list[Answers]]:
    make, questions = PAGES[page]
    model, data = make()
    before, start = _resident(), time.perf_counter()
    with explore(model, data, open_browser=False) as served:
        ready = time.perf_counter() - start
        paint = painted(served.address)
        scored = None
        alone = Asking(served.address)
        if "errors" in questions(alone, 0):
            start = time.perf_counter()
            alone("errors", {})
            scored = round(time.perf_counter() - start, 2)
        found = measured(page, served.address, questions, times=times)
        warm = _resident()
        took, wrong = crowd(served.address, questions, seconds=seconds, think=think)
        for name, own in took.items():
            answers = found[name]
            answers.of_many = len(own)
            answers.p50_of_many, answers.p95_of_many = _ends(own)
    grown = round(_resident() - warm, 1)
    console.print(f"{page}: {warm - before:.0f} MB more when served and asked")
    return Opened(page, round(ready, 2), scored, *paint, wrong, grown), list(found.values())


def _ends(took: list[float]) -> list[float]:
    ends: list[float] = np.percentile(took, [50, 95]).round(1).tolist()
    return ends


def _resident() -> float:
    """The most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def keep(chosen: argparse.Namespace, pages: list[Opened], answers: list[Answers]) -> None:
    """Write what there is so far."""
    from kept import write_kept

    facts = {"asking": N_ASKING, "seconds": chosen.seconds, "think": chosen.think}
    facts["load_average"] = os.getloadavg()[0]
    rows = [asdict(row) for row in answers]
    write_kept(chosen.out, rows, pages=[asdict(own) for own in pages], **facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=40, help="of each question to one alone")
    parser.add_argument("--only", choices=PAGES, action="append")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    pages, answers = [], []
    for page in chosen.only or PAGES:
        opened, found = run(page, seconds=chosen.seconds, think=chosen.think, times=chosen.times)
        pages.append(opened)
        answers += found
        if chosen.out:
            keep(chosen, pages, answers)
    first = Table(
        "page", "served s", "scored s", "paint ms", "answered ms", "wrong", "more MB of 50"
    )
    for own in pages:
        first.add_row(*map(str, asdict(own).values()))
    second = Table(
        "page", "question", "n", "p50", "p95", "cpu", "n of 50", "p50 of 50", "p95 of 50"
    )
    for row in answers:
        second.add_row(*map(str, asdict(row).values()))
    console.print(first)
    console.print(second)


if __name__ == "__main__":
    main()
