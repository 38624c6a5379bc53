"""The options of a command, as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exfam.checks import ExfamError, shown
from exfam.cli.kinds import Kind, text


@dataclass(frozen=True)
class Option:
    """One option, `--name`.

    `kind`: turns a word, or YAML, into the value
    `help`: what it is, and its default
    `default`: its value where it is not given (default None)
    `metavar`: what stands for the value in the help (default "VALUE")
    `short`: a short form, such as "-o" (default None)
    `many`: whether it may be given again, its values making a list (default False)
    `positional`: whether a word without an option may stand for it (default False)
    `required`: whether it must be given (default False)
    `section`: its heading in the help; "" for the first one (default "")
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    metavar: str = "VALUE"
    short: str | None = None
    many: bool = False
    positional: bool = False
    required: bool = False
    section: str = ""

    @property
    def long(self) -> str:
        """The option as it is written."""
        return "--" + (self.name if self.name == "print_config" else self.name.replace("_", "-"))


CONFIG = Option("config", text, "options from a YAML file; others given beside it win", many=True)
PRINT_CONFIG = Option("print_config", text, "print all options as YAML for --config, and stop")


@dataclass(frozen=True)
class Form:
    """A command and its options.

    `example`: command lines that work, one after the other
    `notes`: what else the help says (default "")
    `config`: whether it takes `--config FILE` and `--print_config` (default False)
    `spoken`: the command as errors name it; "exfam" and its name if empty (default "")
    """

    command: str
    title: str
    options: Sequence[Option]
    example: str
    notes: str = ""
    config: bool = False
    spoken: str = ""

    @property
    def spoken_name(self) -> str:
        """The command as errors name it."""
        return self.spoken or f"exfam {self.command}"

    @property
    def positional(self) -> list[Option]:
        """The options that stand without a name, in this order."""
        return [option for option in self.options if option.positional]


def convert(option: Option, value: Any, *, where: str = "") -> Any:
    """The value that an option takes for a word or for YAML.

    Raises ExfamError naming the option and the value.
    """
    try:
        return option.kind(value)
    except ValueError as error:
        raise ExfamError(f"`{option.long}` {error}, got {shown(value)}{where}.") from error
