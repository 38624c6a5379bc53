"""kill -9 at random moments: what is on disk is the old or the new, and goes on to the same bits.

`python -m fuzz.kills --kills 1000`, or `make kills`.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Before NumPy and torch are loaded: a process a core, one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fuzz.campaign import quiet
from fuzz.results import provenance
from fuzz.victims import VICTIMS

_FORK = multiprocessing.get_context("fork")


class _Whole(NamedTuple):
    """A victim's states before and after its work, and the seconds that this takes."""

    before: str
    after: str
    seconds: float


class _Trial(NamedTuple):
    """What a seed did: how often its victim was killed at work, and what was lost, if anything."""

    name: str
    seed: int
    kills: int
    failure: str


def main(words: list[str] | None = None) -> int:
    """Kill until there are enough kills or the time is over; 1 if anything was lost."""
    options = _parser().parse_args(words)
    names = options.only or [*VICTIMS]
    document: dict[str, Any] = {"seed": options.seed, "next_seed": options.seed}
    document |= {"victims": {}, "failures": []}
    if options.resume and options.resume.exists():
        document = json.loads(options.resume.read_text(encoding="utf-8"))
    if options.replay is not None:
        names, document["next_seed"], options.kills = [options.replay[0]], int(options.replay[1]), 1
    file = options.resume or options.output
    print(f"seeds from {document['next_seed']} on, {options.minutes:g} minutes, results in {file}")
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        _campaign(names, document, options)
    tempfile.tempdir = None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(provenance() | document, indent=1) + "\n", encoding="utf-8")
    for name, counts in sorted(document["victims"].items()):
        print(f"{name:<26}{counts['kills']:>6} kills  {counts['lost']:>4} lost")
    print(f"{'all':<26}{_n_kills(document):>6} kills  {len(document['failures']):>4} lost")
    for failure in document["failures"]:
        print(f"{failure['failure']}\n    {failure['replay']}")
    return int(bool(document["failures"]))


def _campaign(names: list[str], document: dict[str, Any], options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes
    enough = _n_kills(document) + options.kills
    whole = {name: _undisturbed(name) for name in names}
    tasks = ((seed, names, whole) for seed in range(document["next_seed"], 1 << 62))
    with _FORK.Pool(options.processes) as pool:
        while time.monotonic() < end and _n_kills(document) < enough:
            some = [next(tasks) for _ in range(min(8, options.kills) * options.processes)]
            for trial in pool.imap_unordered(_trial, some):
                _count(document, trial)
            document["next_seed"] += len(some)


def _n_kills(document: dict[str, Any]) -> int:
    return sum(counts["kills"] for counts in document["victims"].values())


def _count(document: dict[str, Any], trial: _Trial) -> None:
    counts = document["victims"].setdefault(trial.name, {"kills": 0, "lost": 0})
    counts["kills"] += trial.kills
    if trial.failure:
        counts["lost"] += 1
        replay = f'python -m fuzz.kills --replay "{trial.name}" {trial.seed}'
        document["failures"].append({"failure": f"{trial.name}: {trial.failure}", "replay": replay})


def _undisturbed(name: str) -> _Whole:
    """The states before and after, and the time between them, of work that is not killed."""
    victim = VICTIMS[name]
    with tempfile.TemporaryDirectory() as place, quiet():
        # In this process, so that all others have what is compiled and imported.
        victim.before(Path(place))
        victim.work(Path(place))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _finish(_child(lambda: victim.before(folder)))
        before = victim.state(folder)
        started = time.monotonic()
        _finish(_child(lambda: victim.work(folder)))
        seconds, after = time.monotonic() - started, victim.state(folder)
    if after in (before, "none"):
        raise RuntimeError(f"{name} must change what is on disk")
    return _Whole(before, after, seconds)


def _trial(task: tuple[int, list[str], dict[str, _Whole]]) -> _Trial:
    """Kill one victim once or twice, look at what is on disk each time, and let it go on."""
    seed, names, whole = task
    name, random = names[seed % len(names)], np.random.default_rng(seed)
    victim, kills = VICTIMS[name], 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, quiet():
        folder = Path(place)
        try:
            _finish(_child(lambda: victim.before(folder)))
            for _ in range(1 + int(random.random() < 0.3)):
                child = _child(lambda: victim.work(folder))
                time.sleep(whole[name].seconds * 1.1 * random.random())
                kills += _kill(child)
                state = victim.state(folder)
                if state not in (whole[name].before, whole[name].after):
                    return _Trial(name, seed, kills, "neither the old nor the new is on disk")
            _finish(_child(lambda: victim.work(folder)))
            if victim.state(folder) != whole[name].after:
                return _Trial(name, seed, kills, "going on led to other bits")
        except Exception as error:
            return _Trial(name, seed, kills, f"{type(error).__name__}: {error}"[:400])
    return _Trial(name, seed, kills, "")


def _child(work: Callable[[], None]) -> int:
    """A forked process that does some work in silence."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with quiet():
            work()
        status = 0
    finally:
        os._exit(status)


def _kill(pid: int) -> bool:
    """Kill a process; whether it was still at work."""
    os.kill(pid, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def _finish(pid: int) -> None:
    status = os.waitpid(pid, 0)[1]
    if status:
        raise RuntimeError(f"work that was not killed ended with status {status}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (default 0)")
    parser.add_argument("--only", nargs="+", choices=VICTIMS, help="these alone")
    parser.add_argument("--output", type=Path, default=Path("out/kills.json"), help="results")
    parser.add_argument("--resume", type=Path, help="results to go on from, and to write")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", nargs=2, metavar=("VICTIM", "SEED"), help="one trial again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
