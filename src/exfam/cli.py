"""The command line: a table of commands, each of which imports what it needs when chosen."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from exfam.checks import ExfamError

__all__ = ["COMMANDS", "Command", "build_parser", "main"]


class Command(NamedTuple):
    """A command: its one line in `exfam --help`, its options and what it does."""

    title: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, or 2 after an error that the user can mend.

    >>> main(["reproduce", "--list"])  # doctest: +ELLIPSIS
    efa-synthetic  ...
    0
    """
    chosen = build_parser().parse_args(arguments)
    try:
        COMMANDS[chosen.command].run(chosen)
    except (ExfamError, OSError) as error:
        print(f"exfam {chosen.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"exfam {chosen.command}: interrupted", file=sys.stderr)
        return 130
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands.

    >>> build_parser().parse_args(["demo", "--out", "folder"]).out
    PosixPath('folder')
    """
    parser = argparse.ArgumentParser(
        prog="exfam", description="Every observation, given its context."
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        options = commands.add_parser(name, help=command.title, description=command.title)
        command.add_options(options)
    return parser


class _PrintVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from exfam import __version__

        print(f"exfam {__version__}")
        parser.exit()


def _demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="FOLDER",
        help="where the model folder and the page go (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of data and fits")


def _demo(chosen: argparse.Namespace) -> None:
    importlib.import_module("exfam.reproduce.demo").run(out=chosen.out, seed=chosen.seed)


def _reproduce_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="the experiment, one of --list")
    add("--list", action="store_true", help="print all names and stop")
    add("--seeds", type=int, metavar="N", help="fits per row (default: the experiment's own)")
    add("--fast", action="store_true", help="a smoke run: tiny fits, figures that mean nothing")
    add("--only", action="append", default=[], metavar="TASK", help="one task; may be repeated")
    add("--json", type=Path, metavar="FILE", help="write the rows there too")
    add("--out", type=Path, metavar="FOLDER", help="write the plots there")


def _reproduce(chosen: argparse.Namespace) -> None:
    from exfam.reproduce import EXPERIMENTS

    if chosen.list:
        width = max(map(len, EXPERIMENTS))
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:<{width}}  {experiment.title}")
        return
    from exfam.reproduce.harness import Options, reproduce

    options = Options(seeds=chosen.seeds, fast=chosen.fast, only=tuple(chosen.only), out=chosen.out)
    reproduce(chosen.name, options=options, json=chosen.json)


COMMANDS = {
    "demo": Command(
        "simulate ratings, fit, print what was found, write a model and a page",
        _demo_options,
        _demo,
    ),
    "reproduce": Command("print a paper's table with our columns", _reproduce_options, _reproduce),
}

if __name__ == "__main__":
    sys.exit(main())
