"""From the words of a command line to the values of a form's options, and a form's help."""

import argparse
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import yaml

from exfam.checks import ExfamError
from exfam.cli.configs import read_config
from exfam.cli.kinds import flag
from exfam.cli.options import CONFIG, PRINT_CONFIG, Form
from exfam.cli.words import read_words

HELP = ("-h", "--help")
# What a printed configuration may leave out.
_SKIPPED = ("skip_default", "skip_null")


def parse(form: Form, words: Sequence[str]) -> Namespace | None:
    """The values of a form's options; None if the help or a configuration was printed instead.

    What is given by words wins over a configuration, which wins over defaults.
    Raises ExfamError for anything that is no option or no value of it.
    """
    if any(word in HELP for word in words):
        print(help_of(form), end="")
        return None
    given = read_words(form, words)
    values = {option.name: option.default for option in form.options}
    for path in given.pop(CONFIG.name, ()):
        values |= read_config(form, path)
    printed = given.pop(PRINT_CONFIG.name, None)
    values |= given
    if printed is not None:
        _print_config(form, values, printed)
        return None
    for option in form.options:
        if option.required and values[option.name] is None:
            written = option.metavar if option.positional else f"{option.long} {option.metavar}"
            raise ExfamError(
                f"`{written}` must be given. {option.help[0].upper()}{option.help[1:]}."
            )
    return Namespace(**values)


def _print_config(form: Form, values: dict[str, Any], skipped: Sequence[str]) -> None:
    for word in skipped:
        if word not in ("", *_SKIPPED):
            raise ExfamError(
                f"`{PRINT_CONFIG.long}` must be one of {', '.join(_SKIPPED)}, got {word!r}."
            )
    defaults = {option.name: option.default for option in form.options}
    kept = {
        name: value
        for name, value in values.items()
        if not ("skip_null" in skipped and value is None)
        and not ("skip_default" in skipped and value == defaults[name])
    }
    print(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True), end="")


def help_of(form: Form) -> str:
    """What `--help` prints."""
    example = textwrap.indent(form.example.strip(), "  ")
    notes = "\n\n".join(textwrap.fill(part, 79) for part in form.notes.strip().split("\n\n"))
    parser = argparse.ArgumentParser(
        usage=_usage(form),
        description=f"{form.title}.",
        epilog=f"{notes}\n\nExample:\n{example}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    if form.config:
        parser.add_argument(CONFIG.long, metavar="FILE", help=CONFIG.help)
        parser.add_argument(PRINT_CONFIG.long, action="store_true", help=PRINT_CONFIG.help)
    sections: dict[str, Any] = {"": parser}
    for option in form.options:
        if option.section not in sections:
            sections[option.section] = parser.add_argument_group(option.section)
        names = [option.long] if option.short is None else [option.short, option.long]
        sections[option.section].add_argument(
            *names,
            nargs="?" if option.kind is flag else None,
            metavar=option.metavar,
            help=option.help.replace("%", "%%"),
        )
    parser.add_argument(*HELP, action="help", help="show this")
    return parser.format_help()


def _usage(form: Form) -> str:
    positional = [
        option.metavar if option.required else f"[{option.metavar}]" for option in form.positional
    ]
    needed = [
        f"{option.short or option.long} {option.metavar}"
        for option in form.options
        if option.required and not option.positional
    ]
    return " ".join(["exfam", form.command, *positional, *needed, "[options]"])
