"""From a form to jsonargparse's parser, and from words to values."""

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser

from exfam.checks import ExfamError
from exfam.cli.configs import read_config
from exfam.cli.kinds import flag
from exfam.cli.options import CONFIG, PRINT_CONFIG, Form, Option
from exfam.cli.words import spell_out

__all__ = ["build_parser", "parse"]

HELP = ("-h", "--help")


def parse(form: Form, words: Sequence[str]) -> Any:
    """The values of a form's options; None if the help or a configuration was asked for instead.

    What is given by words wins over a configuration, which wins over defaults.
    Raises ExfamError for anything that is no option or no value of it.
    """
    parser = build_parser(form)
    if any(word in HELP for word in words):
        print(parser.format_help(), end="")
        return None
    spelled = spell_out(form, words)
    for word in spelled:
        if word.startswith("--config="):
            read_config(form, word.partition("=")[2])
    try:
        chosen = parser.parse_args(spelled)
    except SystemExit:  # --print_config has printed
        return None
    except (argparse.ArgumentError, argparse.ArgumentTypeError) as error:
        raise ExfamError(f"Options must be readable, got {error}.") from error
    for option in form.options:
        if option.required and getattr(chosen, option.name) is None:
            written = option.metavar if option.place else f"{option.long} {option.metavar}"
            raise ExfamError(
                f"`{written}` must be given. {option.help[0].upper()}{option.help[1:]}."
            )
    return chosen


def build_parser(form: Form) -> ArgumentParser:
    """jsonargparse's parser of a form.

    >>> form = Form("demo", "Show.", [], example="exfam demo")
    >>> print(build_parser(form).format_help().splitlines()[0])
    usage: exfam demo [options]
    """
    parser = ArgumentParser(
        prog=f"exfam {form.command}",
        usage=_usage(form),
        description=f"{form.title}.",
        epilog=_epilog(form),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
        add_help=False,
    )
    if form.config:
        parser.add_argument(CONFIG.long, action="config", metavar="FILE", help=CONFIG.help)
        for action in parser._actions:
            if action.dest == PRINT_CONFIG.name:
                action.help, action.metavar = PRINT_CONFIG.help, ""
    sections: dict[str, Any] = {"": parser}
    for option in form.options:
        if option.section not in sections:
            sections[option.section] = parser.add_argument_group(option.section)
        _add(sections[option.section], option)
    parser.add_argument(*HELP, action="help", help="show this")
    return parser


def _add(group: Any, option: Option) -> None:
    names = [option.long] if option.short is None else [option.short, option.long]
    group.add_argument(
        *names,
        type=option.kind,
        default=option.default,
        nargs="?" if option.kind is flag else None,
        metavar=option.metavar,
        help=option.help.replace("%", "%%"),
    )


def _usage(form: Form) -> str:
    places = [place.metavar if place.required else f"[{place.metavar}]" for place in form.places]
    needed = [
        f"{option.short or option.long} {option.metavar}"
        for option in form.options
        if option.required and not option.place
    ]
    return " ".join(["exfam", form.command, *places, *needed, "[options]"])


def _epilog(form: Form) -> str:
    lines = "\n".join(f"  {line}" for line in form.example.strip().splitlines())
    notes = "\n\n".join(textwrap.fill(part, 79) for part in form.notes.strip().split("\n\n"))
    return f"{notes}\n\nExample:\n{lines}".strip()
