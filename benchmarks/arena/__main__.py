"""The command: `python -m benchmarks.arena --only msweb`."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

# Before NumPy and torch are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import benchmarks.arena
from benchmarks.arena.kind import Kind
from benchmarks.arena.kinds import all_kinds
from benchmarks.arena.page import write_page
from benchmarks.arena.results import fit_and_judge, read_rows, result_path
from benchmarks.arena.tables import describe, headers, table
from rich.console import Console
from rich.table import Table

console = Console(highlight=False, width=130)


def main(words: list[str] | None = None) -> int:
    """Fit what is not there yet, then show the tables; 1 if a fit failed."""
    kinds = all_kinds()
    options = _parser(kinds).parse_args(words)
    wanted = [
        (kind, dataset, contender, seed)
        for kind in kinds.values()
        for dataset in _datasets(kind, options)
        for contender in kind.contenders
        if not options.contenders or contender in options.contenders
        for seed in range(options.seeds if kind.contenders[contender].is_random else 1)
    ]
    if options.one is not None:
        kind, dataset, contender, _ = wanted[0]
        fit_and_judge(kind, dataset, contender, options.one, folder=options.out)
        return 0
    failed = 0
    for _, dataset, contender, seed in wanted:
        if not result_path(options.out, dataset, contender, seed).exists():
            failed += not _fit_in_a_process(dataset, contender, seed, out=options.out)
    for kind in kinds.values():
        _show(kind, _datasets(kind, options), options.out)
    if options.page is not None:
        write_page(options.page, kinds.values(), read_rows(options.out))
    return int(failed > 0)


def _datasets(kind: Kind, options: argparse.Namespace) -> list[str]:
    if options.only:
        return [name for name in kind.sources if name in options.only]
    return [name for name, source in kind.sources.items() if options.full or not source.full]


def _fit_in_a_process(dataset: str, contender: str, seed: int, *, out: Path) -> bool:
    """A process of its own, whose CPU seconds and peak memory are those of the contender."""
    console.print(f"{dataset}: {contender}, seed {seed}")
    words = ["--only", dataset, "--contenders", contender, "--one", str(seed), "--out", str(out)]
    done = subprocess.run([sys.executable, "-m", "benchmarks.arena", *words])
    return done.returncode == 0


def _show(kind: Kind, datasets: list[str], out: Path) -> None:
    rows = read_rows(out)
    for dataset in datasets:
        cells = table(rows, kind, dataset)
        if not cells:
            continue
        shown = Table(title=f"{kind.name}: {dataset}")
        for index, header in enumerate(headers(kind)):
            shown.add_column(header, justify="right" if index else "left")
        for row in cells:
            shown.add_row(*row)
        console.print(shown)
        console.print(describe(rows, kind, dataset))


def _parser(kinds: dict[str, Kind]) -> argparse.ArgumentParser:
    datasets = [name for kind in kinds.values() for name in kind.sources]
    contenders = dict.fromkeys(name for kind in kinds.values() for name in kind.contenders)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arena",
        description=benchmarks.arena.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=datasets, metavar="DATASET", help="of these")
    parser.add_argument("--contenders", nargs="+", choices=list(contenders), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, help="of random contenders (default 3)")
    parser.add_argument("--full", action="store_true", help="large data sets as well")
    parser.add_argument("--out", type=Path, default=Path("out/arena"), help="folder of results")
    parser.add_argument("--page", type=Path, help="a Markdown page of all results there are")
    # Of the processes that fit.
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
