"""The command line: a table of commands, each imported when it is chosen."""

import contextlib
import difflib
import functools
import importlib.metadata
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from exfam.cli.options import Form


class Command(NamedTuple):
    """A command: its one line in `exfam --help`, and where its form is, as module:NAME.

    A form that depends on the words of the command line is a function of them.
    """

    title: str
    form: str


COMMANDS = {
    name: Command(title, f"exfam.cli.{form}")
    for name, title, form in (
        ("fit", "fit a model to a file and save it", "fit:fit_form"),
        ("fit words", "fit word vectors to a text and save them", "fit:fit_words_form"),
        ("neighbors", "the words nearest to words", "vectors:NEIGHBORS"),
        ("analogy", "a is to b as c is to which word?", "vectors:ANALOGY"),
        (
            "evaluate words",
            "word vectors beside what people say of pairs, and analogies",
            "vectors:EVALUATE",
        ),
        (
            "evaluate recommendations",
            "hide items, and look for them among those recommended",
            "evaluations:EVALUATE",
        ),
        ("convert", "word vectors from one format of files to another", "vectors:CONVERT"),
        ("probe positions", "how local and symmetric an encoder's attention is", "probes:PROBE"),
        ("prepare", "read a file once, for data larger than memory", "folders:PREPARE"),
        ("score", "log-likelihood of a file, in nats", "answers:SCORE"),
        ("predict", "values, or items, given their context, a row each", "answers:PREDICT"),
        ("recommend", "the most probable further items of each group", "answers:RECOMMEND"),
        ("similar", "the items most similar to items", "similar:SIMILAR"),
        ("explain", "what each piece of evidence added to a prediction", "answers:EXPLAIN"),
        ("info", "what a model or a prepared folder holds", "folders:INFO"),
        ("report", "a page about a model and its data", "folders:REPORT"),
        ("explore", "ask a model what if, in the browser", "exploring:EXPLORE"),
        (
            "demo",
            "simulate ratings, fit, print what was found, write a model and a page",
            "folders:DEMO",
        ),
        ("doctor", "what a bug report needs: versions, machine and a self-test", "doctor:DOCTOR"),
    )
}

# Further packages, such as exfam-studies, add commands: an entry point of this group names a dict
# like `COMMANDS`.
ENTRY_POINTS = "exfam.commands"
INTERRUPTED = 130
BROKEN_PIPE = 141
LONGEST = 1000
OF_MEMORY = "alloc|out of memory|storage size calculation overflowed"


@functools.cache
def commands() -> dict[str, Command]:
    """Our commands and those of other installed packages, by name."""
    added: dict[str, Command] = {}
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            added |= entry.load()
        except ImportError as error:
            _fail("exfam", f"the commands of {entry.name!r} are left out: {error}.")
    return COMMANDS | added


def form_of(name: str, words: Sequence[str] = ()) -> "Form":
    """The form of a command, given the words that follow its name."""
    form = pkgutil.resolve_name(commands()[name].form)
    return form(words) if callable(form) else form


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, 2 after an error that the user can mend, 130 after Ctrl-C.

    An error is one line on stderr, and nothing but results is on stdout.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        return _fail("exfam", "a command must be given, got none. `exfam --help` lists all.")
    if words[0] in ("-h", "--help"):
        print(_help(), end="")
        return 0
    if words[0] == "--version":
        from exfam import __version__

        print(f"exfam {__version__}")
        return 0
    name, rest = split_command(words)
    if name not in commands():
        close = difflib.get_close_matches(words[0], commands(), n=1)
        hint = f"Did you mean {close[0]}?" if close else "`exfam --help` lists all."
        return _fail("exfam", f"`COMMAND` must be one of exfam's, got {words[0]!r}. {hint}")
    return _run(name, rest)


def split_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command that words begin with, which may be of two, and its own words.

    A file called `words` is therefore given to `exfam fit` as ./words.
    """
    length = 2 if " ".join(words[:2]) in commands() and len(words) > 1 else 1
    return " ".join(words[:length]), list(words[length:])


def _run(name: str, words: list[str]) -> int:
    # Here, not above: with it comes NumPy, which `exfam --help` has no use for.
    from exfam.checks import ExfamError

    spoken = f"exfam {name}"
    names: list[str] = []
    try:
        with _short_warnings(spoken, names):
            from exfam.cli.parser import parse

            form = form_of(name, words)
            names.extend(option.name for option in form.options)
            chosen = parse(form, words)
            status = 0 if chosen is None else _answer(form, chosen)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has enough; nor may the interpreter complain when it flushes.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (ExfamError, OSError) as error:
        return _fail(spoken, _as_options(_message(error), names))
    except KeyboardInterrupt:
        return _fail(spoken, "interrupted", status=INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        # torch raises RuntimeError where numpy raises MemoryError.
        if isinstance(error, RuntimeError) and not re.search(OF_MEMORY, str(error).lower()):
            raise
        return _fail(spoken, "Memory must suffice, got less. Use less data, or smaller sizes.")
    return status


def _answer(form: "Form", chosen: Any) -> int:
    """Do what a command does; the exit status."""
    if form.run is not None:
        return form.run(chosen) or 0
    from exfam.cli.output import deliver, destination

    assert form.answers is not None
    to = destination(chosen.format, chosen.output)
    deliver(form.answers(chosen), to)
    return 0


def _help() -> str:
    width = max(map(len, commands()))
    listed = "\n".join(
        f"  {name:<{width}}  {command.title}" for name, command in commands().items()
    )
    return f"""usage: exfam COMMAND [options]

Every observation, given its context: from a file of observations to a model, and from a model to
scores, predictions and recommendations.

{listed}

`exfam COMMAND --help` lists the options of a command and shows an example.
`exfam --version` prints the version.
"""


def _fail(spoken: str, message: str, *, status: int = 2) -> int:
    """Say what is wrong in one line."""
    line = " ".join(message.split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    print(f"{spoken}: {line}".encode(errors="backslashreplace").decode(), file=sys.stderr)
    return status


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__


def _as_options(message: str, names: Sequence[str]) -> str:
    """A message that speaks of Python arguments, for those who write options."""

    def option(match: re.Match[str]) -> str:
        name, value = match[1] or match[2], match[4]
        if name not in names:
            return match[0]
        long = f"--{name.replace('_', '-')}"
        return f"`{long}`" if match[1] else f"{long} {value}" if value else long

    message = message.replace("`source`", "`FILE`").replace("`path`", "`MODEL`")
    # There are encodings of positions as well.
    message = re.sub(r"\bencoding=(\S+) \(of a model file_encoding\)", r"file_encoding=\1", message)
    return re.sub(r"`(\w+)`|\b(\w+)=(?:True|(['\"])([\w.,-]+)\3)", option, message)


@contextlib.contextmanager
def _short_warnings(spoken: str, names: Sequence[str]) -> Iterator[None]:
    """Warnings as one line each, without file and source line, that speak of options."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        line = " ".join(_as_options(str(message), names).split())
        print(f"{spoken}: warning: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
