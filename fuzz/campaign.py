"""A campaign: inputs one after the other in forked processes, each within its time and memory."""

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any

import numpy as np

from fuzz.attacks import Attack
from fuzz.results import Results
from fuzz.verdicts import Verdict, judge

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Limits:
    """What one input may use: seconds of CPU, of waiting, and bytes; `chunk`: inputs a process."""

    cpu_seconds: int = 40
    wall_seconds: float = 600.0
    bytes: int = 2 << 30
    chunk: int = 50


@dataclass
class _Worker:
    """A process, the inputs it was given, and the one it is at."""

    attack: Attack
    process: Any
    inbox: Connection
    trace: IO[str]
    stop: int
    seed: int
    since: float = field(default_factory=time.monotonic)
    killed: Verdict | None = None


def run_campaign(
    attacks: Sequence[Attack],
    results: Results,
    *,
    seconds: float,
    folder: Path,
    n_processes: int,
    limits: Limits,
    n_inputs: int | None = None,
) -> None:
    """Try inputs until the time is over, or so many; the attack that had the least time first."""
    shared = {}
    for attack in attacks:
        place = folder / attack.name
        place.mkdir()
        with quiet():
            shared[attack.name] = attack.prepare(place)
    end = time.monotonic() + seconds
    workers: list[_Worker] = []

    def goes_on() -> bool:
        return time.monotonic() < end and (n_inputs is None or results.n_reserved < n_inputs)

    while workers or goes_on():
        while len(workers) < n_processes and goes_on():
            attack = min(attacks, key=lambda attack: results.spent(attack.name))
            first = results.reserve(attack.name, limits.chunk)
            workers.append(_start(attack, shared[attack.name], first, first + limits.chunk, limits))
        wait([worker.inbox for worker in workers], timeout=0.1)
        for worker in list(workers):
            if not _attend(worker, results, limits):
                workers.remove(worker)
                if worker.seed < worker.stop and time.monotonic() < end:
                    rest = (worker.seed, worker.stop)
                    workers.append(_start(worker.attack, shared[worker.attack.name], *rest, limits))


def one_input(attack: Attack, shared: Any, seed: int, *, raises: bool = False) -> Verdict:
    """Try one input in this process; `raises`: let its error be seen instead of judging it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, quiet():
        random = np.random.default_rng(seed)
        if raises:
            attack.attack(random, shared, Path(folder))
        return judge(lambda: attack.attack(random, shared, Path(folder)))


def _start(attack: Attack, shared: Any, first: int, stop: int, limits: Limits) -> _Worker:
    inbox, outbox = _FORK.Pipe(duplex=False)
    trace = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the worker is forgotten
    arguments = (attack, shared, range(first, stop), limits, outbox, trace)
    process = _FORK.Process(target=_work, args=arguments)
    process.start()
    outbox.close()
    return _Worker(attack, process, inbox, trace, stop, first)


def _work(
    attack: Attack, shared: Any, seeds: range, limits: Limits, outbox: Connection, trace: IO[str]
) -> None:
    """The forked process: verdicts of inputs, sent as (seed, verdict or None, CPU seconds)."""
    own = _virtual_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (own + 2 * limits.bytes, resource.RLIM_INFINITY))
    # Written even while C code runs, or after it failed; then the signal ends the process.
    faulthandler.enable(trace, all_threads=False)
    faulthandler.register(signal.SIGXCPU, file=trace, all_threads=False, chain=True)
    for seed in seeds:
        used = time.process_time()
        most = int(used) + limits.cpu_seconds + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        outbox.send((seed, None, 0.0))
        verdict = one_input(attack, shared, seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if peak > limits.bytes and verdict.outcome in ("accepted", "refused"):
            verdict = Verdict("memory", f"{verdict.outcome} with a peak of {peak >> 20} MiB")
        outbox.send((seed, verdict, time.process_time() - used))
        if peak > limits.bytes:
            break


def _attend(worker: _Worker, results: Results, limits: Limits) -> bool:
    """Take what a worker sent; whether it goes on."""
    ended = not worker.process.is_alive()
    with contextlib.suppress(EOFError, ConnectionError):
        while worker.inbox.poll():
            seed, verdict, seconds = worker.inbox.recv()
            worker.since = time.monotonic()
            worker.seed = seed
            if verdict is not None:
                results.add(worker.attack.name, seed, verdict, seconds)
                worker.seed = seed + 1
    if not ended:
        _kill_if_beyond(worker, limits)
        return True
    worker.process.join()
    code = worker.process.exitcode
    if worker.seed < worker.stop and code != 0:
        verdict = worker.killed or _verdict_of_death(code, worker.trace)
        results.add(worker.attack.name, worker.seed, verdict, limits.cpu_seconds)
        worker.seed += 1
    return False


def _kill_if_beyond(worker: _Worker, limits: Limits) -> None:
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{worker.process.pid}/statm").read_text().split()[1])
        if pages * resource.getpagesize() > limits.bytes:
            worker.killed = Verdict("memory", "killed while it grew", f"{pages >> 8} MiB")
    if time.monotonic() - worker.since > limits.wall_seconds:
        worker.killed = Verdict("hang", "killed while it waited", f"{limits.wall_seconds:g} s")
    if worker.killed:
        worker.process.kill()


def _verdict_of_death(code: int, trace: IO[str]) -> Verdict:
    trace.seek(0)
    lines = [line.strip() for line in trace if "/exfam/" in line]
    where = lines[0].rpartition("/exfam/")[2] if lines else "no line of exfam"
    if code == -signal.SIGXCPU:
        return Verdict("hang", where, "the limit of CPU time")
    name = signal.Signals(-code).name if code < 0 else f"status {code}"
    return Verdict("traceback", where, f"{name}: the process ended")


def _virtual_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and without what is printed.

    >>> with quiet():
    ...     print("nothing")
    """
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            yield
