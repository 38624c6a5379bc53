"""The page of `exfam explore`: first paint, answers, and what 50 browsers at once get.

    python benchmarks/explorer.py [--seconds 20] [--think 1] [--only items] [--out FILE]

Simulated baskets of 100,000 items, a table of 200 columns, a field of 1,000 stations, vectors of
100,000 words, histories of 5,000 items with a value beside each, sentences of a masked language
model; each with all its views, those of errors, maps and attention among them. The server is a
process of its own. Milliseconds of wall time on the loopback, from the question sent to the answer
read, and of the server's processor, which a loaded machine changes less. "alone": one who asks;
"of 50": of 50 who each ask what a view asks after a click, wait --think seconds and click again, a
question never asked before, for --seconds; some of their answers are compared with those to one
alone. First paint is Chromium's own, "answered" when the page has all it asked for; the median of
three loads. Bars: 1 s to the first paint, 100 ms at p95.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from explorer_pages import PAGES, Asking
from rich.console import Console
from rich.table import Table

from exfam import explore

N_ASKING = 50
LOADS, COMPARED = 3, 60
# Answered in seconds, the page saying so: no part of what many ask.
SLOW = ("joint",)

console = Console(highlight=False, width=120)


@dataclass
class Answers:
    """Milliseconds of the answers to one kind of question, to one alone and to each of many.

    `cpu`: mean milliseconds of the server's processor for an answer to one alone
    """

    page: str
    view: str
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

    `first_look`, `scored`: seconds of the first question about errors, and until all are scored
    `cpu_of_many`: mean milliseconds of the server's processor for an answer to one of many
    `wrong`: of `COMPARED` answers to many; `grown_mb`: what serving them added to the most memory
    """

    page: str
    served: float
    first_look: float | None
    scored: float | None
    paint: float | None
    answered: float | None
    cpu_of_many: float
    wrong: int
    grown_mb: float


@dataclass
class Server:
    """A page that another process serves."""

    address: str
    ready: float
    pipe: Any

    def used(self) -> tuple[float, float]:
        """Seconds of its processor so far, and its most memory in MB."""
        self.pipe.send("used")
        seconds, memory = self.pipe.recv()
        return seconds, memory


def serve(page: str, pipe: Any) -> None:
    """In a process of its own: the page, until the other end of the pipe says so."""
    model, data = PAGES[page][0]()
    start = time.perf_counter()
    with explore(model, data, open_browser=False) as served:
        pipe.send((served.address, time.perf_counter() - start))
        while pipe.recv() == "used":
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((time.process_time(), memory))


@contextmanager
def server(page: str) -> Iterator[Server]:
    spawn = multiprocessing.get_context("spawn")
    own, other = spawn.Pipe()
    process = spawn.Process(target=serve, args=(page, other))
    process.start()
    yield Server(*own.recv(), own)
    own.send("end")
    process.join()


def measured(page: str, own: Server, *, times: int) -> dict[tuple[str, str], Answers]:
    """Of one alone."""
    ask, took, cpu = Asking(own.address), defaultdict(list), defaultdict(list)
    for k in range(times):
        for view, questions in PAGES[page][1](ask, k).items():
            for name, question in questions.items():
                before, start = own.used()[0], time.perf_counter()
                ask(name, question)
                took[view, name].append(1000 * (time.perf_counter() - start))
                cpu[view, name].append(1000 * (own.used()[0] - before))
    return {
        key: Answers(page, *key, len(each), *_ends(each), round(float(np.mean(cpu[key])), 1))
        for key, each in took.items()
    }


@dataclass
class Crowd:
    """What many who ask at once got: milliseconds by view and question, and some of the answers."""

    took: dict[tuple[str, str], list[float]]
    answers: list[tuple[str, Any, Any]]

    def click(self, ask: Asking, page: str, k: int) -> None:
        """What one view asks after a click, one answer after the other."""
        views = list(PAGES[page][1](ask, k).items())
        view, questions = views[k % len(views)]
        for name, question in questions.items():
            if name not in SLOW:
                start = time.perf_counter()
                answer = ask(name, question)
                self.took[view, name].append(1000 * (time.perf_counter() - start))
                self.answers.append((name, question, answer))


def crowd(page: str, address: str, *, seconds: float, think: float) -> Crowd:
    own = Crowd(defaultdict(list), [])
    end = time.perf_counter() + seconds

    def clicks(k: int) -> None:
        ask, click = Asking(address), 1000 + k
        time.sleep(think * k / N_ASKING)
        while time.perf_counter() < end:
            own.click(ask, page, click)
            click += N_ASKING
            time.sleep(think)

    threads = [threading.Thread(target=partial(clicks, k)) for k in range(N_ASKING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return own


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
    with server(page) as own:
        paint = painted(own.address)
        alone, looked = Asking(own.address), [None, None]
        if "errors" in PAGES[page][1](alone, 0):
            looked = [_seconds(alone, "errors"), _seconds(alone, "score")]
        found = measured(page, own, times=times)
        used, memory = own.used()
        many = crowd(page, own.address, seconds=seconds, think=think)
        cpu = 1000 * (own.used()[0] - used) / max(1, len(many.answers))
        grown = round(own.used()[1] - memory, 1)
        for key, took in many.took.items():
            answers = found[key]
            answers.of_many = len(took)
            answers.p50_of_many, answers.p95_of_many = _ends(took)
        some = many.answers[:: max(1, len(many.answers) // COMPARED)]
        # The server has closed what was not used for some seconds.
        alone = Asking(own.address)
        wrong = sum(alone(name, question, indent=1) != answer for name, question, answer in some)
    opened = Opened(page, round(own.ready, 2), *looked, *paint, round(cpu, 1), wrong, grown)
    return opened, list(found.values())


def _seconds(ask: Asking, name: str) -> float:
    start = time.perf_counter()
    ask(name, {})
    return round(time.perf_counter() - start, 2)


def _ends(took: list[float]) -> list[float]:
    ends: list[float] = np.percentile(took, [50, 95]).round(1).tolist()
    return ends


def keep(chosen: argparse.Namespace, pages: list[Opened], answers: list[Answers]) -> None:
    """Write what there is so far."""
    from kept import write_kept

    facts = {"asking": N_ASKING, "seconds": chosen.seconds, "think": chosen.think}
    facts["load_average"] = os.getloadavg()[0]
    rows = [asdict(row) for row in answers]
    write_kept(chosen.out, rows, pages=[asdict(own) for own in pages], **facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--think", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=20, help="of each question to one alone")
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
        "page", "served s", "first look s", "scored s", "paint ms", "answered ms",
        "cpu ms of 50", "wrong", "more MB of 50",
    )  # fmt: skip
    for own in pages:
        first.add_row(*map(str, asdict(own).values()))
    second = Table(
        "page", "view", "question", "n", "p50", "p95", "cpu", "n of 50", "p50 of 50", "p95 of 50"
    )
    for row in answers:
        second.add_row(*map(str, asdict(row).values()))
    console.print(first)
    console.print(second)


if __name__ == "__main__":
    main()
