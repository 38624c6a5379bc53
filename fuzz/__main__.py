"""The command: `python -m fuzz --minutes 10`, or `python -m fuzz --replay CATEGORY SEED`."""

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

# Before NumPy and torch are loaded: a process a core, one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from fuzz.attacks import ATTACKS, load_attack
from fuzz.campaign import Limits, one_input, run_campaign
from fuzz.results import Results


def main(words: list[str] | None = None) -> int:
    """Run a campaign, or one input again; 1 if anything failed."""
    options = _parser().parse_args(words)
    if options.replay:
        return _replay(*options.replay)
    names = options.only or [*ATTACKS]
    if options.resume and options.resume.exists():
        results = Results.resumed(options.resume, names)
    else:
        results = Results(names, seed=options.seed)
    file = options.resume or options.output
    print(f"seeds from {results.seed} on, {options.minutes:g} minutes, results in {file}")
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        # What is written to the temporary directory by inputs that are killed goes with it.
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        run_campaign(
            [load_attack(name) for name in names],
            results,
            seconds=60 * options.minutes,
            folder=Path(folder),
            n_processes=options.processes,
            limits=Limits(chunk=min(50, max(1, (options.inputs or 10**9) // len(names)))),
            n_inputs=options.inputs,
        )
    tempfile.tempdir = None
    results.write(file)
    print(results.table())
    return int(results.n_failed > 0)


def _replay(name: str, seed: str) -> int:
    """Run one input in this process, and let its error be seen."""
    attack = load_attack(name)
    with tempfile.TemporaryDirectory() as folder:
        verdict = one_input(attack, attack.prepare(Path(folder)), int(seed), raises=True)
    print(verdict)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--inputs", type=int, help="stop after so many, if time is left")
    parser.add_argument("--seed", type=int, default=0, help="of the first input (default 0)")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, help="these categories alone")
    parser.add_argument("--output", type=Path, default=Path("out/fuzz.json"), help="results")
    parser.add_argument("--resume", type=Path, help="results to go on from, and to write")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", nargs=2, metavar=("CATEGORY", "SEED"), help="one input again")
    return parser


if __name__ == "__main__":
    sys.exit(main())
